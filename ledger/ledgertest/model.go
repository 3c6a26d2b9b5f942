package ledgertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpsaga/mcpsaga/ledger"
)

var modelChecks = []check{
	{"model", func(r *rig) {
		handles := []ledger.Store{r.open(), r.open()}
		rapid.Check(r, func(t *rapid.T) {
			defer r.renew()()
			m := newModel(t, r, handles)
			defer m.clean()
			t.Repeat(map[string]func(*rapid.T){
				"": m.check, "swap": m.swap, "swap 2": m.swap, "swap 3": m.swap, "swap 4": m.swap, "items": m.pageItems, "watch": m.watch, "take": m.take,
				"list": m.list, "count": m.count, "forget": m.forget, "pause": m.pause,
			})
		})
	}},
}

// runs numbers the runs of the model, so that each has names of its own.
var runs atomic.Int64

// model is what a store says it does, as plainly as it can be said: a map that is searched
// from end to end. Random calls are made of a store, and must end as the model's do.
type model struct {
	rig     *rig
	handles []ledger.Store
	prefix  string
	clock   time.Time // of the store, at least; moves when the test moves it
	times   int       // makes each Wake another, so that their order is certain
	records map[string]*modelRecord
}

type modelRecord struct {
	ledger.Record
	items []ledger.Item
}

func newModel(t *rapid.T, r *rig, handles []ledger.Store) *model {
	m := &model{rig: r, handles: handles, prefix: fmt.Sprintf("m%d-", runs.Add(1)), records: map[string]*modelRecord{}}
	m.tick(t)
	return m
}

// tick reads the store's clock.
func (m *model) tick(t *rapid.T) {
	now, err := m.handles[0].Now(m.rig.ctx)
	require.NoError(t, err, "Now")
	m.clock = now
}

// handle is any of them: what one wrote another reads.
func (m *model) handle(t *rapid.T) ledger.Store {
	return rapid.SampledFrom(m.handles).Draw(t, "handle")
}

func (m *model) key(t *rapid.T) string {
	return m.prefix + rapid.SampledFrom([]string{"a", "A", "b", "-", "_"}).Draw(t, "key")
}

func (m *model) name(t *rapid.T, what string) string {
	if name := rapid.SampledFrom([]string{"", "x", "X", "y"}).Draw(t, what); name != "" {
		return m.prefix + name
	}
	return ""
}

func (m *model) queues(t *rapid.T) []string {
	var queues []string
	for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{"x", "X", "y", "none"}), 1, 3).Draw(t, "queues") {
		queues = append(queues, m.prefix+name)
	}
	return queues
}

// time is one that is certainly over or certainly not; without a clock that can be moved
// nothing in between can be told.
func (m *model) time(t *rapid.T, what string) time.Time {
	m.times++
	shift := time.Duration(m.times) * time.Microsecond
	switch rapid.SampledFrom([]string{"never", "over", "epoch", "to come", "soon"}).Draw(t, what) {
	case "over":
		return m.clock.Add(shift - time.Hour)
	case "epoch":
		return time.Unix(0, 0).Add(shift)
	case "to come":
		return m.clock.Add(shift + time.Hour)
	case "soon":
		if m.rig.Advance != nil {
			return m.clock.Add(shift + time.Second)
		}
		return m.clock.Add(shift + 2*time.Hour)
	}
	return time.Time{}
}

func (m *model) over(at time.Time) bool { return !at.IsZero() && !at.After(m.clock) }

func (m *model) swap(t *rapid.T) {
	r := ledger.Record{Key: m.key(t), Queue: m.name(t, "queue"), Owner: m.name(t, "owner"), Wake: m.time(t, "wake"), Keep: m.time(t, "keep")}
	r.Body = rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "body")
	var items []ledger.Item
	for _, n := range rapid.SliceOfN(rapid.Uint64Range(1, 12), 0, 3).Draw(t, "items") {
		items = append(items, ledger.Item{N: n, Body: fmt.Appendf(nil, "%d at %d", n, m.times)})
	}
	was, ok := m.records[r.Key]
	if !ok {
		was = &modelRecord{}
	}
	r.Rev = was.Rev
	if rapid.IntRange(0, 3).Draw(t, "stale") == 0 {
		r.Rev = rapid.SampledFrom([]uint64{0, 1, was.Rev - 1, was.Rev + 1, math.MaxUint64}).Draw(t, "rev")
	}
	next := slices.Clone(was.items)
	conflict := r.Rev != was.Rev
	for _, item := range items {
		conflict = conflict || slices.ContainsFunc(next, func(i ledger.Item) bool { return i.N == item.N })
		next = append(next, item)
	}
	given := r
	err := m.handle(t).Swap(m.rig.ctx, &given, items...)
	if conflict {
		require.ErrorIsf(t, err, ledger.ErrConflict, "Swap of %q at revision %d with items %v: the record is at %d with items %v", r.Key, r.Rev, numbers(items), was.Rev, numbers(was.items))
		require.Equal(t, r, given, "the argument of a Swap that conflicted")
		return
	}
	require.NoErrorf(t, err, "Swap of %q at revision %d with items %v: the record is at %d with items %v", r.Key, r.Rev, numbers(items), was.Rev, numbers(was.items))
	r.Rev++
	require.Equal(t, r, given, "the argument of a Swap that succeeded")
	slices.SortFunc(next, func(a, b ledger.Item) int { return cmp.Compare(a.N, b.N) })
	m.records[r.Key] = &modelRecord{r, next}
}

