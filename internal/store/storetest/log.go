package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// A signal is appended to a record that is held too, changes nothing else, makes the record due, and is
// unread until the record is written.
func testSignal(t *testing.T, r rig) {
	for name, lease := range map[string]time.Duration{"held": time.Hour, "not held": 0} {
		rec := r.create(t, store.Change{Items: items("one"), Lease: lease}, func(r *store.Record) { r.Fence, r.Wake = 1, time.Now().Add(time.Hour) })
		require.NoError(t, r.Signal(t.Context(), rec.ID, 1, items("two", "three")...), name)
		assert.ErrorIs(t, r.Signal(t.Context(), rec.ID, 1, items("x")...), store.ErrConflict, name)
		assert.ErrorIs(t, r.Signal(t.Context(), rec.ID, 4, items("x")...), store.ErrConflict, name)
		found := r.load(t, rec.ID)
		require.Len(t, found.Unread, 2, name)
		assert.Equal(t, []any{uint64(2), "two", uint64(3), "three"}, []any{found.Unread[0].N, string(found.Unread[0].Body), found.Unread[1].N, string(found.Unread[1].Body)})
		assert.Equal(t, uint64(3), found.Head)
		assert.False(t, found.Wake.After(found.Now), name)
		assert.Equal(t, []any{rec.Fence, string(rec.State), rec.Status, rec.Until.Unix()}, []any{found.Fence, string(found.State), found.Status, found.Until.Unix()}, name)

		assert.ErrorIs(t, r.Write(t.Context(), rec, change("x")), store.ErrConflict, "who has not read it cannot write")
		require.NoError(t, r.Write(t.Context(), found, change("four")))
		assert.Empty(t, r.load(t, rec.ID).Unread)
		assert.Equal(t, []string{"one", "two", "three", "four"}, r.bodies(t, rec.ID))
	}
	// One that is due already stays so, with its place.
	due := r.create(t, change("x"), func(r *store.Record) { r.Wake = time.Unix(1000, 0) })
	require.NoError(t, r.Signal(t.Context(), due.ID, 1, items("x")...))
	assert.True(t, r.load(t, due.ID).Wake.Equal(time.Unix(1000, 0)))
	never := r.create(t, change("x"))
	require.NoError(t, r.Signal(t.Context(), never.ID, 1, items("x")...))
	assert.False(t, r.load(t, never.ID).Wake.IsZero())

	for status, want := range map[store.Status]error{store.Ended: store.ErrNotFound, store.Outstanding: store.ErrNotFound, store.Undoing: nil, store.Working: nil} {
		rec := r.create(t, change("x"), func(r *store.Record) { r.Status = status })
		assert.ErrorIs(t, r.Signal(t.Context(), rec.ID, 1, items("x")...), want, status)
	}
	assert.ErrorIs(t, r.Signal(t.Context(), newID(), 0, items("x")...), store.ErrNotFound)
}

// Items up to the floor are removed, but for those that last.
func testFloor(t *testing.T, r rig) {
	rec := r.create(t, store.Change{Items: []store.Item{{Kind: "k", Body: []byte("1")}, {Kind: "k", Lasting: true, Body: []byte("2")}, {Kind: "k", Body: []byte("3")}}})
	rec.Floor = 2
	require.NoError(t, r.Write(t.Context(), rec, store.Change{Items: []store.Item{{Kind: "k", Body: []byte("4")}}}))
	assert.Equal(t, []string{"2", "3", "4"}, r.bodies(t, rec.ID))
	l, err := r.Log(t.Context(), rec.ID, 0, 10)
	require.NoError(t, err)
	assert.Equal(t, []uint64{2, 3, 4, 4, 2}, []uint64{l.Items[0].N, l.Items[1].N, l.Items[2].N, l.Head, l.Floor})
	rec.Floor = 1 // it does not fall
	require.NoError(t, r.Write(t.Context(), rec, change("5")))
	assert.Equal(t, uint64(2), r.load(t, rec.ID).Floor)
	assert.Equal(t, []string{"2", "3", "4", "5"}, r.bodies(t, rec.ID))
	rec.Floor = 100 // beyond what there is, and with it what is appended
	require.NoError(t, r.Write(t.Context(), rec, store.Change{Items: []store.Item{{Kind: "k", Body: []byte("6")}}}))
	assert.Equal(t, []string{"2", "5", "6"}, r.bodies(t, rec.ID), "what is appended stays")
	assert.Equal(t, uint64(5), r.load(t, rec.ID).Floor)
}

