package ledgertest

import (
	"context"
	"flag"
	"iter"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/longtests"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// broken is a store with some methods replaced by others that are wrong.
type broken struct {
	ledger.Store
	skew   time.Duration
	load   func(context.Context, string) (*ledger.Record, error)
	swap   func(context.Context, *ledger.Record, ...ledger.Item) error
	items  func(context.Context, string, uint64, int) ([]ledger.Item, error)
	watch  func(context.Context, string, uint64, func(*ledger.Record, error) bool)
	notify func(string, uint64, func()) func()
	take   func(context.Context, ledger.Take) ([]*ledger.Record, error)
	list   func(context.Context, []string, string, int) ([]*ledger.Record, error)
	owned  func(context.Context, []string, string, int) ([]*ledger.Record, error)
	count  func(context.Context, string, int) (int, error)
	forget func(context.Context, int) (int, error)
	now    func(context.Context) (time.Time, error)
	close  func() error
}

func (b *broken) Load(ctx context.Context, key string) (*ledger.Record, error) {
	return b.load(ctx, key)
}
func (b *broken) Swap(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
	return b.swap(ctx, r, items...)
}
func (b *broken) Items(ctx context.Context, key string, after uint64, limit int) ([]ledger.Item, error) {
	return b.items(ctx, key, after, limit)
}
func (b *broken) Watch(ctx context.Context, key string, after uint64) iter.Seq2[*ledger.Record, error] {
	return func(yield func(*ledger.Record, error) bool) { b.watch(ctx, key, after, yield) }
}
func (b *broken) Notify(key string, rev uint64, changed func()) (stop func()) {
	if b.notify == nil {
		return nil
	}
	return b.notify(key, rev, changed)
}
func (b *broken) Take(ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
	return b.take(ctx, t)
}
func (b *broken) List(ctx context.Context, queues []string, after string, limit int) ([]*ledger.Record, error) {
	return b.list(ctx, queues, after, limit)
}
func (b *broken) Owned(ctx context.Context, owners []string, after string, limit int) ([]*ledger.Record, error) {
	return b.owned(ctx, owners, after, limit)
}
func (b *broken) Count(ctx context.Context, owner string, most int) (int, error) {
	return b.count(ctx, owner, most)
}
func (b *broken) Forget(ctx context.Context, limit int) (int, error) { return b.forget(ctx, limit) }
func (b *broken) Now(ctx context.Context) (time.Time, error)         { return b.now(ctx) }
func (b *broken) Close() error                                       { return b.close() }

func breakable(s ledger.Store, skew time.Duration) *broken {
	b := &broken{
		Store: s, skew: skew, load: s.Load, swap: s.Swap, items: s.Items, take: s.Take, list: s.List, owned: s.Owned, count: s.Count,
		forget: s.Forget, now: s.Now, close: s.Close,
		watch: func(ctx context.Context, key string, after uint64, yield func(*ledger.Record, error) bool) {
			s.Watch(ctx, key, after)(yield)
		},
	}
	if n, ok := s.(ledger.Notifier); ok {
		b.notify = n.Notify
	}
	return b
}

// variant is one way to be wrong. Breaks is called for each set of data, and what it
// returns for each handle on it.
type variant struct {
	name   string
	breaks func() func(b *broken)
}

// each is a variant whose handles share nothing.
func each(name string, change func(b *broken)) variant {
	return variant{name, func() func(b *broken) { return change }}
}

// variants are stores as somebody might write them, each with a mistake.
func variants() (all []variant) {
	for _, part := range [][]variant{brokenSwaps(), brokenReads(), brokenWatches(), brokenTakes(), brokenSets(), brokenEnds()} {
		all = append(all, part...)
	}
	return all
}

// Each of the broken stores must be found by the checks that foundBy names, and each check
// must find one. That is how this suite is known to be able to fail.
func TestBrokenStoresAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("it looks for what the suite finds, which takes long")
	}
	t.Parallel()
	all := map[string]check{}
	for _, c := range checks() {
		all[c.name] = c
	}
	seen := map[string]bool{"model": true}
	var trying sync.WaitGroup
	room := make(chan struct{}, 128) // most of them wait for what does not happen
	for _, v := range variants() {
		by := foundBy[v.name]
		assert.NotEmpty(t, by, "which check is to find %q?", v.name)
		for _, name := range by {
			seen[name] = true
			require.Contains(t, all, name)
			trying.Go(func() {
				room <- struct{}{}
				defer func() { <-room }()
				found := finds(all[name], v)
				assert.NotEmptyf(t, found, "a store that %s is not found by %q", v.name, name)
				t.Logf("%s, %s: %.400s", v.name, name, found)
			})
		}
	}
	trying.Wait()
	for name := range all {
		assert.True(t, seen[name], "no broken store is found by %q", name)
	}
}

func TestBrokenStoresAreFoundByTheModel(t *testing.T) {
	if testing.Short() {
		t.Skip("it looks for what the model finds, which takes long")
	}
	t.Parallel()
	for _, v := range variants() {
		if !slices.Contains(foundByModel, v.name) {
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			assert.NotEmpty(t, finds(modelChecks[0], v), "the model does not find this store to be broken")
		})
	}
}

// finds runs a check on a broken store until it fails, and returns what it found. Some mistakes are found
// by chance, which comes soon, but on a busy machine not at once.
func finds(c check, v variant) (found string) {
	patience := time.Second
	if !longtests.Wanted() {
		patience = 400 * time.Millisecond
	}
	for end := time.Now().Add(time.Minute); found == "" && time.Now().Before(end); {
		found = tries(c, v.start, patience)
	}
	return found
}

// start is the harness of a broken store.
func (v variant) start(t testing.TB) Harness {
	change := v.breaks()
	return overNetwork(t, nil, func(s ledger.Store, skew time.Duration) ledger.Store {
		b := breakable(s, skew)
		change(b)
		return b
	})
}

// A broken store's random calls are not worth shortening, or keeping; and most tests wait.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.shrinktime": "1ms", "test.parallel": "64"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
