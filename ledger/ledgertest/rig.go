package ledgertest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// rig is what a check works with.
type rig struct {
	testing.TB
	Harness
	ctx     context.Context // with an end, so that a store that hangs does not hang the suite
	late    time.Duration
	written atomic.Int64 // what was written while connections broke

	mu   sync.Mutex
	only ledger.Store
}

func newRig(t testing.TB, h Harness, late time.Duration) *rig {
	r := &rig{TB: t, Harness: h, late: late}
	t.Cleanup(r.renew())
	return r
}

// renew gives the check its time anew, until cancel is called: one of its parts has come to
// its end, so the store does not hang.
func (r *rig) renew() (cancel context.CancelFunc) {
	r.ctx, cancel = context.WithTimeout(context.Background(), 12*r.late)
	return cancel
}

// soon is for what has to come at once, and not only before the check's time is over.
func (r *rig) soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.ctx, r.late)
}

// open returns another handle, where there can be more than one.
func (r *rig) open() ledger.Store {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.only != nil {
		return r.only
	}
	s := r.Open()
	require.NotNil(r, s, "Harness.Open returned no store")
	r.closeAtEnd(s)
	if r.Single {
		r.only = s
	}
	return s
}

func (r *rig) closeAtEnd(s ledger.Store) {
	r.Cleanup(func() { assert.NoError(r, s.Close(), "Close") })
}

// pause lets time pass by the store's clock.
func (r *rig) pause(d time.Duration) {
	if r.Advance == nil {
		time.Sleep(d)
		return
	}
	time.Sleep(10 * time.Millisecond) // for goroutines to get where they wait
	r.Advance(d)
}

func (r *rig) now(s ledger.Store) time.Time {
	r.Helper()
	now, err := s.Now(r.ctx)
	require.NoError(r, err, "Now")
	return now
}

// put writes a record that must not conflict.
func (r *rig) put(s ledger.Store, rec ledger.Record, items ...ledger.Item) *ledger.Record {
	r.Helper()
	was := rec.Rev
	require.NoErrorf(r, s.Swap(r.ctx, &rec, items...), "Swap of %q at revision %d", rec.Key, was)
	require.Equalf(r, was+1, rec.Rev, "Swap of %q at revision %d: the revision after it", rec.Key, was)
	return &rec
}

// load returns a record that there must be.
func (r *rig) load(s ledger.Store, key string) *ledger.Record {
	r.Helper()
	rec, err := s.Load(r.ctx, key)
	require.NoErrorf(r, err, "Load of %q", key)
	require.NotNilf(r, rec, "Load of %q: neither a record nor an error", key)
	return rec
}

// same compares records: times by the instant.
func (r *rig) same(want, got *ledger.Record, what string) {
	r.Helper()
	require.NotNilf(r, got, "%s: no record", what)
	require.Equalf(r, kept(want), describe(got), "%s", what)
	require.Truef(r, string(want.Body) == string(got.Body), "%s: the body (%d bytes) is not what was written (%d bytes)", what, len(got.Body), len(want.Body))
}

// kept is how a store describes a record that it was given: without what is finer than a
// microsecond.
func kept(rec *ledger.Record) map[string]string {
	c := *rec
	for _, t := range []*time.Time{&c.Wake, &c.Keep} {
		if !t.IsZero() {
			*t = time.UnixMicro(t.UnixMicro())
		}
	}
	return describe(&c)
}

func describe(rec *ledger.Record) map[string]string {
	at := func(t time.Time) string {
		if t.IsZero() {
			return "zero"
		}
		return t.UTC().Format(time.RFC3339Nano)
	}
	return map[string]string{
		"Key": rec.Key, "Rev": fmt.Sprint(rec.Rev), "Queue": rec.Queue, "Owner": rec.Owner, "Wake": at(rec.Wake), "Keep": at(rec.Keep),
	}
}

// unchanged checks that a record is still as it was, with its items.
func (r *rig) unchanged(s ledger.Store, want *ledger.Record, items []ledger.Item, after string) {
	r.Helper()
	r.same(want, r.load(s, want.Key), "the record after "+after)
	r.hasItems(s, want.Key, items, "the items after "+after)
}

func (r *rig) hasItems(s ledger.Store, key string, want []ledger.Item, what string) {
	r.Helper()
	got, err := s.Items(r.ctx, key, 0, len(want)+10)
	require.NoErrorf(r, err, "Items of %q", key)
	r.sameItems(want, got, what)
}

func (r *rig) sameItems(want, got []ledger.Item, what string) {
	r.Helper()
	require.Equalf(r, numbers(want), numbers(got), "%s: the numbers of the items", what)
	for i := range want {
		require.Truef(r, string(want[i].Body) == string(got[i].Body), "%s: the body of item %d is not what was written", what, want[i].N)
	}
}

func numbers(items []ledger.Item) []uint64 {
	list := make([]uint64, len(items))
	for i, item := range items {
		list[i] = item.N
	}
	return list
}

func keys(records []*ledger.Record) []string {
	list := make([]string, len(records))
	for i, rec := range records {
		list[i] = rec.Key
	}
	return list
}

// outcome is what a call returned.
type outcome[T any] struct {
	rig *rig
	got T
	err error
}

func (r *rig) listed(list []*ledger.Record, err error) outcome[[]string] {
	return outcome[[]string]{r, keys(list), err}
}

func (r *rig) counted(n int, err error) outcome[int] { return outcome[int]{r, n, err} }

func (o outcome[T]) is(want T, what string, args ...any) {
	o.rig.Helper()
	require.NoErrorf(o.rig, o.err, what, args...)
	require.Equalf(o.rig, want, o.got, what, args...)
}

// taken is how a call of Take ended.
type taken struct {
	records []*ledger.Record
	err     error
}

// take starts a call of Take, which may wait.
func (r *rig) take(s ledger.Store, t ledger.Take) <-chan taken {
	done := make(chan taken, 1)
	go func() {
		defer r.report()
		records, err := s.Take(r.ctx, t)
		done <- taken{records, err}
	}()
	return done
}

// takeNow is for what is due already.
func (r *rig) takeNow(s ledger.Store, t ledger.Take) []*ledger.Record {
	r.Helper()
	return r.arrived(r.take(s, t), fmt.Sprintf("Take of what is due in %q", t.Queues))
}

// arrived waits for a call of Take to return records.
func (r *rig) arrived(done <-chan taken, what string) []*ledger.Record {
	r.Helper()
	got := wait(r, done, what)
	require.NoError(r, got.err, what)
	require.NotEmptyf(r, got.records, "%s: it returned neither records nor an error", what)
	return got.records
}

// nothingDue checks that Take finds nothing to take.
func (r *rig) nothingDue(s ledger.Store, why string, queues ...string) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.ctx, 100*time.Millisecond)
	defer cancel()
	records, err := s.Take(ctx, ledger.Take{Queues: queues, Limit: 10, Lease: time.Hour})
	require.Emptyf(r, keys(records), "%s: Take returned records", why)
	require.ErrorIsf(r, err, context.DeadlineExceeded, "%s: Take whose context ended while it waited", why)
}

// wait receives from a channel, in which something must come.
func wait[T any](r *rig, c <-chan T, what string) (v T) {
	r.Helper()
	select {
	case v = <-c:
	case <-time.After(r.late):
		require.Failf(r, "nothing happened", "%s: waited for %v in vain", what, r.late)
	}
	return v
}
