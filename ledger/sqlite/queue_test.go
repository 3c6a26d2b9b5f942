package sqlite

import (
	"context"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// What waits is taken in its order, however much was taken before, and in room that does not grow.
func TestQueueKeepsItsOrderAndItsSize(t *testing.T) {
	const waiting = 100
	q := queue{bell: newBell()}
	assert.Nil(t, q.take())
	var added, taken int
	add := func() {
		require.True(t, q.add(&op{bytes: added}))
		added++
	}
	for range waiting {
		add()
	}
	for range 100 * waiting { // it is never empty
		add()
		require.Equal(t, taken, q.take().bytes)
		taken++
	}
	assert.Less(t, cap(q.ops), 8*waiting)
	for taken < added {
		require.Equal(t, taken, q.take().bytes)
		taken++
	}
	assert.Nil(t, q.take())
	q.close()
	assert.False(t, q.add(new(op)))
}

// Who adds to an empty queue wakes the writer, each time.
func TestQueueRings(t *testing.T) {
	q := queue{bell: newBell()}
	for range 3 {
		require.True(t, q.add(new(op)))
		select {
		case <-q.bell:
		default:
			t.Fatal("the writer sleeps on")
		}
		require.True(t, q.add(new(op)))
		q.take()
		q.take()
	}
}

// What its caller has given up is not done if it has not begun, nor kept; and if it has, its outcome is
// not taken for that of what comes later.
func TestGivenUp(t *testing.T) {
	s, err := open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), forTests())
	require.NoError(t, err)
	defer s.Close()
	begun, goOn := make(chan struct{}), make(chan struct{})
	gaveUp := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	try := func(o *op) {
		go func() { gaveUp <- s.writer.do(ctx, o) }()
	}
	try(&op{run: func(*tx) error { close(begun); <-goOn; return errNothing }})
	<-begun
	late := &op{run: func(*tx) error { t.Error("it was done"); return nil }}
	try(late)
	for waits := false; !waits; runtime.Gosched() {
		s.writer.ops.mu.Lock()
		waits = s.writer.ops.first < len(s.writer.ops.ops)
		s.writer.ops.mu.Unlock()
	}
	cancel()
	if one, other := <-gaveUp, <-gaveUp; one == context.Canceled {
		assert.ErrorIs(t, other, ledger.ErrUnknown)
	} else {
		assert.ErrorIs(t, one, ledger.ErrUnknown)
		assert.Equal(t, context.Canceled, other)
	}
	assert.Nil(t, late.run)
	close(goOn)
	for i := range 10 {
		want := ledger.ErrConflict
		if i == 0 {
			want = nil
		}
		assert.Equal(t, want, s.Swap(t.Context(), &ledger.Record{Key: "k"}))
	}
}
