package ledgertest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// seen is what a Watch yielded.
type seen struct {
	rec *ledger.Record
	err error
	at  time.Time
}

// watch starts a Watch, and returns what it yields and how to end it.
func (r *rig) watch(s ledger.Store, key string, after uint64) (<-chan seen, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.ctx)
	yielded := make(chan seen, 10_000)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(yielded)
		defer r.report()
		for rec, err := range s.Watch(ctx, key, after) {
			yielded <- seen{rec, err, time.Now()}
		}
	}()
	stop := func() {
		cancel()
		select {
		case <-done:
		case <-time.After(r.late):
			assert.Failf(r, "Watch does not end", "%v after its context ended", r.late)
		}
	}
	r.Cleanup(stop)
	return yielded, stop
}

// until reads what a Watch yields until a revision comes, and checks that revisions only
// go up.
func (r *rig) until(yielded <-chan seen, last, rev uint64) seen {
	r.Helper()
	for {
		got := wait(r, yielded, fmt.Sprintf("Watch for revision %d", rev))
		require.NoError(r, got.err, "Watch")
		require.NotNil(r, got.rec, "Watch yielded neither a record nor an error, or ended without one")
		require.Greater(r, got.rec.Rev, last, "a revision that Watch yielded after another")
		require.LessOrEqual(r, got.rec.Rev, rev, "a revision that Watch yielded")
		if last = got.rec.Rev; last == rev {
			return got
		}
	}
}

// quiet checks that a Watch yields nothing.
func (r *rig) quiet(yielded <-chan seen, why string) {
	r.Helper()
	select {
	case got := <-yielded:
		require.Failf(r, "Watch yielded", "%s: %+v", why, got)
	case <-time.After(100 * time.Millisecond):
	}
}

// allowed is how long after a change by another handle Watch may tell of it.
func (r *rig) allowed() time.Duration {
	if r.Polls {
		return time.Second
	}
	return 50 * time.Millisecond
}