// check compares every record with the model's.
func (m *model) check(t *rapid.T) {
	for _, name := range []string{"a", "A", "b", "-", "_"} {
		key := m.prefix + name
		got, err := m.handle(t).Load(m.rig.ctx, key)
		want, ok := m.records[key]
		if !ok {
			require.ErrorIsf(t, err, ledger.ErrNotFound, "Load of %q", key)
			continue
		}
		require.NoErrorf(t, err, "Load of %q", key)
		m.equal(t, want, got, "Load")
	}
}

func (m *model) equal(t *rapid.T, want *modelRecord, got *ledger.Record, what string) {
	require.Equalf(t, kept(&want.Record), describe(got), "%s", what)
	require.Equalf(t, string(want.Body), string(got.Body), "%s: the body of %q", what, want.Key)
}

func (m *model) pageItems(t *rapid.T) {
	key := m.key(t)
	after := rapid.SampledFrom([]uint64{0, 1, 2, 5, 11, 12, math.MaxInt64, math.MaxUint64}).Draw(t, "after")
	limit := rapid.IntRange(-1, 20).Draw(t, "limit")
	var want []ledger.Item
	if rec := m.records[key]; rec != nil {
		for _, item := range rec.items {
			if item.N > after && len(want) < limit {
				want = append(want, item)
			}
		}
	}
	got, err := m.handle(t).Items(m.rig.ctx, key, after, limit)
	require.NoError(t, err, "Items")
	require.Equalf(t, numbers(want), numbers(got), "Items of %q after %d, at most %d", key, after, limit)
	for i := range want {
		require.Equalf(t, string(want[i].Body), string(got[i].Body), "the body of item %d of %q", want[i].N, key)
	}
}

func (m *model) watch(t *rapid.T) {
	key := m.key(t)
	rec := m.records[key]
	if rec == nil {
		t.Skip("it would wait")
	}
	after := rapid.Uint64Range(0, rec.Rev-1).Draw(t, "after")
	ctx, cancel := context.WithTimeout(m.rig.ctx, m.rig.late)
	defer cancel()
	for got, err := range m.handle(t).Watch(ctx, key, after) {
		require.NoError(t, err, "Watch")
		m.equal(t, rec, got, fmt.Sprintf("Watch after %d", after))
		break
	}
}

// waiting returns the records in queues that fulfil a condition.
func (m *model) waiting(queues []string, condition func(*modelRecord) bool) (list []*modelRecord) {
	for _, rec := range m.records {
		if rec.Queue != "" && slices.Contains(queues, rec.Queue) && !rec.Wake.IsZero() && condition(rec) {
			list = append(list, rec)
		}
	}
	return list
}

func (m *model) take(t *rapid.T) {
	queues := m.queues(t)
	m.tick(t)
	due := m.waiting(queues, func(rec *modelRecord) bool { return m.over(rec.Wake) })
	take := ledger.Take{Queues: queues, Limit: rapid.IntRange(1, 4).Draw(t, "limit"), Lease: time.Hour}
	if len(due) == 0 {
		ctx, cancel := context.WithTimeout(m.rig.ctx, time.Millisecond)
		defer cancel()
		got, err := m.handle(t).Take(ctx, take)
		require.Emptyf(t, keys(got), "Take from %v, where nothing is due", queues)
		require.Truef(t, errors.Is(err, context.DeadlineExceeded), "Take from %v, where nothing is due: %v", queues, err)
		return
	}
	slices.SortFunc(due, func(a, b *modelRecord) int { return a.Wake.Compare(b.Wake) })
	due = due[:min(take.Limit, len(due))]
	got, err := m.handle(t).Take(m.rig.ctx, take)
	require.NoError(t, err, "Take")
	require.Lenf(t, got, len(due), "Take of at most %d from %v", take.Limit, queues)
	for i, rec := range due {
		rec.Rev++
		require.Falsef(t, got[i].Wake.Before(m.clock.Add(take.Lease)), "the lease of %q: it ends at %v, taken after %v", rec.Key, got[i].Wake, m.clock)
		rec.Wake = got[i].Wake
		m.equal(t, rec, got[i], fmt.Sprintf("Take of at most %d from %v, number %d", take.Limit, queues, i))
	}
}

