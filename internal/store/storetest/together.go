package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// Of those who create the same record, or acquire it, one wins.
func testOneWinner(t *testing.T, r rig) {
	other := r.another(t)
	id := newID()
	race := func(write func(s store.Store, i int) error) (winners int64) {
		var group sync.WaitGroup
		var won atomic.Int64
		for i := range 32 {
			group.Go(func() {
				err := write([]store.Store{r, other}[i%2], i)
				if err == nil {
					won.Add(1)
				} else {
					assert.ErrorIs(t, err, store.ErrConflict)
				}
			})
		}
		group.Wait()
		return won.Load()
	}
	assert.EqualValues(t, 1, race(func(s store.Store, i int) error {
		rec := sample()
		rec.ID = id
		return s.Write(t.Context(), rec, change(fmt.Sprint(i)))
	}))
	assert.EqualValues(t, 1, race(func(s store.Store, i int) error {
		rec := sample()
		rec.ID, rec.Fence, rec.Head = id, 1, 1
		return s.Write(t.Context(), rec, store.Change{Items: items(fmt.Sprint(i)), Lease: time.Hour})
	}))
	assert.Len(t, r.bodies(t, id), 2)
}

// Signals that come while others write are numbered without gaps, each once, and each is read by a writer.
func testNoSignalIsLost(t *testing.T, r rig) {
	other := r.another(t)
	rec := r.create(t, change("begin"))
	const signallers, each = 4, 15
	var group sync.WaitGroup
	for i := range signallers {
		group.Go(func() {
			s := []store.Store{r, other}[i%2]
			for n := 0; n < each; {
				found, err := s.Load(t.Context(), rec.ID)
				if !assert.NoError(t, err) {
					return
				}
				err = s.Signal(t.Context(), rec.ID, found.Head, items(fmt.Sprintf("signal %d.%d", i, n))...)
				if err == nil {
					n++
				} else if !assert.ErrorIs(t, err, store.ErrConflict) {
					return
				}
			}
		})
	}
	read := map[string]int{}
	for len(read) < signallers*each {
		found := r.load(t, rec.ID)
		if len(found.Unread) == 0 {
			time.Sleep(time.Millisecond)
			continue
		}
		err := r.Write(t.Context(), found, change("read"))
		if errors.Is(err, store.ErrConflict) {
			continue
		}
		require.NoError(t, err)
		// Unread is empty after the write: what was in it is in the log.
		l, err := r.Log(t.Context(), rec.ID, 0, 1000)
		require.NoError(t, err)
		for _, i := range l.Items {
			if i.N < found.Head && string(i.Body) != "read" && string(i.Body) != "begin" {
				read[string(i.Body)]++
			}
		}
	}
	group.Wait()
	l, err := r.Log(t.Context(), rec.ID, 0, 1000)
	require.NoError(t, err)
	for i, item := range l.Items {
		assert.EqualValues(t, i+1, item.N)
	}
	assert.EqualValues(t, len(l.Items), l.Head)
}

// Takers do not take the same.
func testEachIsTakenOnce(t *testing.T, r rig) {
	other := r.another(t)
	const n = 60
	for i := range n {
		r.create(t, change("x"), due(i))
	}
	var mu sync.Mutex
	taken := map[store.ID]int{}
	var group sync.WaitGroup
	for i := range 6 {
		group.Go(func() {
			s := []store.Store{r, other}[i%2]
			for end := time.Now().Add(patience); time.Now().Before(end); {
				list, next, err := s.Take(t.Context(), taking(5))
				if !assert.NoError(t, err) {
					return
				}
				mu.Lock()
				for _, rec := range list {
					taken[rec.ID]++
				}
				all := len(taken) == n
				mu.Unlock()
				if all || len(list) == 0 && next.IsZero() {
					return
				}
			}
		})
	}
	group.Wait()
	assert.Len(t, taken, n)
	for id, times := range taken {
		assert.Equal(t, 1, times, id)
	}
}
