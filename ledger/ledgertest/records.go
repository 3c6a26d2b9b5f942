package ledgertest

import (
	"bytes"
	"context"
	"errors"
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
		n, err := s.Count(r.ctx, "x", 10)
		require.NoError(r, err)
		require.Zero(r, n, "Count of an owner whose swaps failed")
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
			n, err := s.Count(r.ctx, rec.Key, 10)
			require.NoError(r, err)
			require.Equalf(r, 1, n, "Count of the owner %q", rec.Key)
			listed, err := s.List(r.ctx, []string{rec.Key}, "", 10)
			require.NoError(r, err)
			require.Equalf(r, []string{rec.Key}, keys(listed), "List of the queue %q", rec.Key)
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

var limitChecks = []check{
	{"limits/what is refused", func(r *rig) {
		s := r.open()
		now := r.now(s)
		ok := ledger.Record{Key: "k", Queue: "q", Owner: "o", Body: []byte("b"), Wake: now.Add(time.Hour)}
		with := func(change func(*ledger.Record)) *ledger.Record {
			rec := ok
			change(&rec)
			return &rec
		}
		long := string(bytes.Repeat([]byte("n"), ledger.MaxName+1))
		big := make([]byte, ledger.MaxBody+1)
		for _, c := range []struct {
			what  string
			rec   *ledger.Record
			items []ledger.Item
			err   error
		}{
			{"a long key", with(func(c *ledger.Record) { c.Key = long }), nil, ledger.ErrTooLarge},
			{"a long queue", with(func(c *ledger.Record) { c.Queue = long }), nil, ledger.ErrTooLarge},
			{"a long owner", with(func(c *ledger.Record) { c.Owner = long }), nil, ledger.ErrTooLarge},
			{"a long body", with(func(c *ledger.Record) { c.Body = big }), nil, ledger.ErrTooLarge},
			{"an item with a long body", &ok, []ledger.Item{{N: 1}, {N: 2, Body: big}}, ledger.ErrTooLarge},
			{"no key", with(func(c *ledger.Record) { c.Key = "" }), nil, ledger.ErrInvalid},
			{"a key with a zero byte", with(func(c *ledger.Record) { c.Key = "a\x00b" }), nil, ledger.ErrInvalid},
			{"a key with a space", with(func(c *ledger.Record) { c.Key = "a b" }), nil, ledger.ErrInvalid},
			{"a key that is not ASCII", with(func(c *ledger.Record) { c.Key = "é" }), nil, ledger.ErrInvalid},
			{"a queue that is not UTF-8", with(func(c *ledger.Record) { c.Queue = "\xff" }), nil, ledger.ErrInvalid},
			{"an owner with a line break", with(func(c *ledger.Record) { c.Owner = "a\n" }), nil, ledger.ErrInvalid},
			{"a time in the year 10000", with(func(c *ledger.Record) { c.Wake = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }), nil, ledger.ErrInvalid},
			{"a time before the year 1", with(func(c *ledger.Record) { c.Keep = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC) }), nil, ledger.ErrInvalid},
			{"item 0", &ok, []ledger.Item{{N: 1}, {N: 0}}, ledger.ErrInvalid},
			{"an item with a number of 64 bits", &ok, []ledger.Item{{N: math.MaxInt64 + 1}}, ledger.ErrInvalid},
		} {
			was := *c.rec
			require.ErrorIsf(r, s.Swap(r.ctx, c.rec, c.items...), c.err, "Swap with %s", c.what)
			require.Equalf(r, was, *c.rec, "Swap with %s changed its argument", c.what)
			_, err := s.Load(r.ctx, "k")
			require.ErrorIsf(r, err, ledger.ErrNotFound, "Load after Swap with %s", c.what)
		}
		n, err := s.Count(r.ctx, "o", 10)
		require.NoError(r, err)
		require.Zero(r, n, "Count after swaps that were refused")
	}},
	{"limits/names that no record has", func(r *rig) {
		s := r.open()
		r.put(s, ledger.Record{Key: "k", Wake: r.now(s).Add(-time.Hour)})
		for _, name := range []string{"", "\x00", "a\x00b", "\xff\xfe", "ключ", " ", string(bytes.Repeat([]byte("n"), 10_000))} {
			_, err := s.Load(r.ctx, name)
			require.ErrorIsf(r, err, ledger.ErrNotFound, "Load of %.20q", name)
			items, err := s.Items(r.ctx, name, 0, 10)
			require.NoErrorf(r, err, "Items of %.20q", name)
			require.Empty(r, items)
			n, err := s.Count(r.ctx, name, 10)
			require.NoErrorf(r, err, "Count of %.20q", name)
			require.Zerof(r, n, "Count of %.20q", name)
			listed, err := s.List(r.ctx, []string{name}, "", 10)
			require.NoErrorf(r, err, "List of %.20q", name)
			require.Emptyf(r, keys(listed), "List of %.20q", name)
			_, err = s.List(r.ctx, []string{"q"}, name, 10)
			require.NoErrorf(r, err, "List after %.20q", name)
			r.nothingDue(s, fmt.Sprintf("a queue named %.20q", name), name)
			ctx, cancel := context.WithTimeout(r.ctx, 50*time.Millisecond)
			for rec, err := range s.Watch(ctx, name, 0) {
				require.Nilf(r, rec, "Watch of %.20q", name)
				require.ErrorIsf(r, err, context.DeadlineExceeded, "Watch of %.20q", name)
			}
			cancel()
		}
	}},
	{"limits/below one", func(r *rig) {
		s := r.open()
		past := r.now(s).Add(-time.Hour)
		r.put(s, ledger.Record{Key: "k", Queue: "q", Owner: "o", Wake: past, Keep: past}, ledger.Item{N: 1})
		for _, limit := range []int{0, -1, math.MinInt} {
			items, err := s.Items(r.ctx, "k", 0, limit)
			require.NoError(r, err)
			require.Emptyf(r, items, "Items with limit %d", limit)
			listed, err := s.List(r.ctx, []string{"q"}, "", limit)
			require.NoError(r, err)
			require.Emptyf(r, keys(listed), "List with limit %d", limit)
			n, err := s.Count(r.ctx, "o", limit)
			require.NoError(r, err)
			require.Zerof(r, n, "Count with most %d", limit)
			n, err = s.Forget(r.ctx, limit)
			require.NoError(r, err)
			require.Zerof(r, n, "Forget with limit %d", limit)
			_, err = s.Take(r.ctx, ledger.Take{Queues: []string{"q"}, Limit: limit, Lease: time.Hour})
			require.ErrorIsf(r, err, ledger.ErrInvalid, "Take with limit %d", limit)
		}
		for _, lease := range []time.Duration{0, -time.Second, 999} {
			_, err := s.Take(r.ctx, ledger.Take{Queues: []string{"q"}, Limit: 1, Lease: lease})
			require.ErrorIsf(r, err, ledger.ErrInvalid, "Take with a lease of %v", lease)
		}
		require.EqualValues(r, 1, r.load(s, "k").Rev, "the revision after calls that do nothing")
		n, err := s.Forget(r.ctx, math.MaxInt)
		require.NoError(r, err)
		require.Equal(r, 1, n, "Forget without a limit")
	}},
}

