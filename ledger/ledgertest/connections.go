package ledgertest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// cutting breaks connections again and again until stop is called, and counts how often. It does so
// less often while nothing is written ([rig.written]): on a slow machine each connection would break before
// it is of any use.
func (r *rig) cutting(pause time.Duration) (cuts *atomic.Int64, stop func()) {
	r.Helper()
	if r.Disconnect == nil {
		r.Skip("the harness cannot break connections")
	}
	cuts = new(atomic.Int64)
	longest, waited, seen := pause, time.Duration(0), int64(0)
	return cuts, every(pause, func() {
		waited += pause
		switch now := r.written.Load(); {
		case now > seen:
			longest, seen = max(pause, longest/2), now
		case waited < longest:
			return
		default:
			longest *= 2
		}
		waited = 0
		r.Disconnect()
		cuts.Add(1)
	})
}

// every calls f again and again, after a pause, until stop is called.
func every(pause time.Duration, f func()) (stop func()) {
	done := make(chan struct{})
	var calling sync.WaitGroup
	calling.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(pause):
				f()
			}
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		calling.Wait()
	})
}

// patient repeats a call that only reads for as long as connections break.
func (r *rig) patient(call func() error) error {
	for end := time.Now().Add(r.late); ; time.Sleep(2 * time.Millisecond) {
		err := call()
		if err == nil || errors.Is(err, ledger.ErrNotFound) || time.Now().After(end) {
			return err
		}
	}
}

// append adds a mark to the body of a record as a careful client does, whatever happens to
// its connections, and says whether an outcome was unknown. If there is none yet, it is as given.
func (r *rig) append(s ledger.Store, fresh ledger.Record, mark string) (unknown bool, err error) {
	for range 10_000 {
		rec := new(fresh)
		err := r.patient(func() error {
			got, err := s.Load(r.ctx, fresh.Key)
			if err == nil && got != nil {
				rec = got
			}
			return err
		})
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return unknown, err
		}
		if bytes.Contains(rec.Body, []byte(mark)) {
			if !unknown {
				return false, fmt.Errorf("%s is in the record, though no swap of it had succeeded, or had an unknown outcome", mark)
			}
			return unknown, nil
		}
		rec.Body = append(rec.Body, mark...)
		switch err := s.Swap(r.ctx, rec, ledger.Item{N: rec.Rev + 1, Body: []byte(mark)}); {
		case err == nil:
			r.written.Add(1)
			return unknown, nil
		case errors.Is(err, ledger.ErrUnknown):
			unknown = true
		case !errors.Is(err, ledger.ErrConflict):
			time.Sleep(time.Millisecond)
		}
	}
	return unknown, errors.New("it cannot be written")
}

