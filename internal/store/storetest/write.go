package storetest

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// A record is kept as it is written, and what a write is given and returns is what it says.
func testWrite(t *testing.T, r rig) {
	rec := sample()
	rec.Wake, rec.Keep = time.Date(2031, 1, 2, 3, 4, 5, 6789, time.FixedZone("x", 3600)), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	rec.Request, rec.Until, rec.Tries, rec.Unread, rec.Created = newID(), time.Now(), 9, items("x"), time.Unix(1, 0)
	given := *rec
	require.NoError(t, r.Write(t.Context(), rec, change("one", "two")))
	assert.Equal(t, uint64(2), rec.Head)
	assert.Zero(t, rec.Tries)
	assert.Empty(t, rec.Unread)
	assert.True(t, rec.Until.IsZero())
	assert.False(t, rec.Now.IsZero())
	assert.True(t, rec.Created.Equal(rec.Now) && rec.Updated.Equal(rec.Now))

	found := r.load(t, rec.ID)
	want := given
	want.Wake, want.Keep = store.Micro(given.Wake), store.Micro(given.Keep)
	want.Head, want.Until, want.Tries, want.Unread, want.Created, want.Updated, want.Now = 2, time.Time{}, 0, nil, rec.Created, rec.Updated, found.Now
	equal(t, &want, found)
	assert.False(t, found.Now.Before(rec.Now))
	assert.Equal(t, []string{"one", "two"}, r.bodies(t, rec.ID))

	// What does not change is ignored, and all else replaced.
	found.Audience, found.Owner, found.Account, found.Created = "b", store.ID{9}, store.ID{9}, time.Unix(2, 0)
	found.Mode = store.ModeCall
	found.Tool, found.Revision, found.Format, found.Status = "u", 4, 2, store.Ended
	found.Wake, found.Keep, found.Request, found.State, found.Summary = time.Time{}, time.Time{}, store.ID{}, nil, nil
	require.NoError(t, r.Write(t.Context(), found, change("three")))
	assert.Equal(t, uint64(3), found.Head)
	got := r.load(t, rec.ID)
	assert.Equal(t, []any{"a", store.ID{1}, store.ID{2}, store.ModeCall}, []any{got.Audience, got.Owner, got.Account, got.Mode})
	assert.True(t, got.Created.Equal(rec.Created))
	assert.Equal(t, []any{"u", uint32(4), uint16(2), store.Ended}, []any{got.Tool, got.Revision, got.Format, got.Status})
	assert.True(t, got.Wake.IsZero() && got.Keep.IsZero() && got.Request == store.ID{})
	assert.Empty(t, got.State)
	assert.Empty(t, got.Summary)

	// An old head writes nothing.
	for name, old := range map[string]func(*store.Record){
		"an older head":  func(c *store.Record) { c.Head-- },
		"a newer head":   func(c *store.Record) { c.Head++ },
		"a new record":   func(c *store.Record) { c.Head = 0 },
		"one of no such": func(c *store.Record) { c.ID = newID() },
	} {
		c := *got
		old(&c)
		before := c
		assert.ErrorIs(t, r.Write(t.Context(), &c, change("x")), store.ErrConflict, name)
		assert.Equal(t, before, c, name)
	}
	assert.Equal(t, []string{"one", "two", "three"}, r.bodies(t, rec.ID))
	_, err := r.Load(t.Context(), newID())
	assert.ErrorIs(t, err, store.ErrNotFound)
}

// equal compares records, whose times may be in any location.
func equal(t *testing.T, want, got *store.Record) {
	t.Helper()
	utc := func(r *store.Record) store.Record {
		c := *r
		for _, at := range []*time.Time{&c.Wake, &c.Keep, &c.Until, &c.Created, &c.Updated, &c.Now} {
			if !at.IsZero() {
				*at = at.UTC()
			}
		}
		return c
	}
	assert.Equal(t, utc(want), utc(got))
}

