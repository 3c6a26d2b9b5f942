package late_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/late"
	"github.com/mcpsaga/mcpsaga/internal/store"
)

var (
	errAway  = errors.New("nobody listens there")
	errWrong = errors.New("wrong password")
)

// database is one that a test starts and stops.
type database struct {
	fails  atomic.Pointer[error]
	opened atomic.Int32
}

func (d *database) open(context.Context) (store.Store, error) {
	d.opened.Add(1)
	if err := d.fails.Load(); err != nil {
		return nil, *err
	}
	return &there{}, nil
}

func isAway(err error) bool { return errors.Is(err, errAway) }

// there is a store that answers.
type there struct {
	store.Store
	closed atomic.Bool
}

func (*there) Load(_ context.Context, id store.ID) (*store.Record, error) {
	return &store.Record{ID: id, Head: 7}, nil
}

func (*there) Take(context.Context, store.Take) ([]*store.Record, time.Time, error) {
	return []*store.Record{{Tool: "due"}}, time.Time{}, nil
}

func (t *there) Close() error {
	t.closed.Store(true)
	return nil
}

func TestOpenWaitsOnlyForWhatMayCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		d := new(database)
		s, err := late.Open(t.Context(), logger, d.open, isAway)
		require.NoError(t, err)
		assert.IsType(t, &there{}, s, "who can be opened is what is used")
		assert.Empty(t, log.String())

		d.fails.Store(&errWrong)
		_, err = late.Open(t.Context(), logger, d.open, isAway)
		require.ErrorIs(t, err, errWrong)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		d.fails.Store(&errAway)
		_, err = late.Open(ctx, logger, d.open, isAway)
		require.ErrorIs(t, err, errAway, "nobody wants it any more")
	})
}

// A database that hangs is away as well.
func TestOpenDoesNotHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		s, err := late.Open(t.Context(), slog.New(slog.DiscardHandler), func(ctx context.Context) (store.Store, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, isAway)
		require.NoError(t, err)
		assert.Equal(t, 10*time.Second, time.Since(begun))
		require.NoError(t, s.Close())
	})
}

func TestStoreComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d := new(database)
		d.fails.Store(&errAway)
		s, err := late.Open(t.Context(), slog.New(slog.NewTextHandler(&log, nil)), d.open, isAway)
		require.NoError(t, err)
		_, err = s.Load(t.Context(), store.ID{1})
		require.ErrorIs(t, err, errAway)
		_, err = s.Check(t.Context())
		require.ErrorIs(t, err, errAway)
		_, err = s.Identity(t.Context())
		require.ErrorIs(t, err, errAway)
		require.ErrorIs(t, s.Write(t.Context(), &store.Record{}, store.Change{}), errAway)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, _, err = s.Take(ctx, store.Take{})
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, s.Listen(ctx, nil), context.DeadlineExceeded)

		time.Sleep(5 * time.Minute)
		synctest.Wait()
		assert.InDelta(t, 5, strings.Count(log.String(), "the ledger still cannot be opened"), 1, "once a minute")
		// What is wrong when it is there is said at once, and may be mended.
		d.fails.Store(&errWrong)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		assert.Contains(t, log.String(), "wrong password")

		taken := make(chan string, 1)
		go func() {
			due, _, err := s.Take(t.Context(), store.Take{})
			assert.NoError(t, err)
			taken <- due[0].Tool
		}()
		synctest.Wait()
		d.fails.Store(nil)
		assert.Equal(t, "due", <-taken, "who has waited goes on")
		r, err := s.Load(t.Context(), store.ID{1})
		require.NoError(t, err)
		assert.EqualValues(t, 7, r.Head)
		assert.Contains(t, log.String(), "the ledger is there now")
		attempts := d.opened.Load()
		time.Sleep(time.Minute)
		assert.Equal(t, attempts, d.opened.Load(), "it is opened once")
		require.NoError(t, s.Close())
	})
}

func TestCloseBeforeTheStoreIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(database)
		d.fails.Store(&errAway)
		s, err := late.Open(t.Context(), slog.New(slog.DiscardHandler), d.open, isAway)
		require.NoError(t, err)
		waited := make(chan error, 1)
		go func() {
			_, _, err := s.Take(t.Context(), store.Take{})
			waited <- err
		}()
		synctest.Wait()
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-waited, store.ErrClosed)
		_, err = s.Load(t.Context(), store.ID{1})
		require.ErrorIs(t, err, store.ErrClosed)
		require.NoError(t, s.Close())
	})
}