// finish writes that a record is done, and says whether that was before its lease ended. It
// repeats what may not have been written until it is, or cannot be any more.
func (r *rig) finish(s ledger.Store, rec *ledger.Record) bool {
	r.Helper()
	rec.Wake, rec.Queue, rec.Body = time.Time{}, "", []byte("done")
	for range 10_000 {
		err := s.Swap(r.ctx, rec)
		if err == nil {
			r.written.Add(1)
			return true
		}
		if errors.Is(err, ledger.ErrConflict) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	var now *ledger.Record
	require.NoError(r, r.patient(func() (err error) { now, err = s.Load(r.ctx, rec.Key); return err }), "Load")
	return string(now.Body) == "done"
}

var connectionChecks = []check{
	{"connections/outcomes", func(r *rig) {
		cuts, stop := r.cutting(15 * time.Millisecond)
		const writers, least, most, enough = 8, 5, 500, 25
		var unknown atomic.Int64
		var marks [writers]int
		r.together(writers, func(i int, s ledger.Store) {
			for j := 0; j < least || j < most && cuts.Load() < enough; j++ {
				was, err := r.append(s, ledger.Record{Key: fmt.Sprint("k", i%2)}, fmt.Sprintf("<%d,%d>", i, j))
				if !assert.NoErrorf(r, err, "writer %d, mark %d", i, j) {
					return
				}
				marks[i]++
				if was {
					unknown.Add(1)
				}
			}
		})
		stop()
		s := r.open()
		for k := range 2 {
			key := fmt.Sprint("k", k)
			rec := r.load(s, key)
			sum := 0
			for i := k; i < writers; i += 2 {
				sum += marks[i]
				for j := range marks[i] {
					mark := fmt.Sprintf("<%d,%d>", i, j)
					require.Equalf(r, 1, bytes.Count(rec.Body, []byte(mark)), "how many times the mark %s was written", mark)
				}
			}
			require.EqualValues(r, sum, rec.Rev, "the revision after so many marks")
			items, err := s.Items(r.ctx, key, 0, 2*sum)
			require.NoError(r, err)
			require.Lenf(r, items, sum, "items written with the marks")
		}
		r.Logf("connections broke %d times, and %d outcomes were unknown at first", cuts.Load(), unknown.Load())
	}},
	{"connections/watch", func(r *rig) {
		s, other := r.open(), r.open()
		r.put(s, ledger.Record{Key: "k"})
		_, stop := r.cutting(20 * time.Millisecond)
		defer stop()
		newest := make(chan struct{})
		go func() {
			defer close(newest)
			defer r.report()
			for last := uint64(0); last < 60 && r.ctx.Err() == nil; {
				for rec, err := range other.Watch(r.ctx, "k", last) {
					if err != nil { // the connection was lost: its caller watches again
						break
					}
					assert.Greater(r, rec.Rev, last, "a revision that Watch yielded after another")
					if last = rec.Rev; last >= 60 {
						break
					}
				}
			}
		}()
		for i := range 59 {
			_, err := r.append(s, ledger.Record{Key: "k"}, fmt.Sprintf("<%d>", i))
			require.NoError(r, err)
		}
		stop()
		wait(r, newest, "Watch for the newest revision, while connections broke")
	}},
	{"connections/take", func(r *rig) {
		s, other := r.open(), r.open()
		const n, lease = 30, 300 * time.Millisecond
		start := r.now(s)
		for i := range n - 1 { // some are due at once, and some have to be waited for
			r.put(s, ledger.Record{Key: fmt.Sprint(i), Queue: "q", Wake: start.Add(time.Duration(i) * 20 * time.Millisecond)})
		}
		cuts, stop := r.cutting(20 * time.Millisecond)
		defer stop()
		got := map[string]int{}
		for end, last := time.Now().Add(3*r.late), false; len(got) < n; {
			require.Truef(r, time.Now().Before(end), "%d of %d records were never taken while connections broke", n-len(got), n)
			before := cuts.Load()
			done := r.take(other, ledger.Take{Queues: []string{"q"}, Limit: 4, Lease: lease})
			if r.Advance != nil {
				r.Advance(lease / 10)
			}
			if len(got) == n-1 && !last { // this Take finds nothing while connections break
				for last = true; cuts.Load() < before+2; {
					time.Sleep(time.Millisecond)
				}
				_, err := r.append(s, ledger.Record{Key: fmt.Sprint(n - 1), Queue: "q", Wake: start}, "last")
				require.NoError(r, err)
			}
			for _, rec := range wait(r, done, "Take while connections break").records {
				if r.finish(other, rec) {
					got[rec.Key]++
				}
			}
		}
		stop()
		for key, times := range got {
			require.Equalf(r, 1, times, "how many times %s was finished", key)
		}
	}},
	{"connections/what waits comes back", func(r *rig) {
		if r.Disconnect == nil {
			r.Skip("the harness cannot break connections")
		}
		s, other := r.open(), r.open()
		for i := range 3 {
			key := fmt.Sprint(i)
			got := make(chan uint64, 1)
			go func() {
				defer r.report()
				for r.ctx.Err() == nil {
					for rec, err := range other.Watch(r.ctx, key, 0) {
						if err == nil {
							got <- rec.Rev
							return
						}
					}
				}
			}()
			time.Sleep(100 * time.Millisecond)
			r.Disconnect() // nothing happens until long after it
			time.Sleep(300 * time.Millisecond)
			_, err := r.append(s, ledger.Record{Key: key}, "here")
			require.NoError(r, err)
			wait(r, got, "Watch that waited while its connection broke")
		}
	}},
	{"connections/skewed clocks", func(r *rig) {
		if r.OpenSkewed == nil {
			r.Skip("the harness has no processes with clocks of their own")
		}
		s := r.open()
		for i, skew := range []time.Duration{-time.Hour, time.Hour} {
			other := r.OpenSkewed(skew)
			r.closeAtEnd(other)
			queue := fmt.Sprint("q", i)
			off := r.now(other).Sub(r.now(s))
			require.Lessf(r, off.Abs(), r.late, "Now of a process whose clock is %v ahead: how far it is from the store's clock", skew)

			now := r.now(s)
			soon := r.put(other, ledger.Record{Key: fmt.Sprint("soon", i), Queue: queue, Wake: now.Add(10 * time.Minute), Keep: now.Add(10 * time.Minute)})
			ctxDue := fmt.Sprintf("a process whose clock is %v ahead, and a record that is due in 10 minutes", skew)
			r.nothingDue(other, ctxDue, queue)
			r.counted(other.Forget(r.ctx, 10)).is(0, "Forget by "+ctxDue)
			r.unchanged(s, soon, nil, "a process with a skewed clock looked at it")

			due := r.put(s, ledger.Record{Key: fmt.Sprint("due", i), Queue: queue, Wake: now.Add(-10 * time.Minute)})
			got := r.takeNow(other, ledger.Take{Queues: []string{queue}, Limit: 10, Lease: 20 * time.Minute})
			require.Equal(r, []string{due.Key}, keys(got), "Take by a process with a skewed clock")
			lease := got[0].Wake.Sub(r.now(s))
			require.InDelta(r, (20 * time.Minute).Seconds(), lease.Seconds(), r.late.Seconds(), "the lease that it gets, in seconds")
			r.nothingDue(s, "it was taken by a process with a skewed clock", queue)
		}
	}},
}