// All stores refuse the same, and change nothing.
func testRefused(t *testing.T, r rig) {
	long := strings.Repeat("x", store.MaxName+1)
	for name, c := range map[string]struct {
		edit func(*store.Record, *store.Change)
		want error
	}{
		"no ID":           {func(r *store.Record, _ *store.Change) { r.ID = store.ID{} }, store.ErrInvalid},
		"no tool":         {func(r *store.Record, _ *store.Change) { r.Tool = "" }, store.ErrInvalid},
		"no mode":         {func(r *store.Record, _ *store.Change) { r.Mode = "" }, store.ErrInvalid},
		"no status":       {func(r *store.Record, _ *store.Change) { r.Status = "" }, store.ErrInvalid},
		"no items":        {func(_ *store.Record, c *store.Change) { c.Items = nil }, store.ErrInvalid},
		"no kind":         {func(_ *store.Record, c *store.Change) { c.Items[0].Kind = "" }, store.ErrInvalid},
		"a NUL":           {func(r *store.Record, _ *store.Change) { r.Audience = "a\x00" }, store.ErrInvalid},
		"not UTF-8":       {func(r *store.Record, _ *store.Change) { r.Tool = "\xff" }, store.ErrInvalid},
		"a kind with NUL": {func(_ *store.Record, c *store.Change) { c.Items[0].Kind = "k\x00" }, store.ErrInvalid},
		"a year too late": {func(r *store.Record, _ *store.Change) { r.Wake = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, store.ErrInvalid},
		"a negative time": {func(r *store.Record, _ *store.Change) { r.Keep = time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC) }, store.ErrInvalid},
		"a lease":         {func(_ *store.Record, c *store.Change) { c.Lease = -1 }, store.ErrInvalid},
		"audience":        {func(r *store.Record, _ *store.Change) { r.Audience = long }, store.ErrTooLarge},
		"tool":            {func(r *store.Record, _ *store.Change) { r.Tool = long }, store.ErrTooLarge},
		"kind":            {func(_ *store.Record, c *store.Change) { c.Items[0].Kind = long }, store.ErrTooLarge},
		"state":           {func(r *store.Record, _ *store.Change) { r.State = make([]byte, store.MaxState+1) }, store.ErrTooLarge},
		"summary":         {func(r *store.Record, _ *store.Change) { r.Summary = make([]byte, store.MaxSummary+1) }, store.ErrTooLarge},
		"an item":         {func(_ *store.Record, c *store.Change) { c.Items[0].Body = make([]byte, store.MaxState+1) }, store.ErrTooLarge},
		"items":           {func(_ *store.Record, c *store.Change) { c.Items = items(make([]string, store.MaxItems+1)...) }, store.ErrTooLarge},
	} {
		rec, change := sample(), change("x")
		c.edit(rec, &change)
		assert.ErrorIs(t, r.Write(t.Context(), rec, change), c.want, name)
		_, err := r.Load(t.Context(), rec.ID)
		assert.ErrorIs(t, err, store.ErrNotFound, name)
	}
	rec := r.create(t, change("x"))
	assert.ErrorIs(t, r.Signal(t.Context(), rec.ID, rec.Head), store.ErrInvalid)
	assert.ErrorIs(t, r.Signal(t.Context(), rec.ID, rec.Head, store.Item{Kind: long}), store.ErrTooLarge)
	for _, take := range []store.Take{{Audience: "a", Limit: 0, Lease: time.Second}, {Audience: "a", Limit: 1}} {
		_, _, err := r.Take(t.Context(), take)
		assert.ErrorIs(t, err, store.ErrInvalid)
	}
}

// Bytes come back as they were, up to the limits, and belong to the caller.
func testBytes(t *testing.T, r rig) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	id := store.ID(every[:16])
	rec := r.create(t, store.Change{Items: []store.Item{{Kind: "k", Body: every}, {Kind: "k"}, {Kind: "k", Body: bytes.Repeat(every, store.MaxState/256)}}},
		func(r *store.Record) {
			r.ID, r.Audience, r.Tool, r.State, r.Summary = id, "a 'ü\\\"; --", "t\u2028%_", bytes.Repeat(every, store.MaxState/256), bytes.Repeat(every, store.MaxSummary/256)
		})
	rec.State[0], rec.Summary[0] = 99, 99
	found := r.load(t, id)
	assert.Zero(t, found.State[0])
	assert.Zero(t, found.Summary[0])
	rec.State[0], rec.Summary[0] = 0, 0
	assert.True(t, bytes.Equal(rec.State, found.State) && bytes.Equal(rec.Summary, found.Summary))
	assert.Equal(t, []any{rec.Audience, rec.Tool}, []any{found.Audience, found.Tool})
	found.State[0] = 99
	assert.Zero(t, r.load(t, id).State[0])
	l, err := r.Log(t.Context(), id, 0, 10)
	require.NoError(t, err)
	require.Len(t, l.Items, 3)
	assert.Equal(t, every, l.Items[0].Body)
	assert.Empty(t, l.Items[1].Body)
	assert.Len(t, l.Items[2].Body, store.MaxState)
}