var itemChecks = []check{
	{"items/in order", func(r *rig) {
		s, other := r.open(), r.open()
		body := func(n uint64) []byte { return fmt.Appendf(nil, "item %d", n) }
		item := func(n uint64) ledger.Item { return ledger.Item{N: n, Body: body(n)} }
		rec := r.put(s, ledger.Record{Key: "k"}, item(10), item(2))
		r.put(s, ledger.Record{Key: "l"}, ledger.Item{N: 2, Body: []byte("of another record")})
		rec = r.put(other, *rec, item(100), item(9), item(math.MaxInt64))
		rec = r.put(s, *rec, item(1))
		rec = r.put(s, *rec)
		want := []ledger.Item{item(1), item(2), item(9), item(10), item(100), item(math.MaxInt64)}
		r.unchanged(other, rec, want, "items came in any order")
		for _, c := range []struct {
			after uint64
			limit int
			want  []ledger.Item
		}{
			{0, 1, want[:1]}, {0, 3, want[:3]}, {1, 10, want[1:]}, {2, 2, want[2:4]}, {5, 1, want[2:3]}, {100, 10, want[5:]},
			{math.MaxInt64 - 1, 10, want[5:]}, {math.MaxInt64, 10, nil}, {math.MaxInt64 + 1, 10, nil}, {math.MaxUint64, 10, nil}, {0, math.MaxInt, want},
		} {
			got, err := other.Items(r.ctx, "k", c.after, c.limit)
			require.NoError(r, err)
			r.sameItems(c.want, got, fmt.Sprintf("Items after %d, at most %d", c.after, c.limit))
		}
		got, err := s.Items(r.ctx, "none", 0, 10)
		require.NoError(r, err, "Items of a record that there is not")
		require.Empty(r, got)
	}},
	{"items/a conflict changes nothing", func(r *rig) {
		s := r.open()
		items := []ledger.Item{{N: 1, Body: []byte("1")}, {N: 5, Body: []byte("5")}}
		rec := r.put(s, ledger.Record{Key: "k", Body: []byte("before")}, items...)
		for _, c := range []struct {
			what  string
			items []ledger.Item
		}{
			{"an item that there is", []ledger.Item{{N: 5}}},
			{"an item that there is, equal", []ledger.Item{{N: 5, Body: []byte("5")}}},
			{"an item that there is after others", []ledger.Item{{N: 2}, {N: 3}, {N: 1}}},
			{"the same item twice", []ledger.Item{{N: 7}, {N: 8}, {N: 7}}},
		} {
			next := *rec
			next.Body = []byte("after")
			require.ErrorIsf(r, s.Swap(r.ctx, &next, c.items...), ledger.ErrConflict, "Swap with %s", c.what)
			require.Equal(r, rec.Rev, next.Rev, "Rev after a conflict")
			r.unchanged(s, rec, items, "a swap with "+c.what)
		}
		require.ErrorIs(r, s.Swap(r.ctx, &ledger.Record{Key: "new"}, ledger.Item{N: 1}, ledger.Item{N: 1}), ledger.ErrConflict, "a new record with the same item twice")
		_, err := s.Load(r.ctx, "new")
		require.ErrorIs(r, err, ledger.ErrNotFound, "a new record whose items conflicted")
		require.ErrorIs(r, s.Swap(r.ctx, &ledger.Record{Key: "k", Rev: rec.Rev + 1}, ledger.Item{N: 9}), ledger.ErrConflict)
		r.unchanged(s, rec, items, "a swap at another revision with an item")
	}},
	{"items/many", func(r *rig) {
		s, other := r.open(), r.open()
		const n = 700
		var items []ledger.Item
		for i := range uint64(n) {
			items = append(items, ledger.Item{N: i + 1, Body: fmt.Appendf(nil, "item %d", i)})
		}
		rec := r.put(s, ledger.Record{Key: "k"}, items[:n/2]...)
		r.put(s, *rec, items[n/2:]...)
		r.hasItems(other, "k", items, "many items")
		var got []ledger.Item
		for after := uint64(0); ; {
			page, err := other.Items(r.ctx, "k", after, 99)
			require.NoError(r, err)
			if len(page) == 0 {
				break
			}
			got, after = append(got, page...), page[len(page)-1].N
		}
		r.sameItems(items, got, "items by pages")
	}},
}

