package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// taking is a take of all that sample makes.
func taking(limit int) store.Take {
	return store.Take{Audience: "a", Tools: []store.Tool{{Name: "t", Revision: 3}}, Format: 1, Limit: limit, Lease: time.Hour}
}

// due has a record be due at a time so many seconds after 2001-09-09.
func due(seconds int) func(*store.Record) {
	return func(r *store.Record) { r.Wake = time.Unix(1e9+int64(seconds), 0) }
}

// take takes records and returns their IDs.
func (r rig) take(t *testing.T, what store.Take) (ids []store.ID) {
	t.Helper()
	taken, _, err := r.Take(t.Context(), what)
	require.NoError(t, err)
	for _, rec := range taken {
		ids = append(ids, rec.ID)
	}
	return ids
}

// What is due is taken by who can drive it, once, with what is unread.
func testTake(t *testing.T, r rig) {
	taken, next, err := r.Take(t.Context(), taking(1))
	require.NoError(t, err)
	assert.Empty(t, taken)
	assert.True(t, next.IsZero())

	rec := r.create(t, change("one"), due(0))
	require.NoError(t, r.Signal(t.Context(), rec.ID, 1, items("two")...))
	for name, edit := range map[string]func(*store.Take){
		"another audience": func(c *store.Take) { c.Audience = "b" },
		"another tool":     func(c *store.Take) { c.Tools[0].Name = "u" },
		"no tools":         func(c *store.Take) { c.Tools = nil },
		"an old revision":  func(c *store.Take) { c.Tools[0].Revision = 2 },
		"an old format":    func(c *store.Take) { c.Format = 0 },
	} {
		c := taking(10)
		edit(&c)
		assert.Empty(t, r.take(t, c), name)
	}
	newer := taking(10)
	newer.Tools = []store.Tool{{Name: "other", Revision: 1}, {Name: "t", Revision: 8}, {Name: "t", Revision: 8}}
	newer.Format = 7
	before := r.load(t, rec.ID)
	taken, next, err = r.Take(t.Context(), newer)
	require.NoError(t, err)
	require.Len(t, taken, 1)
	got := taken[0]
	assert.Equal(t, []any{rec.ID, uint64(1), 1, uint64(2), "state"}, []any{got.ID, got.Fence, got.Tries, got.Head, string(got.State)})
	assert.Equal(t, got.Now.Add(time.Hour), got.Until)
	require.Len(t, got.Unread, 1)
	assert.Equal(t, "two", string(got.Unread[0].Body))
	assert.False(t, next.After(got.Until), "it may be due again when the lease is over")
	assert.Empty(t, r.take(t, newer), "it is held")

	before.Fence++ // as who acquires it writes, and now its holder does
	assert.ErrorIs(t, r.Write(t.Context(), before, change("x")), store.ErrConflict, "who has read it before it was taken cannot acquire it")
	assert.ErrorIs(t, r.Write(t.Context(), rec, change("x")), store.ErrConflict, "who had it before has lost it")
	require.NoError(t, r.Signal(t.Context(), rec.ID, 2, items("three")...))
	assert.Empty(t, r.take(t, newer), "a signal does not take it away")
	got = r.load(t, rec.ID)
	got.Wake = time.Time{}
	require.NoError(t, r.Write(t.Context(), got, change("x")))
	assert.Empty(t, r.take(t, newer), "it is not due any more")

	later := r.create(t, change("x"), func(c *store.Record) { c.Wake = r.now(t).Add(time.Hour) })
	taken, next, err = r.Take(t.Context(), newer)
	require.NoError(t, err)
	assert.Empty(t, taken)
	assert.True(t, next.Equal(later.Wake) || next.Equal(store.Micro(later.Wake)), "%v", next)
}