// Who holds a record writes with its fence; others wait for the end of the lease, and add one.
func testFences(t *testing.T, r rig) {
	held := store.Change{Items: items("x"), Lease: time.Hour}
	rec := r.create(t, held, func(r *store.Record) { r.Fence = 1 })
	assert.Equal(t, rec.Now.Add(time.Hour), rec.Until)
	other := r.load(t, rec.ID)
	assert.True(t, other.Until.Equal(rec.Until))
	for _, fence := range []uint64{0, 2, 3} {
		c := *other
		c.Fence = fence
		assert.ErrorIs(t, r.Write(t.Context(), &c, change("x")), store.ErrConflict, fence)
	}
	require.NoError(t, r.Write(t.Context(), rec, held), "its holder writes, and goes on holding it")
	require.NoError(t, r.Write(t.Context(), rec, change("x")), "and gives it up")
	assert.True(t, r.load(t, rec.ID).Until.IsZero())

	other = r.load(t, rec.ID)
	other.Fence += 2
	assert.ErrorIs(t, r.Write(t.Context(), other, held), store.ErrConflict)
	other.Fence--
	require.NoError(t, r.Write(t.Context(), other, held), "then it may be acquired")
	rec.Head = other.Head
	assert.ErrorIs(t, r.Write(t.Context(), rec, change("x")), store.ErrConflict, "and who had it before may not write")

	// A lease that is over is as good as none, but its holder may write until it is replaced.
	short := r.create(t, store.Change{Items: items("x"), Lease: time.Millisecond}, func(r *store.Record) { r.Fence = 5 })
	time.Sleep(20 * time.Millisecond)
	require.NoError(t, r.Write(t.Context(), short, store.Change{Items: items("x"), Lease: time.Millisecond}))
	time.Sleep(20 * time.Millisecond)
	taken := r.load(t, short.ID)
	taken.Fence++
	require.NoError(t, r.Write(t.Context(), taken, held))
	short.Head = taken.Head
	assert.ErrorIs(t, r.Write(t.Context(), short, change("x")), store.ErrConflict)
}

// A record is found by its Request, which no other has.
func testRequests(t *testing.T, r rig) {
	one, two := newID(), newID()
	rec := r.create(t, change("x"), func(r *store.Record) { r.Request = one })
	found, err := r.Find(t.Context(), one)
	require.NoError(t, err)
	assert.Equal(t, rec.ID, found.ID)
	again := sample()
	again.Request = one
	assert.ErrorIs(t, r.Write(t.Context(), again, change("x")), store.ErrConflict)
	other := r.create(t, change("x"), func(r *store.Record) { r.Request = two })
	other.Request = one
	assert.ErrorIs(t, r.Write(t.Context(), other, change("x")), store.ErrConflict)
	rec.Request = newID()
	require.NoError(t, r.Write(t.Context(), rec, change("x")))
	_, err = r.Find(t.Context(), one)
	assert.ErrorIs(t, err, store.ErrNotFound)
	require.NoError(t, r.Write(t.Context(), other, change("x")), "now it is free")
	found, err = r.Find(t.Context(), one)
	require.NoError(t, err)
	assert.Equal(t, other.ID, found.ID)
	_, err = r.Find(t.Context(), store.ID{})
	assert.ErrorIs(t, err, store.ErrNotFound, "the zero ID names nothing")
	r.create(t, change("x"))
	r.create(t, change("x"))
}

// An account has no more records than it may have, but for those that are over.
func testAccounts(t *testing.T, r rig) {
	most := store.Change{Items: items("x"), Most: 2}
	first := r.create(t, most)
	r.create(t, most)
	assert.ErrorIs(t, r.Write(t.Context(), sample(), most), store.ErrFull)
	for name, edit := range map[string]func(*store.Record){
		"another account":  func(r *store.Record) { r.Account = store.ID{7} },
		"another mode":     func(r *store.Record) { r.Mode = store.ModeCall },
		"another audience": func(r *store.Record) { r.Audience = "b" },
	} {
		rec := sample()
		edit(rec)
		assert.NoError(t, r.Write(t.Context(), rec, most), name)
	}
	require.NoError(t, r.Write(t.Context(), first, most), "those that are there go on")
	other := sample()
	other.Mode = store.ModeCall
	require.NoError(t, r.Write(t.Context(), other, change("x")))
	full := *other
	full.Mode = first.Mode
	assert.ErrorIs(t, r.Write(t.Context(), &full, most), store.ErrFull, "one that gets another mode")
	full.Head++
	assert.ErrorIs(t, r.Write(t.Context(), &full, most), store.ErrConflict)
	require.NoError(t, r.Write(t.Context(), other, change("x")), "it is as it was")
	require.NoError(t, r.Write(t.Context(), other, store.Change{Items: items("x"), Most: 1}), "its own mode has the room that it has")
	for _, over := range []store.Status{store.Ended, store.Outstanding} {
		first.Status = over
		require.NoError(t, r.Write(t.Context(), first, change("x")))
		first = r.create(t, most)
		assert.ErrorIs(t, r.Write(t.Context(), sample(), most), store.ErrFull)
	}
	r.create(t, change("any number"))
}
