package ledgertest

import (
	"bytes"
	"fmt"
	"math"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
)

var recordChecks = []check{
	{"record/not there", func(r *rig) {
		s := r.open()
		_, err := s.Load(r.ctx, "none")
		require.ErrorIs(r, err, ledger.ErrNotFound, "Load of a record that there is not")
		for _, rev := range []uint64{1, math.MaxInt64, math.MaxUint64} {
			rec := &ledger.Record{Key: "none", Rev: rev}
			require.ErrorIsf(r, s.Swap(r.ctx, rec), ledger.ErrConflict, "Swap at revision %d of a record that there is not", rev)
			require.Equalf(r, rev, rec.Rev, "Rev after a conflict")
		}
		_, err = s.Load(r.ctx, "none")
		require.ErrorIs(r, err, ledger.ErrNotFound, "Load after swaps that failed")
	}},
	{"record/all of it comes back", func(r *rig) {
		s, other := r.open(), r.open()
		now := r.now(s)
		first := r.put(s, ledger.Record{
			Key: "k", Queue: "q", Owner: "o", Body: []byte("one"), Wake: now.Add(time.Hour), Keep: now.Add(2 * time.Hour),
		})
		r.same(first, r.load(s, "k"), "Load of what was written")
		r.same(first, r.load(other, "k"), "Load through another handle")
		second := r.put(other, ledger.Record{
			Key: "k", Rev: 1, Queue: "q2", Owner: "o2", Body: []byte("two, longer"), Wake: now.Add(3 * time.Hour), Keep: now.Add(4 * time.Hour),
		})
		r.same(second, r.load(s, "k"), "Load of what another handle has changed")
		third := r.put(s, ledger.Record{Key: "k", Rev: 2})
		r.same(third, r.load(other, "k"), "Load of what was made empty")
	}},
	{"record/swap compares", func(r *rig) {
		s, other := r.open(), r.open()
		at3 := ledger.Record{Key: "k", Body: []byte("a")}
		for range 3 {
			at3 = *r.put(s, at3)
		}
		for _, rev := range []uint64{0, 1, 2, 4, math.MaxInt64, math.MaxUint64} {
			for _, h := range []ledger.Store{s, other} {
				rec := ledger.Record{Key: "k", Rev: rev, Queue: "x", Owner: "x", Body: []byte("x"), Wake: r.now(s), Keep: r.now(s)}
				was := rec
				err := h.Swap(r.ctx, &rec, ledger.Item{N: 1})
				require.ErrorIsf(r, err, ledger.ErrConflict, "Swap at revision %d of a record at revision 3", rev)
				require.Equal(r, was, rec, "a swap that failed changed its argument")
			}
			r.unchanged(s, &at3, nil, fmt.Sprintf("a swap at revision %d", rev))
		}
		r.nothingDue(s, "after swaps that failed", "x")
		r.counted(s.Count(r.ctx, "x", 10)).is(0, "Count of an owner whose swaps failed")
	}},
	{"record/is the caller's", func(r *rig) {
		s := r.open()
		now := r.now(s).Add(-time.Minute)
		body, item := []byte("body"), []byte("item")
		rec := &ledger.Record{Key: "k", Queue: "q", Body: body, Wake: now}
		require.NoError(r, s.Swap(r.ctx, rec, ledger.Item{N: 1, Body: item}))
		want := &ledger.Record{Key: "k", Rev: 1, Queue: "q", Body: []byte("body"), Wake: now}
		require.Equal(r, *want, *rec, "Swap changed more of its argument than Rev")
		items := []ledger.Item{{N: 1, Body: []byte("item")}}

		body[0], item[0], rec.Queue, rec.Rev = 'X', 'X', "other", 7
		r.unchanged(s, want, items, "the caller changed what it had given to Swap")

		loaded := r.load(s, "k")
		loaded.Body[0], loaded.Queue, loaded.Rev = 'X', "other", 7
		got, err := s.Items(r.ctx, "k", 0, 9)
		require.NoError(r, err)
		require.Len(r, got, 1)
		got[0].Body[0], got[0].N = 'X', 9
		listed, err := s.List(r.ctx, []string{"q"}, "", 9)
		require.NoError(r, err)
		require.Len(r, listed, 1)
		listed[0].Body[0], listed[0].Key = 'X', "x"
		for watched, err := range s.Watch(r.ctx, "k", 0) {
			require.NoError(r, err)
			watched.Body[0], watched.Key = 'X', "x"
			break
		}
		r.unchanged(s, want, items, "the caller changed what it had got")

		mine := r.takeNow(s, ledger.Take{Queues: []string{"q"}, Limit: 1, Lease: time.Hour})
		mine[0].Body[0], mine[0].Key = 'X', "x"
		require.Equal(r, "body", string(r.load(s, "k").Body), "the body after the caller changed what it had taken")
	}},
	{"record/times", func(r *rig) {
		s := r.open()
		zone := time.FixedZone("", 5*3600+1800)
		for i, t := range []time.Time{
			{},
			time.Unix(0, 0), time.UnixMicro(-1), time.UnixMicro(1), time.Unix(-1, 999_999_999), time.Unix(1, 1999),
			time.Date(2026, 7, 28, 12, 0, 0, 123_456_789, zone),
			time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC), time.Date(1969, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
			time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC),
			time.Now(), // with a monotonic reading
		} {
			key := fmt.Sprintf("t%d", i)
			rec := r.put(s, ledger.Record{Key: key, Wake: t})
			require.Equal(r, t, rec.Wake, "Swap changed its argument's Wake")
			r.same(rec, r.load(s, key), fmt.Sprintf("a record whose Wake is %v", t))
			rec.Wake, rec.Keep = time.Time{}, t
			rec = r.put(s, *rec)
			r.same(rec, r.load(s, key), fmt.Sprintf("a record whose Keep is %v", t))
		}
	}},
	{"record/now", func(r *rig) {
		s, other := r.open(), r.open()
		before := r.now(s)
		r.pause(20 * time.Millisecond)
		after := r.now(other)
		require.GreaterOrEqual(r, after.Sub(before), 15*time.Millisecond, "how far the clock moved in 20 ms")
	}},
	{"record/bodies", func(r *rig) {
		s, other := r.open(), r.open()
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		for name, body := range map[string][]byte{
			"nil": nil, "empty": {}, "binary": all, "zeros": make([]byte, 100), "backslashes": []byte(`\x00\\`), "invalid-utf8": {0xff, 0xfe, 0},
			"1MiB": bytes.Repeat(all, 4096), "longest": bytes.Repeat(all, ledger.MaxBody/256),
		} {
			items := []ledger.Item{{N: 1, Body: body}, {N: 2, Body: all}}
			rec := r.put(s, ledger.Record{Key: name, Body: body}, items...)
			r.unchanged(other, rec, items, "it was written with a body of "+name)
			rec.Body = append([]byte("changed"), all...)
			rec = r.put(other, *rec)
			r.unchanged(s, rec, items, "its body of "+name+" was replaced")
		}
	}},
	{"record/names", func(r *rig) {
		s, other := r.open(), r.open()
		now := r.now(s).Add(-time.Hour)
		var recs []*ledger.Record
		for _, name := range oddNames() {
			recs = append(recs, r.put(s, ledger.Record{Key: name, Queue: name, Owner: name, Body: []byte(name), Wake: now}, ledger.Item{N: 1, Body: []byte(name)}))
		}
		for _, rec := range recs {
			r.unchanged(other, rec, []ledger.Item{{N: 1, Body: rec.Body}}, "records with other names were written")
			r.counted(s.Count(r.ctx, rec.Key, 10)).is(1, "Count of the owner %q", rec.Key)
			r.listed(s.List(r.ctx, []string{rec.Key}, "", 10)).is([]string{rec.Key}, "List of the queue %q", rec.Key)
			got := r.takeNow(s, ledger.Take{Queues: []string{rec.Key}, Limit: 10, Lease: time.Hour})
			require.Equalf(r, []string{rec.Key}, keys(got), "Take from the queue %q", rec.Key)
		}
	}},
}

// oddNames are names that a store may confuse, or take for something else.
func oddNames() []string {
	all := make([]byte, 0, 94)
	for c := byte('!'); c <= '~'; c++ {
		all = append(all, c)
	}
	return []string{
		"a", "A", "b", "a0", "a_", "a%", "%", "_", "*", "?", "0", "00", "1", "1.0", "-1", "--", "/*", "NULL", "null", "true", "{}", "{a,b}", "[a]",
		`\`, `\\`, `\0`, `\N`, `'`, `''`, `"`, `""`, "`", "$1", ":a", "@a", "?1", "#", ";", "',", "x'61'", "E'a'", "',(select(1))--",
		`');DROP/**/TABLE/**/records;--`, "a'OR'1'='1",
		string(all[:60]), string(all[34:]), string(bytes.Repeat([]byte("k"), ledger.MaxName)), string(bytes.Repeat([]byte("k"), ledger.MaxName-1)),
	}
}