var endChecks = []check{
	{"end/contexts", func(r *rig) {
		s := r.open()
		past := r.now(s).Add(-time.Hour)
		rec := r.put(s, ledger.Record{Key: "k", Queue: "q", Owner: "o", Wake: past, Keep: past})
		canceled, cancel := context.WithCancel(r.ctx)
		cancel()
		expired, cancel := context.WithDeadline(r.ctx, time.Now().Add(-time.Second))
		defer cancel()
		for name, method := range methods(s, "k") {
			require.ErrorIsf(r, method(canceled), context.Canceled, "%s with a context that was canceled", name)
			require.ErrorIsf(r, method(expired), context.DeadlineExceeded, "%s with a context whose time is over", name)
		}
		r.unchanged(s, rec, nil, "calls whose context had ended")
	}},
	{"end/close", func(r *rig) {
		s := r.Open()
		rec := r.put(s, ledger.Record{Key: "k"})
		var waiting []<-chan error
		for name, method := range methods(s, "k") {
			if name != "Take" && name != "Watch" {
				continue
			}
			for range 3 {
				done := make(chan error, 1)
				go func() { done <- method(r.ctx) }()
				waiting = append(waiting, done)
			}
		}
		time.Sleep(50 * time.Millisecond)
		require.NoError(r, s.Close(), "Close")
		for _, done := range waiting {
			require.ErrorIs(r, wait(r, done, "what waits while the store is closed"), ledger.ErrClosed)
		}
		for name, method := range methods(s, "k") {
			require.ErrorIsf(r, method(r.ctx), ledger.ErrClosed, "%s after Close", name)
		}
		require.NoError(r, s.Close(), "Close of a store that is closed")
		if !r.Single {
			r.unchanged(r.open(), rec, nil, "the handle that had written it was closed")
		}
	}},
	{"end/close is of one handle", func(r *rig) {
		if r.Single {
			r.Skip("there is one handle only")
		}
		s, other := r.Open(), r.open()
		rec := r.put(s, ledger.Record{Key: "k"})
		done := r.take(other, ledger.Take{Queues: []string{"q"}, Limit: 1, Lease: time.Minute})
		require.NoError(r, s.Close())
		r.unchanged(other, rec, nil, "another handle was closed")
		r.put(other, ledger.Record{Key: "l", Queue: "q", Wake: r.now(other)})
		r.arrived(done, "Take that waited while another handle was closed")
	}},
}

// methods calls every method in a way that would succeed, or wait, for a record that has
// no revision 9.
func methods(s ledger.Store, key string) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Load":  func(ctx context.Context) error { _, err := s.Load(ctx, key); return err },
		"Swap":  func(ctx context.Context) error { return s.Swap(ctx, &ledger.Record{Key: key, Rev: 1}) },
		"Items": func(ctx context.Context) error { _, err := s.Items(ctx, key, 0, 1); return err },
		"Watch": func(ctx context.Context) error {
			for rec, err := range s.Watch(ctx, key, 9) {
				if rec != nil {
					return errors.New("Watch yielded a record")
				}
				return err
			}
			return errors.New("Watch ended without an error")
		},
		"Take": func(ctx context.Context) error {
			_, err := s.Take(ctx, ledger.Take{Queues: []string{"q"}, Limit: 1, Lease: time.Minute})
			return err
		},
		"List":   func(ctx context.Context) error { _, err := s.List(ctx, []string{"q"}, "", 1); return err },
		"Count":  func(ctx context.Context) error { _, err := s.Count(ctx, "o", 1); return err },
		"Forget": func(ctx context.Context) error { _, err := s.Forget(ctx, 1); return err },
		"Now":    func(ctx context.Context) error { _, err := s.Now(ctx); return err },
	}
}