// Those that have waited longest are taken first.
func testTakeOrder(t *testing.T, r rig) {
	var want []store.ID
	for _, i := range []int{3, 0, 4, 1, 2} {
		r.create(t, change("x"), due(i), func(c *store.Record) { c.Tool = []string{"t", "u"}[i%2]; c.ID = store.ID{byte(i + 1)} })
	}
	for i := range 5 {
		want = append(want, store.ID{byte(i + 1)})
	}
	both := taking(2)
	both.Tools = []store.Tool{{Name: "t", Revision: 3}, {Name: "u", Revision: 3}}
	_, next, err := r.Take(t.Context(), store.Take{Audience: "none", Limit: 1, Lease: time.Hour})
	require.NoError(t, err)
	assert.True(t, next.IsZero())
	taken, next, err := r.Take(t.Context(), both)
	require.NoError(t, err)
	require.Len(t, taken, 2)
	assert.False(t, next.After(taken[0].Now), "there are more")
	got := []store.ID{taken[0].ID, taken[1].ID}
	got = append(got, r.take(t, both)...)
	got = append(got, r.take(t, both)...)
	assert.Equal(t, want, got)
	assert.Empty(t, r.take(t, both))

	r.create(t, change("x"), due(0))
	r.create(t, change("x"), due(1))
	taken, next, err = r.Take(t.Context(), taking(1))
	require.NoError(t, err)
	require.Len(t, taken, 1)
	assert.False(t, next.After(taken[0].Now), "there is one more of the same tool")
}

// When a lease is over another takes the record, which counts its tries until it is written.
func testLeases(t *testing.T, r rig) {
	rec := r.create(t, change("x"), due(0))
	short := taking(1)
	short.Lease = 10 * time.Millisecond
	for try := 1; try <= 3; try++ {
		var taken []*store.Record
		require.Eventually(t, func() bool {
			var err error
			taken, _, err = r.Take(t.Context(), short)
			require.NoError(t, err)
			return len(taken) == 1
		}, patience, 5*time.Millisecond)
		assert.Equal(t, []any{try, uint64(try)}, []any{taken[0].Tries, taken[0].Fence})
		if try == 3 {
			require.NoError(t, r.Write(t.Context(), taken[0], change("x")))
		}
	}
	assert.Zero(t, r.load(t, rec.ID).Tries)
	assert.Equal(t, uint64(3), r.load(t, rec.ID).Fence)
}

func testRenew(t *testing.T, r rig) {
	held := r.create(t, store.Change{Items: items("x"), Lease: time.Minute}, due(0), func(r *store.Record) { r.Fence = 1 })
	given := r.create(t, change("x"), func(r *store.Record) { r.Fence = 1 })
	replaced := r.create(t, store.Change{Items: items("x"), Lease: time.Minute}, func(r *store.Record) { r.Fence = 2 })
	gone := newID()
	lost, err := r.Renew(t.Context(), []store.Held{{ID: held.ID, Fence: 1}, {ID: given.ID, Fence: 1}, {ID: replaced.ID, Fence: 1}, {ID: gone, Fence: 1}}, time.Hour)
	require.NoError(t, err)
	assert.ElementsMatch(t, []store.ID{given.ID, replaced.ID, gone}, lost)
	after := r.load(t, held.ID)
	assert.Greater(t, after.Until.Sub(after.Now), 50*time.Minute)
	assert.Equal(t, []any{uint64(1), uint64(1)}, []any{after.Head, after.Fence}, "nothing else has changed")
	assert.True(t, r.load(t, given.ID).Until.IsZero(), "what was given up stays so")
	other := r.load(t, replaced.ID)
	assert.Less(t, other.Until.Sub(other.Now), 2*time.Minute)
	lost, err = r.Renew(t.Context(), nil, time.Hour)
	require.NoError(t, err)
	assert.Empty(t, lost)
	require.NoError(t, r.Write(t.Context(), held, change("x")), "its holder's record is as it was")

	// To take what cannot be read is no try.
	unread := r.create(t, change("x"), due(0))
	for range 3 {
		require.Contains(t, r.take(t, taking(10)), unread.ID)
		found := r.load(t, unread.ID)
		assert.Equal(t, 1, found.Tries)
		lost, err = r.Renew(t.Context(), []store.Held{{ID: unread.ID, Fence: found.Fence, Unread: true}}, 0)
		require.NoError(t, err)
		assert.Empty(t, lost)
		assert.Zero(t, r.load(t, unread.ID).Tries)
		time.Sleep(5 * time.Millisecond)
	}

	// A lease that is over, but that no other has taken, goes on.
	late := r.create(t, store.Change{Items: items("x"), Lease: time.Millisecond}, due(0), func(r *store.Record) { r.Fence = 1 })
	time.Sleep(20 * time.Millisecond)
	lost, err = r.Renew(t.Context(), []store.Held{{ID: late.ID, Fence: 1}}, time.Hour)
	require.NoError(t, err)
	assert.Empty(t, lost)
	assert.NotContains(t, r.take(t, taking(10)), late.ID)
}
