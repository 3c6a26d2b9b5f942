package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// pages lists page by page.
func (r rig) pages(t *testing.T, f store.Filter, size int) (ids []store.ID) {
	t.Helper()
	var after store.Cursor
	for {
		page, err := r.List(t.Context(), f, after, size)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page), size)
		for _, rec := range page {
			assert.Empty(t, rec.State)
			assert.Equal(t, "summary", string(rec.Summary))
			assert.False(t, rec.Created.IsZero())
			ids = append(ids, rec.ID)
			after = store.Cursor{Created: rec.Created, ID: rec.ID}
		}
		if len(page) < size {
			return ids
		}
	}
}

// An owner's records are listed in the order in which they were created, whatever became of them.
func testListOwned(t *testing.T, r rig) {
	var want []store.ID
	for i := range 11 {
		rec := r.create(t, change("x"), func(r *store.Record) { r.ID[0] = byte(200 - i) })
		want = append(want, rec.ID)
		rec.Status = []store.Status{store.Ended, store.Working}[i%2]
		require.NoError(t, r.Write(t.Context(), rec, change("x")))
		for _, edit := range []func(*store.Record){
			func(r *store.Record) { r.Owner = store.ID{7} }, func(r *store.Record) { r.Mode = store.ModeCall },
			func(r *store.Record) { r.Audience = "b" }, func(r *store.Record) { r.Owner = store.ID{} },
		} {
			r.create(t, change("x"), edit)
		}
		time.Sleep(100 * time.Microsecond) // else some are created in the same microsecond
	}
	f := store.Filter{Audience: "a", Owner: store.ID{1}, Mode: store.ModeTask}
	for _, size := range []int{1, 3, 11, 100} {
		assert.Equal(t, want, r.pages(t, f, size), size)
	}
	for _, limit := range []int{0, -1} {
		none, err := r.List(t.Context(), f, store.Cursor{}, limit)
		require.NoError(t, err)
		assert.Empty(t, none)
	}
	none, err := r.List(t.Context(), store.Filter{Audience: "a"}, store.Cursor{}, 10)
	require.NoError(t, err)
	assert.Empty(t, none, "a filter that names nothing finds nothing")
}

func testListStatuses(t *testing.T, r rig) {
	var undoing, both []store.ID
	for range 6 {
		for _, status := range []store.Status{store.Undoing, store.Outstanding, store.Waiting, store.Ended} {
			rec := r.create(t, change("x"), func(r *store.Record) { r.Status = status })
			if status == store.Undoing {
				undoing = append(undoing, rec.ID)
			}
			if status == store.Undoing || status == store.Outstanding {
				both = append(both, rec.ID)
			}
			time.Sleep(100 * time.Microsecond)
		}
	}
	r.create(t, change("x"), func(r *store.Record) { r.Status, r.Audience = store.Undoing, "b" })
	session := r.create(t, change("x"), func(r *store.Record) { r.Status, r.Mode = store.Undoing, store.ModeSession })
	for _, size := range []int{1, 4, 100} {
		assert.Equal(t, append(undoing, session.ID), r.pages(t, store.Filter{Audience: "a", Statuses: []store.Status{store.Undoing}}, size))
		assert.Equal(t, undoing, r.pages(t, store.Filter{Audience: "a", Mode: store.ModeTask, Statuses: []store.Status{store.Undoing}}, size))
		assert.Equal(t, append(both, session.ID), r.pages(t, store.Filter{Audience: "a", Statuses: []store.Status{store.Outstanding, store.Undoing, store.Outstanding}}, size))
	}
}

// What need not be kept any more is removed with its log, and its names are free again.
func testForget(t *testing.T, r rig) {
	request := newID()
	over := r.create(t, change("x"), func(r *store.Record) { r.Keep, r.Request = time.Unix(1e9, 0), request })
	older := r.create(t, change("x"), func(r *store.Record) { r.Keep = time.Unix(1, 0) })
	kept := r.create(t, change("x"), func(c *store.Record) { c.Keep = r.now(t).Add(time.Hour) })
	forever := r.create(t, change("x"))
	for _, want := range []int{1, 1, 0} {
		n, err := r.Forget(t.Context(), 1)
		require.NoError(t, err)
		assert.Equal(t, want, n)
	}
	for _, limit := range []int{0, -1} {
		n, err := r.Forget(t.Context(), limit)
		require.NoError(t, err)
		assert.Zero(t, n)
	}
	for _, id := range []store.ID{over.ID, older.ID} {
		_, err := r.Load(t.Context(), id)
		assert.ErrorIs(t, err, store.ErrNotFound)
		_, err = r.Log(t.Context(), id, 0, 1)
		assert.ErrorIs(t, err, store.ErrNotFound)
	}
	assert.ErrorIs(t, r.Write(t.Context(), over, change("x")), store.ErrConflict, "it is not written again")
	r.load(t, kept.ID)
	r.load(t, forever.ID)
	again := r.create(t, change("again"), func(r *store.Record) { r.ID, r.Request = over.ID, request })
	assert.Equal(t, uint64(1), again.Head)
	assert.Equal(t, []string{"again"}, r.bodies(t, over.ID))
}

func testIdentity(t *testing.T, r rig) {
	id, err := r.Identity(t.Context())
	require.NoError(t, err)
	assert.NotZero(t, id)
	other := r.another(t)
	same, err := other.Identity(t.Context())
	require.NoError(t, err)
	assert.Equal(t, id, same)
}
