package ledgertest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
)

func (r *rig) count(s ledger.Store, owner string, most, want int, when string) {
	r.Helper()
	r.counted(s.Count(r.ctx, owner, most)).is(want, "Count of %q, at most %d, %s", owner, most, when)
}

var ownershipChecks = []check{
	{"count", func(r *rig) {
		s, other := r.open(), r.open()
		past := r.now(s).Add(-time.Hour)
		var recs []*ledger.Record
		for i := range 7 {
			recs = append(recs, r.put(s, ledger.Record{Key: fmt.Sprintf("k%d", i), Owner: "o"}))
		}
		r.put(s, ledger.Record{Key: "p", Owner: "p", Keep: past})
		r.put(s, ledger.Record{Key: "nobody's"})
		r.count(other, "o", 100, 7, "of seven records")
		r.count(other, "o", 7, 7, "of seven records")
		r.count(other, "o", 6, 6, "of seven records")
		r.count(other, "o", 1, 1, "of seven records")
		r.count(other, "p", 100, 1, "of one record that may be forgotten, but is not yet")
		r.count(other, "none", 100, 0, "of an owner without records")
		r.count(other, "", 100, 0, "which is nobody")

		recs[0].Body = []byte("changed")
		recs[0] = r.put(other, *recs[0])
		r.count(s, "o", 100, 7, "after a record was changed")
		recs[1].Owner, recs[2].Owner, recs[3].Keep = "p", "", past
		for _, rec := range recs[1:4] {
			r.put(other, *rec)
		}
		r.count(s, "o", 100, 5, "after records changed hands")
		r.count(s, "p", 100, 2, "after a record changed hands")
		r.counted(s.Forget(r.ctx, 100)).is(2, "Forget")
		r.count(s, "o", 100, 4, "after a record was forgotten")
		r.count(s, "p", 100, 1, "after a record was forgotten")
	}},
}