// A log is read in pieces.
func testLog(t *testing.T, r rig) {
	var all []string
	for i := range 50 {
		all = append(all, fmt.Sprint(i))
	}
	rec := r.create(t, change(all...), func(r *store.Record) { r.Status = store.Sleeping })
	var read []string
	after := uint64(0)
	for {
		l, err := r.Log(t.Context(), rec.ID, after, 7)
		require.NoError(t, err)
		assert.Equal(t, []uint64{50, 0}, []uint64{l.Head, l.Floor})
		for _, i := range l.Items {
			assert.Equal(t, after+1, i.N)
			assert.Equal(t, []any{"k", true}, []any{i.Kind, i.Lasting})
			assert.True(t, i.At.Equal(rec.Now))
			after = i.N
			read = append(read, string(i.Body))
		}
		if len(l.Items) < 7 {
			break
		}
	}
	assert.Equal(t, all, read)
	for _, limit := range []int{0, -1} {
		l, err := r.Log(t.Context(), rec.ID, 0, limit)
		require.NoError(t, err)
		assert.Empty(t, l.Items)
	}
	l, err := r.Log(t.Context(), rec.ID, 1<<63, 10)
	require.NoError(t, err)
	assert.Empty(t, l.Items)
	_, err = r.Log(t.Context(), newID(), 0, 10)
	assert.ErrorIs(t, err, store.ErrNotFound)
}

// Who listens hears of what any process writes.
func testListen(t *testing.T, r rig) {
	type change struct {
		id   store.ID
		head uint64
	}
	for name, other := range map[string]store.Store{"this process": r.Store, "another": r.another(t)} {
		ctx, cancel := context.WithCancel(within(t))
		changes, ended := make(chan change, 1<<10), make(chan error, 1)
		go func() {
			ended <- r.Listen(ctx, func(id store.ID, head uint64) {
				select {
				case changes <- change{id, head}:
				default: // there are more than anything here waits for
				}
			})
		}()
		next := func() (c change) {
			select {
			case c = <-changes:
			case <-ctx.Done():
				require.FailNow(t, "nothing was heard", name)
			}
			return c
		}
		// hears reports that what is written is heard of. What came before does not count.
		hears := func(id store.ID, head uint64, write func() error) {
			for len(changes) > 0 {
				<-changes
			}
			require.NoError(t, write())
			for {
				c := next()
				if c.id == (store.ID{}) { // anything may have changed
					now, err := r.Load(ctx, id)
					require.NoError(t, err)
					c = change{id, now.Head}
				}
				if c.id == id && c.head >= head {
					return
				}
			}
		}
		next() // it has begun: what came before may have been missed
		rec := sample()
		hears(rec.ID, 1, func() error { return other.Write(t.Context(), rec, store.Change{Items: items("x")}) })
		hears(rec.ID, 2, func() error { return other.Signal(t.Context(), rec.ID, 1, items("y")...) })
		cancel()
		select {
		case err := <-ended:
			assert.ErrorIs(t, err, context.Canceled, name)
		case <-time.After(patience):
			require.FailNow(t, "it does not end")
		}
	}
}

// Nothing is done in a context that has ended, nor by a store that was closed.
func testEnds(t *testing.T, r rig) {
	rec := r.create(t, change("x"))
	calls := func(ctx context.Context, s store.Store) map[string]error {
		errs := map[string]error{}
		_, errs["Load"] = s.Load(ctx, rec.ID)
		_, errs["Find"] = s.Find(ctx, rec.ID)
		errs["Write"] = s.Write(ctx, sample(), change("x"))
		errs["Signal"] = s.Signal(ctx, rec.ID, 1, items("x")...)
		_, _, errs["Take"] = s.Take(ctx, store.Take{Audience: "a", Tools: []store.Tool{{Name: "t", Revision: 9}}, Format: 9, Limit: 1, Lease: time.Second})
		_, errs["Renew"] = s.Renew(ctx, []store.Held{{ID: rec.ID}}, time.Second)
		_, errs["Log"] = s.Log(ctx, rec.ID, 0, 1)
		errs["Listen"] = s.Listen(ctx, func(store.ID, uint64) {})
		_, errs["List"] = s.List(ctx, store.Filter{Audience: "a", Statuses: []store.Status{store.Waiting}}, store.Cursor{}, 1)
		_, errs["Forget"] = s.Forget(ctx, 1)
		_, errs["Identity"] = s.Identity(ctx)
		_, errs["Check"] = s.Check(ctx)
		return errs
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, err := range calls(ended, r) {
		assert.ErrorIs(t, err, context.Canceled, name)
		assert.False(t, errors.Is(err, store.ErrUnknown) && name != "Write" && name != "Signal", name)
	}
	assert.Equal(t, []string{"x"}, r.bodies(t, rec.ID))
	other := r.open()
	listening := make(chan error, 1)
	go func() { listening <- other.Listen(t.Context(), func(store.ID, uint64) {}) }()
	time.Sleep(20 * time.Millisecond)
	require.NoError(t, other.Close())
	require.NoError(t, other.Close())
	select {
	case err := <-listening:
		assert.ErrorIs(t, err, store.ErrClosed)
	case <-time.After(patience):
		require.FailNow(t, "Listen does not end")
	}
	for name, err := range calls(t.Context(), other) {
		assert.ErrorIs(t, err, store.ErrClosed, name)
	}
}