func (m *model) list(t *rapid.T) {
	queues := m.queues(t)
	after := rapid.SampledFrom([]string{"", m.prefix, m.prefix + "-", m.prefix + "A", m.prefix + "B", m.prefix + "a", m.prefix + "z"}).Draw(t, "after")
	limit := rapid.IntRange(-1, 5).Draw(t, "limit")
	want := m.waiting(queues, func(rec *modelRecord) bool { return rec.Key > after })
	slices.SortFunc(want, func(a, b *modelRecord) int { return strings.Compare(a.Key, b.Key) })
	want = want[:max(0, min(limit, len(want)))]
	got, err := m.handle(t).List(m.rig.ctx, queues, after, limit)
	require.NoError(t, err, "List")
	require.Lenf(t, got, len(want), "List of %v after %q, at most %d", queues, after, limit)
	for i, rec := range want {
		m.equal(t, rec, got[i], fmt.Sprintf("List of %v after %q, number %d", queues, after, i))
	}
}

func (m *model) count(t *rapid.T) {
	owner := m.name(t, "owner")
	most := rapid.IntRange(-1, 6).Draw(t, "most")
	var owned []*modelRecord
	for _, rec := range m.records {
		if owner != "" && rec.Owner == owner {
			owned = append(owned, rec)
		}
	}
	want := len(owned)
	slices.SortFunc(owned, func(a, b *modelRecord) int { return strings.Compare(a.Key, b.Key) })
	owned = owned[:max(0, min(most, len(owned)))]
	listed, err := m.handle(t).Owned(m.rig.ctx, []string{owner}, "", most)
	require.NoError(t, err, "Owned")
	require.Lenf(t, listed, len(owned), "Owned by %q, at most %d", owner, most)
	for i, rec := range owned {
		m.equal(t, rec, listed[i], fmt.Sprintf("Owned by %q, number %d", owner, i))
	}
	got, err := m.handle(t).Count(m.rig.ctx, owner, most)
	require.NoError(t, err, "Count")
	require.Equalf(t, max(0, min(want, most)), got, "Count of %q, at most %d", owner, most)
}

// forget does not know which of those will go whose time is over, if not all do: it looks.
func (m *model) forget(t *rapid.T) {
	limit := rapid.IntRange(-1, 4).Draw(t, "limit")
	m.tick(t)
	var over []string
	for key, rec := range m.records {
		if m.over(rec.Keep) {
			over = append(over, key)
		}
	}
	got, err := m.handle(t).Forget(m.rig.ctx, limit)
	require.NoError(t, err, "Forget")
	require.Equalf(t, max(0, min(limit, len(over))), got, "Forget of at most %d, when the time of %d is over", limit, len(over))
	gone := 0
	for _, key := range over {
		if _, err := m.handles[0].Load(m.rig.ctx, key); errors.Is(err, ledger.ErrNotFound) {
			delete(m.records, key)
			gone++
		}
	}
	require.Equal(t, got, gone, "how many records are gone after Forget said how many")
}

func (m *model) pause(t *rapid.T) {
	if m.rig.Advance == nil {
		t.Skip("the clock cannot be moved")
	}
	m.rig.Advance(time.Duration(rapid.IntRange(1, 5000).Draw(t, "ms")) * time.Millisecond)
	m.tick(t)
}

// clean removes what a run leaves, as Forget is for the records of all.
func (m *model) clean() {
	s := m.handles[0]
	for key := range m.records {
		if rec, err := s.Load(m.rig.ctx, key); err == nil {
			rec.Keep = time.Unix(0, 0)
			_ = s.Swap(m.rig.ctx, rec)
		}
	}
	for n := 1; n > 0; {
		n, _ = s.Forget(m.rig.ctx, 1000)
	}
}