var forgetChecks = []check{
	{"forget/what may go", func(r *rig) {
		s, other := r.open(), r.open()
		now := r.now(s)
		item := ledger.Item{N: 1, Body: []byte("old")}
		forever := r.put(s, ledger.Record{Key: "forever", Wake: now.Add(-time.Hour), Queue: "q"}, item)
		later := r.put(s, ledger.Record{Key: "later", Keep: now.Add(time.Hour)}, item)
		for i := range 5 {
			key := fmt.Sprintf("over%d", i)
			over := r.put(s, ledger.Record{Key: key, Queue: "q2", Wake: now.Add(time.Hour), Keep: now.Add(-time.Duration(i+1) * time.Minute)}, item, ledger.Item{N: 2})
			r.unchanged(other, over, []ledger.Item{item, {N: 2}}, "its Keep was over, before Forget")
		}
		r.put(s, ledger.Record{Key: "epoch", Keep: time.Unix(0, 0)})
		kept := r.put(s, ledger.Record{Key: "over-once", Keep: now.Add(-time.Minute)}, item)
		kept.Keep = now.Add(time.Hour)
		kept = r.put(s, *kept)
		stays := r.put(s, ledger.Record{Key: "over-once-2", Keep: now.Add(-time.Minute)})
		stays.Keep = time.Time{}
		stays = r.put(s, *stays)
		shortened := r.put(s, ledger.Record{Key: "shortened"})
		shortened.Keep = now.Add(-time.Second)
		r.put(s, *shortened)

		sum := 0
		for _, limit := range []int{1, 2, 100, 100} {
			n, err := other.Forget(r.ctx, limit)
			require.NoError(r, err)
			require.LessOrEqualf(r, n, limit, "Forget of at most %d", limit)
			sum += n
			if limit < 100 {
				require.Equalf(r, limit, n, "Forget of at most %d, when there are more", limit)
			}
		}
		require.Equal(r, 7, sum, "how many records were forgotten together")
		r.unchanged(s, forever, []ledger.Item{item}, "Forget: it has no Keep")
		r.unchanged(s, later, []ledger.Item{item}, "Forget: its Keep is in an hour")
		r.unchanged(s, kept, []ledger.Item{item}, "Forget: its Keep was moved to an hour from now")
		r.unchanged(s, stays, nil, "Forget: its Keep was taken away")
		for _, key := range []string{"over0", "over4", "epoch", "shortened"} {
			_, err := s.Load(r.ctx, key)
			require.ErrorIsf(r, err, ledger.ErrNotFound, "Load of %q, which was forgotten", key)
			r.hasItems(s, key, nil, "items of "+key+", which was forgotten")
			require.ErrorIs(r, s.Swap(r.ctx, &ledger.Record{Key: key, Rev: 1}), ledger.ErrConflict, "a swap at the revision of a record that was forgotten")
		}
		r.listed(s.List(r.ctx, []string{"q2"}, "", 10)).is([]string{}, "List of a queue whose records were forgotten")
	}},
	{"forget/begins anew", func(r *rig) {
		s := r.open()
		past := r.now(s).Add(-time.Hour)
		rec := r.put(s, ledger.Record{Key: "k", Keep: past}, ledger.Item{N: 1, Body: []byte("old")})
		r.put(s, *rec, ledger.Item{N: 2})
		r.counted(s.Forget(r.ctx, 10)).is(1, "Forget")
		item := ledger.Item{N: 1, Body: []byte("new")}
		rec = r.put(s, ledger.Record{Key: "k", Body: []byte("new")}, item)
		r.unchanged(s, rec, []ledger.Item{item}, "a record of its name was forgotten")
	}},
	{"forget/when its time comes", func(r *rig) {
		s := r.open()
		const keep = 300 * time.Millisecond
		end := r.now(s).Add(keep)
		r.put(s, ledger.Record{Key: "k", Keep: end})
		for {
			n, err := s.Forget(r.ctx, 10)
			require.NoError(r, err)
			now := r.now(s)
			if n == 1 {
				require.Falsef(r, now.Before(end.Truncate(time.Microsecond)), "a record was forgotten %v before its Keep", end.Sub(now))
				break
			}
			require.Lessf(r, now.Sub(end), r.late, "a record is not forgotten %v after its Keep", now.Sub(end))
			r.pause(keep / 10)
		}
	}},
	{"forget/many", func(r *rig) {
		s := r.open()
		past := r.now(s).Add(-time.Hour)
		const many = 300
		for i := range many {
			r.put(s, ledger.Record{Key: fmt.Sprint(i), Owner: "o", Keep: past.Add(time.Duration(i))}, ledger.Item{N: 1}, ledger.Item{N: 2})
		}
		for left := many; left > 0; {
			gone := min(70, left)
			r.counted(s.Forget(r.ctx, 70)).is(gone, "Forget of at most 70")
			left -= gone
			r.count(s, "o", many, left, "while they are forgotten")
		}
	}},
}

// unsorted are names in no order.
var unsorted = []string{"b", "B", "a-", "a", "_", "-", "A", "~", "!", "aa", "a0", "z", "Z", "0", "10", "9"}

// paged checks that a list has these records, by key, whatever the size of its pages.
func (r *rig) paged(recs map[string]*ledger.Record, what string, list func(after string, limit int) ([]*ledger.Record, error)) {
	r.Helper()
	for _, limit := range []int{1, 3, 16, 100} {
		var got []string
		for after := ""; ; {
			page, err := list(after, limit)
			require.NoError(r, err, what)
			require.LessOrEqual(r, len(page), limit, what)
			if len(page) == 0 {
				break
			}
			for _, rec := range page {
				r.same(recs[rec.Key], rec, what+": "+rec.Key)
			}
			got, after = append(got, keys(page)...), page[len(page)-1].Key
			require.LessOrEqualf(r, len(got), len(recs), "%s by pages of %d: %q", what, limit, got) // or it would never end
		}
		require.Equalf(r, slices.Sorted(maps.Keys(recs)), got, "%s by pages of %d", what, limit)
	}
}

