package records

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger"
)

func endSession(s *Session) (bool, error) {
	over := s.Ended
	s.Ended = true
	return !over, nil
}

// What ends a session is known to all with the keys, changes nothing when it is said again,
// and takes no room from sagas.
func TestSessionsEnd(t *testing.T) {
	ctx := t.Context()
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	store := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	open := func(audience string) *Book {
		return New(store, func() *codec.Keyset { return keys }, audience, 2)
	}
	one, other := open("here"), open("here")
	id := func(n byte) [16]byte { return [16]byte{n} }
	until := time.Now().Add(time.Hour)
	end := func(principal string, n byte) error {
		_, err := one.ChangeSession(ctx, principal, id(n), until, nil, endSession)
		return err
	}
	for range 5 {
		require.NoError(t, end("ann", 1))
	}
	for b, want := range map[*Book]bool{one: true, other: true, open("there"): false} {
		s, err := b.Session(ctx, id(1))
		require.NoError(t, err)
		assert.Equal(t, want, s.Ended)
		assert.Equal(t, want, s.Rev() == 1, "it was written once")
	}
	s, err := other.Session(ctx, id(2))
	require.NoError(t, err)
	assert.False(t, s.Ended)
	require.NoError(t, end("ann", 2))
	assert.ErrorIs(t, end("ann", 3), ErrFull)
	require.NoError(t, end("ann", 2), "what is there already takes no more room")
	require.NoError(t, end("bob", 3), "another's do not count")
	require.NoError(t, one.PutBlob(ctx, "ann", id(9), []byte("x"), until), "nor do they count for sagas")
}

// A session's record goes when its id has expired.
func TestSessionsAreForgotten(t *testing.T) {
	b, _, _ := newBook(t)
	_, err := b.ChangeSession(t.Context(), "", [16]byte{1}, time.Now().Add(-time.Minute), nil, endSession)
	require.NoError(t, err)
	n, err := b.Forget(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	s, err := b.Session(t.Context(), [16]byte{1})
	require.NoError(t, err)
	assert.False(t, s.Ended)
}

// Who changes a session at the same time as others loses nothing of theirs, whatever it had
// found before.
func TestSessionChangesAddUp(t *testing.T) {
	_, store, keys := newBook(t)
	b := New(store.Store, func() *codec.Keyset { return keys }, "here", 0)
	id, until := [16]byte{1}, time.Now().Add(time.Hour)
	stale, err := b.Session(t.Context(), id)
	require.NoError(t, err)
	level := slog.LevelError
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			_, err := b.ChangeSession(t.Context(), "ann", id, until, stale, func(s *Session) (bool, error) {
				s.Level = &level
				s.URIs = append(s.URIs[:len(s.URIs):len(s.URIs)], SessionURI{string(rune('a' + n)), Position{1, uint64(n)}})
				return true, nil
			})
			assert.NoError(t, err)
		})
	}
	all.Wait()
	s, err := b.Session(t.Context(), id)
	require.NoError(t, err)
	assert.Len(t, s.URIs, 8)
	assert.EqualValues(t, 8, s.Rev())
	assert.Equal(t, slog.LevelError, *s.Level)
	for n := range 8 {
		require.GreaterOrEqual(t, s.Index(string(rune('a'+n))), 0)
		assert.Equal(t, Position{1, uint64(n)}, s.URIs[s.Index(string(rune('a'+n)))].From)
	}
	assert.Equal(t, -1, s.Index("x"))

	refused := errors.New("no")
	_, err = b.ChangeSession(t.Context(), "ann", id, until, s, func(s *Session) (bool, error) { s.Ended = true; return true, refused })
	assert.Equal(t, refused, err)
	again, err := b.Session(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, s, again)
}

// Who changes a session goes on for as long as its client waits, however often others are faster.
// If they are all that time, it says so.
func TestSessionChangesAreNotCounted(t *testing.T) {
	for name, ahead := range map[string]int{"three hundred times": 300, "always": math.MaxInt} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, store, _ := newBook(t)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				left, other := ahead, uint64(0)
				store.swap = func(ctx context.Context, r *ledger.Record) error {
					if left == 0 {
						return store.Store.Swap(ctx, r)
					}
					left--
					next := *r
					next.Rev = other
					require.NoError(t, store.Store.Swap(t.Context(), &next))
					other = next.Rev
					return store.Store.Swap(ctx, r)
				}
				begun := time.Now()
				s, err := b.ChangeSession(ctx, "ann", [16]byte{1}, time.Now().Add(time.Hour), nil, func(s *Session) (bool, error) { s.Carrier = "x"; return true, nil })
				if ahead == math.MaxInt {
					require.ErrorIs(t, err, ErrConflict)
					assert.ErrorIs(t, err, context.DeadlineExceeded)
					assert.Equal(t, time.Minute, time.Since(begun))
					return
				}
				require.NoError(t, err)
				assert.EqualValues(t, ahead+1, s.Rev())
				assert.Less(t, time.Since(begun), time.Duration(ahead)*50*time.Millisecond)
			})
		})
	}
}

// A session whose record cannot be read has ended: it may say so.
func TestUnreadableSessionsHaveEnded(t *testing.T) {
	b, store, _ := newBook(t)
	id := [16]byte{1}
	s, err := b.ChangeSession(t.Context(), "ann", id, time.Now().Add(time.Hour), nil, func(s *Session) (bool, error) { s.Carrier = "x"; return true, nil })
	require.NoError(t, err)
	r, err := store.Load(t.Context(), s.key)
	require.NoError(t, err)
	assert.NotContains(t, string(r.Body), "carrier", "it is sealed")
	r.Body[len(r.Body)-1] ^= 1
	require.NoError(t, store.Swap(t.Context(), r))
	s, err = b.Session(t.Context(), id)
	require.NoError(t, err)
	assert.True(t, s.Ended)
	assert.Empty(t, s.Carrier)
}