var watchChecks = []check{
	{"watch/begins with the present", func(r *rig) {
		s := r.open()
		rec := *r.put(s, ledger.Record{Key: "k"})
		rec = *r.put(s, rec)
		rec.Body, rec.Queue, rec.Wake = []byte("now"), "q", r.now(s)
		rec = *r.put(s, rec)
		for _, after := range []uint64{0, 1, 2} {
			yielded, _ := r.watch(s, "k", after)
			r.same(&rec, r.until(yielded, 2, 3).rec, fmt.Sprintf("the first record that Watch after %d yields", after))
		}
		for _, after := range []uint64{3, 4, math.MaxInt64, math.MaxUint64} {
			yielded, _ := r.watch(s, "k", after)
			r.quiet(yielded, fmt.Sprintf("after %d, when the record is at 3", after))
		}
		ahead, _ := r.watch(s, "k", 4)
		rec = *r.put(s, rec)
		rec = *r.put(s, rec)
		require.EqualValues(r, 5, wait(r, ahead, "Watch after 4").rec.Rev, "the first revision that Watch after 4 yields")
	}},
	{"watch/again", func(r *rig) {
		s := r.open()
		r.put(s, ledger.Record{Key: "k"})
		ctx, cancel := r.soon()
		defer cancel()
		watch := s.Watch(ctx, "k", 0)
		for range 2 {
			n := 0
			for rec, err := range watch {
				require.NoError(r, err)
				require.EqualValues(r, 1, rec.Rev)
				n++
				break
			}
			require.Equal(r, 1, n, "how many records a loop saw that ended with the first")
		}
	}},
	{"watch/a record that comes to be", func(r *rig) {
		s, other := r.open(), r.open()
		mine, _ := r.watch(s, "k", 0)
		theirs, _ := r.watch(other, "k", 0)
		r.quiet(mine, "there is no such record")
		r.put(s, ledger.Record{Key: "another"})
		r.quiet(theirs, "another record was written")
		rec := r.put(s, ledger.Record{Key: "k", Body: []byte("here")}, ledger.Item{N: 1})
		r.same(rec, r.until(mine, 0, 1).rec, "Watch through the same handle")
		r.same(rec, r.until(theirs, 0, 1).rec, "Watch through another handle")
	}},
	{"watch/being told", func(r *rig) {
		s, other := r.open(), r.open()
		n, ok := s.(ledger.Notifier)
		if !ok {
			return
		}
		rec := r.put(s, ledger.Record{Key: "k"})
		told := make(chan struct{}, 1)
		stop := n.Notify("k", rec.Rev, func() {
			select {
			case told <- struct{}{}:
			default:
			}
		})
		if stop == nil {
			return
		}
		rounds := 3
		if r.Polls { // each takes seconds
			rounds = 1
		}
		for range rounds {
			for _, by := range []ledger.Store{s, other} {
				time.Sleep(2 * r.allowed()) // what was said of the last one
				select {
				case <-told:
				default:
				}
				began := time.Now()
				rec = r.put(by, *rec)
				wait(r, told, "Notify of a change")
				require.Less(r, time.Since(began), r.allowed()+r.late/6, "how long Notify took to tell of a change")
			}
		}
		stop()
		time.Sleep(2 * r.allowed())
		select {
		case <-told:
		default:
		}
		r.put(s, *rec)
		select {
		case <-told:
			require.Fail(r, "Notify told of a change after it was stopped")
		case <-time.After(100 * time.Millisecond):
		}
	}},
	{"watch/every kind of change", func(r *rig) {
		s := r.open()
		yielded, _ := r.watch(s, "k", 0)
		rec := r.put(s, ledger.Record{Key: "k", Queue: "q", Wake: r.now(s).Add(-time.Hour)})
		r.until(yielded, 0, 1)
		got := r.takeNow(s, ledger.Take{Queues: []string{"q"}, Limit: 1, Lease: time.Hour})
		r.same(got[0], r.until(yielded, 1, 2).rec, "Watch of a record that was taken")
		rec.Rev = 2
		r.put(s, *rec, ledger.Item{N: 1})
		r.until(yielded, 2, 3)
		require.ErrorIs(r, s.Swap(r.ctx, rec), ledger.ErrConflict)
		r.quiet(yielded, "a swap conflicted")
	}},
	{"watch/ends with the newest", func(r *rig) {
		s, other := r.open(), r.open()
		const changes = 100
		var all []<-chan seen
		for i := range 8 {
			yielded, _ := r.watch([]ledger.Store{s, other}[i%2], "k", 0)
			all = append(all, yielded)
		}
		rec := &ledger.Record{Key: "k"}
		for i := range changes {
			rec.Body = fmt.Append(nil, i+1)
			rec = r.put(s, *rec)
		}
		for _, yielded := range all {
			got := r.until(yielded, 0, changes)
			require.Equal(r, fmt.Sprint(changes), string(got.rec.Body), "the body of the last revision")
			r.quiet(yielded, "it has seen the newest")
		}
	}},
	{"watch/a slow reader", func(r *rig) {
		s, other := r.open(), r.open()
		rec := r.put(s, ledger.Record{Key: "k"})
		last := uint64(0)
		ctx, cancel := r.soon()
		defer cancel()
		for got, err := range other.Watch(ctx, "k", 0) {
			require.NoError(r, err)
			require.Greater(r, got.Rev, last)
			if last = got.Rev; last == 1 {
				for range 50 {
					rec = r.put(s, *rec)
				}
			}
			if last == rec.Rev {
				break
			}
		}
		require.EqualValues(r, 51, last, "the last revision that a loop saw, while there were changes in its body")
	}},
	{"watch/soon", func(r *rig) {
		s, other := r.open(), r.open()
		yielded, _ := r.watch(other, "k", 0)
		rec := &ledger.Record{Key: "k"}
		var median time.Duration
		for end := time.Now().Add(2 * r.late); time.Now().Before(end); { // as the machine may be busy
			var delays []time.Duration
			for i := range 15 {
				if r.Advance == nil { // at any point between two looks of a store that polls
					time.Sleep(time.Duration(7*i%16) * r.allowed() / 16)
				}
				rec = r.put(s, *rec)
				changed := time.Now()
				got := r.until(yielded, rec.Rev-1, rec.Rev)
				delays = append(delays, got.at.Sub(changed))
			}
			slices.Sort(delays)
			if median = delays[len(delays)/2]; median <= r.allowed() {
				return
			}
		}
		require.Failf(r, "too late", "half of the changes by another handle were seen only after %v: %v is allowed", median, r.allowed())
	}},
	{"watch/ends with its context", func(r *rig) {
		s := r.open()
		r.put(s, ledger.Record{Key: "k"})
		for _, key := range []string{"k", "none"} {
			yielded, stop := r.watch(s, key, 0)
			if key == "k" {
				r.until(yielded, 0, 1)
			}
			r.quiet(yielded, "nothing changes")
			stop()
			got := wait(r, yielded, "Watch whose context ended")
			require.ErrorIs(r, got.err, context.Canceled, "what Watch yields when its context ends")
			require.Nil(r, got.rec, "the record beside an error")
			_, more := <-yielded
			require.False(r, more, "Watch went on after an error")
		}
	}},
	{"watch/its caller has seen enough", func(r *rig) {
		s := r.open()
		rec := r.put(s, ledger.Record{Key: "k"})
		for range 200 {
			ctx, cancel := r.soon()
			for _, err := range s.Watch(ctx, "k", 0) {
				require.NoError(r, err)
				break
			}
			cancel()
		}
		r.put(s, *rec) // nobody is there whom it could block
	}},
}