var listChecks = []check{
	{"list/what waits", func(r *rig) {
		s, other := r.open(), r.open()
		now := r.now(s)
		recs := map[string]*ledger.Record{}
		for i, key := range unsorted {
			queue := []string{"q1", "q2"}[i%2]
			wake := []time.Time{now.Add(-time.Hour), now.Add(time.Hour)}[i/2%2]
			recs[key] = r.put(s, ledger.Record{Key: key, Queue: queue, Body: []byte(key), Wake: wake})
		}
		r.put(s, ledger.Record{Key: "asleep", Queue: "q1"})
		r.put(s, ledger.Record{Key: "elsewhere", Queue: "q3", Wake: now})
		r.put(s, ledger.Record{Key: "nowhere", Wake: now})
		moved := r.put(s, ledger.Record{Key: "moved", Queue: "q1", Wake: now})
		moved.Queue = "q3"
		r.put(s, *moved)
		ended := r.put(s, ledger.Record{Key: "ended", Queue: "q1", Wake: now})
		ended.Wake = time.Time{}
		r.put(s, *ended)

		both := []string{"q1", "q2", "q1", "none"}
		r.paged(recs, "List", func(after string, limit int) ([]*ledger.Record, error) { return other.List(r.ctx, both, after, limit) })
		r.listed(other.List(r.ctx, []string{"q3"}, "", 100)).is([]string{"elsewhere", "moved"}, "List of one queue")
		r.listed(other.List(r.ctx, both, "a1", 2)).is([]string{"aa", "b"}, "List after a name that is no record's") // which is no record's
		r.listed(other.List(r.ctx, nil, "", 100)).is([]string{}, "List of no queue")
	}},
	{"list/what is owned", func(r *rig) {
		s, other := r.open(), r.open()
		now := r.now(s)
		recs := map[string]*ledger.Record{}
		for i, key := range unsorted {
			rec := ledger.Record{Key: key, Owner: []string{"o1", "o2"}[i%2], Body: []byte(key)}
			if i/2%2 == 0 { // whether or not it waits
				rec.Queue, rec.Wake = "q", now
			}
			recs[key] = r.put(s, rec)
		}
		r.put(s, ledger.Record{Key: "elsewhere", Owner: "o3"})
		r.put(s, ledger.Record{Key: "nobody's", Queue: "o1", Wake: now})
		moved := r.put(s, ledger.Record{Key: "moved", Owner: "o1"})
		moved.Owner = "o3"
		r.put(s, *moved)
		left := r.put(s, ledger.Record{Key: "left", Owner: "o1"})
		left.Owner = ""
		r.put(s, *left)
		r.put(s, ledger.Record{Key: "over", Owner: "o4", Keep: now.Add(-time.Hour)})
		r.counted(s.Forget(r.ctx, 10)).is(1, "Forget")

		both := []string{"o1", "o2", "o1", "", "none", "o4"}
		r.paged(recs, "Owned", func(after string, limit int) ([]*ledger.Record, error) { return other.Owned(r.ctx, both, after, limit) })
		r.listed(other.Owned(r.ctx, []string{"o3"}, "", 100)).is([]string{"elsewhere", "moved"}, "Owned by one")
		r.listed(other.Owned(r.ctx, both, "a1", 2)).is([]string{"aa", "b"}, "Owned after a name that is no record's") // which is no record's
		for _, none := range [][]string{nil, {""}} {
			r.listed(other.Owned(r.ctx, none, "", 100)).is([]string{}, "Owned by nobody")
		}
	}},
	{"list/large bodies", func(r *rig) {
		s := r.open()
		body := bytes.Repeat([]byte{0, 1, 2, 3}, 64<<10)
		want := r.put(s, ledger.Record{Key: "k", Queue: "q", Wake: r.now(s), Body: body})
		got, err := s.List(r.ctx, []string{"q"}, "", 1)
		require.NoError(r, err)
		require.Len(r, got, 1)
		r.same(want, got[0], "List")
		want.Owner = "o"
		want = r.put(s, *want)
		got, err = s.Owned(r.ctx, []string{"o"}, "", 1)
		require.NoError(r, err)
		require.Len(r, got, 1)
		r.same(want, got[0], "Owned")
	}},
}
