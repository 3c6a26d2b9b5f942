package ledgertest

import (
	"context"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// still checks that a call of Take waits.
func (r *rig) still(done <-chan taken, why string) {
	r.Helper()
	select {
	case got := <-done:
		require.Failf(r, "Take returned", "%s: %q, %v", why, keys(got.records), got.err)
	case <-time.After(100 * time.Millisecond):
	}
}

var takeChecks = []check{
	{"take/moves revision and wake", func(r *rig) {
		s, other := r.open(), r.open()
		before := r.now(s)
		item := ledger.Item{N: 1, Body: []byte("item")}
		rec := r.put(s, ledger.Record{
			Key: "k", Queue: "q", Owner: "o", Body: []byte("b"), Wake: before.Add(-time.Hour), Keep: before.Add(time.Hour),
		}, item)
		got := r.takeNow(other, ledger.Take{Queues: []string{"q"}, Limit: 5, Lease: 10 * time.Minute})
		after := r.now(s)
		require.Len(r, got, 1)
		wake := got[0].Wake
		require.False(r, wake.Before(before.Add(10*time.Minute-time.Millisecond)) || wake.After(after.Add(10*time.Minute+time.Millisecond)),
			"Wake of what was taken between %v and %v for 10 minutes is %v", before, after, wake)
		rec.Rev, rec.Wake = 2, wake
		r.same(rec, got[0], "what was taken")
		r.unchanged(s, rec, []ledger.Item{item}, "it was taken")

		stale := *rec
		stale.Rev = 1
		require.ErrorIs(r, s.Swap(r.ctx, &stale), ledger.ErrConflict, "a swap by who had the record before it was taken")
		require.NoError(r, s.Swap(r.ctx, got[0]), "a swap by who has taken the record")
		require.EqualValues(r, 3, got[0].Rev)
		r.nothingDue(s, "a record is taken", "q")
	}},
	{"take/the lease ends", func(r *rig) {
		s, other := r.open(), r.open()
		const lease = 300 * time.Millisecond
		r.put(s, ledger.Record{Key: "k", Queue: "q", Wake: r.now(s)})
		first := r.takeNow(s, ledger.Take{Queues: []string{"q"}, Limit: 1, Lease: lease})[0]
		done := r.take(other, ledger.Take{Queues: []string{"q"}, Limit: 1, Lease: time.Hour})
		r.pause(lease)
		second := r.arrived(done, "Take of a record whose lease has ended")[0]
		require.Equal(r, first.Rev+1, second.Rev, "the revision of what is taken again")
		require.False(r, second.Wake.Add(-time.Hour).Before(first.Wake), "a record was taken again before its lease had ended")
		require.ErrorIs(r, s.Swap(r.ctx, first), ledger.ErrConflict, "a swap by who had taken the record before")
		r.put(other, *second)
	}},
	{"take/waits for the time", func(r *rig) {
		s, other := r.open(), r.open()
		wake := r.now(s).Add(300 * time.Millisecond)
		rec := r.put(s, ledger.Record{Key: "k", Queue: "q", Wake: wake})
		mine := r.take(other, ledger.Take{Queues: []string{"q"}, Limit: 1, Lease: time.Hour})
		r.pause(300 * time.Millisecond)
		got := r.arrived(mine, "Take of a record that becomes due")
		require.Equal(r, rec.Rev+1, got[0].Rev)
		require.False(r, got[0].Wake.Add(-time.Hour).Before(wake.Truncate(time.Microsecond)), "a record was taken before its time")
	}},
	{"take/waits for a record", func(r *rig) {
		s, other := r.open(), r.open()
		for i, h := range []ledger.Store{s, other} {
			done := r.take(h, ledger.Take{Queues: []string{"none", "q"}, Limit: 1, Lease: time.Hour})
			r.still(done, "there is no record")
			r.put(s, ledger.Record{Key: fmt.Sprint(i), Queue: "q", Wake: r.now(s)})
			require.Equal(r, []string{fmt.Sprint(i)}, keys(r.arrived(done, "Take of a record that is written while it waits")))
		}
	}},
	{"take/an earlier time", func(r *rig) {
		s, other := r.open(), r.open()
		for i, h := range []ledger.Store{s, other} {
			queue := fmt.Sprint("q", i)
			now := r.now(s)
			late := r.put(s, ledger.Record{Key: fmt.Sprint("late", i), Queue: queue, Wake: now.Add(time.Hour)})
			done := r.take(h, ledger.Take{Queues: []string{queue}, Limit: 1, Lease: time.Hour})
			r.still(done, "its record is due in an hour")
			early := fmt.Sprint("early", i)
			r.put(s, ledger.Record{Key: early, Queue: queue, Wake: now.Add(30 * time.Minute)})
			r.put(s, ledger.Record{Key: early, Rev: 1, Queue: queue, Wake: r.now(s).Add(200 * time.Millisecond)})
			r.pause(200 * time.Millisecond)
			require.Equal(r, []string{early}, keys(r.arrived(done, "Take when a record with an earlier time is written")))

			done = r.take(h, ledger.Take{Queues: []string{queue}, Limit: 1, Lease: time.Hour})
			r.still(done, "its records are due in an hour")
			late.Wake = r.now(s)
			r.put(s, *late)
			require.Equal(r, []string{late.Key}, keys(r.arrived(done, "Take when a record's time is moved to now")))
		}
	}},
	{"take/a record that moves away", func(r *rig) {
		s := r.open()
		for i, change := range []func(*ledger.Record){
			func(rec *ledger.Record) { rec.Wake = time.Time{} },
			func(rec *ledger.Record) { rec.Wake = rec.Wake.Add(2 * time.Hour) },
			func(rec *ledger.Record) { rec.Queue = "elsewhere" },
			func(rec *ledger.Record) { rec.Queue = "" },
		} {
			rec := r.put(s, ledger.Record{Key: fmt.Sprint(i), Queue: "q", Wake: r.now(s).Add(-time.Hour)})
			change(rec)
			r.put(s, *rec)
		}
		r.nothingDue(s, "the records have moved away", "q")
	}},
	{"take/longest first", func(r *rig) {
		s := r.open()
		now := r.now(s)
		wakes := map[string]time.Duration{"a": 5, "b": 9, "c": 1, "d": 7, "e": 3, "f": 8, "g": 2, "h": 6, "i": 4, "j": -60}
		i := 0
		for key, minutes := range wakes {
			r.put(s, ledger.Record{Key: key, Queue: fmt.Sprint("q", i%3), Wake: now.Add(-minutes * time.Minute)})
			i++
		}
		r.put(s, ledger.Record{Key: "epoch", Queue: "q0", Wake: time.Unix(0, 0)})
		all := ledger.Take{Queues: []string{"q2", "q0", "q1", "q0"}, Lease: time.Hour}
		var got []string
		for _, limit := range []int{1, 3, 100} {
			all.Limit = limit
			records := r.takeNow(s, all)
			require.LessOrEqualf(r, len(records), limit, "Take of at most %d", limit)
			got = append(got, keys(records)...)
		}
		require.Equal(r, []string{"epoch", "b", "f", "d", "h", "a", "i", "e", "g", "c"}, got, "what is due, who has waited longest first")
	}},
	{"take/queues", func(r *rig) {
		s := r.open()
		now := r.now(s)
		r.put(s, ledger.Record{Key: "asleep", Queue: "q"})
		r.put(s, ledger.Record{Key: "nobody's", Wake: now.Add(-time.Hour)})
		theirs := r.put(s, ledger.Record{Key: "theirs", Queue: "Q", Wake: now.Add(-time.Hour)})
		r.nothingDue(s, "only other queues have what is due", "q", "", "qq")
		r.nothingDue(s, "there is no queue to take from")
		r.put(s, ledger.Record{Key: "mine", Queue: "q", Wake: now.Add(-time.Minute)})
		require.Equal(r, []string{"mine"}, keys(r.takeNow(s, ledger.Take{Queues: []string{"q"}, Limit: 10, Lease: time.Hour})))
		r.unchanged(s, theirs, nil, "others took from their own queues")
	}},
	{"take/what may be forgotten", func(r *rig) {
		s := r.open()
		past := r.now(s).Add(-time.Hour)
		r.put(s, ledger.Record{Key: "k", Queue: "q", Wake: past, Keep: past})
		require.Equal(r, []string{"k"}, keys(r.takeNow(s, ledger.Take{Queues: []string{"q"}, Limit: 1, Lease: time.Hour})), "Take of a record that is there still")
	}},
	{"take/its context ends", func(r *rig) {
		s := r.open()
		ctx, cancel := context.WithCancel(r.ctx)
		done := make(chan taken, 1)
		go func() {
			records, err := s.Take(ctx, ledger.Take{Queues: []string{"q"}, Limit: 1, Lease: time.Hour})
			done <- taken{records, err}
		}()
		r.still(done, "there is no record")
		cancel()
		got := wait(r, done, "Take whose context ended")
		require.ErrorIs(r, got.err, context.Canceled)
		require.Empty(r, got.records)
		r.put(s, ledger.Record{Key: "k", Queue: "q", Wake: r.now(s)})
		r.takeNow(s, ledger.Take{Queues: []string{"q"}, Limit: 1, Lease: time.Hour})
	}},
}
