package tasks

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// emptyManager has no tools. Its store closes with the test.
func emptyManager(t *testing.T) *Manager {
	store := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	c, err := tokens.New(keys, tokens.Options{Audience: "test"})
	require.NoError(t, err)
	registry, err := engine.NewRegistry()
	require.NoError(t, err)
	runner, err := turns.New(turns.Config{Registry: registry, Codec: c, Log: slog.New(slog.DiscardHandler), Now: time.Now, Ledger: store})
	require.NoError(t, err)
	m, err := New(Config{Turns: runner})
	require.NoError(t, err)
	return m
}

// Whoever has seen what a client has written is not shown what was before it, by a run that has only
// to go.
func TestNobodyIsShownLessThanBefore(t *testing.T) {
	m := emptyManager(t)
	e, err := m.book.NewTask(t.Context(), records.Task{
		TaskIdentity: records.TaskIdentity{ID: "task", Principal: "p"}, TaskRuns: records.TaskRuns{State: records.TaskWaiting},
	}, false)
	require.NoError(t, err)
	epoch, err := m.book.PutTask(t.Context(), e, false)
	require.NoError(t, err)
	r := m.newRun(t.Context(), e, epoch)
	m.crew.held[r.key] = r
	first := func() *Task {
		for task, err := range m.Watch(t.Context(), "p", "task", 0) {
			require.NoError(t, err)
			return task
		}
		return nil
	}
	assert.Equal(t, e.Rev(), first().Rev)
	next := e.Clone()
	next.Seen++
	_, err = m.book.PutTask(t.Context(), next, false)
	require.NoError(t, err)
	now, err := m.Get(t.Context(), "p", "task")
	require.NoError(t, err)
	assert.Greater(t, now.Rev, e.Rev())
	assert.Equal(t, now.Rev, first().Rev)
}

// A task that was put to rest is not taken again by whoever renews leases, though its run may be
// there for a moment yet: nobody would work on it, and answers to it would come to nothing.
func TestWhatRestsIsNotTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := emptyManager(t)
		for _, rests := range []bool{true, false} {
			id := map[bool]string{true: "rests", false: "runs"}[rests]
			e, err := m.book.NewTask(t.Context(), records.Task{
				TaskIdentity: records.TaskIdentity{ID: id, Principal: "p"}, TaskRuns: records.TaskRuns{State: records.TaskWaiting},
			}, false)
			require.NoError(t, err)
			e.Wake = m.now().Add(time.Minute)
			if rests {
				e.Rest = e.Wake
			}
			epoch, err := m.book.PutTask(t.Context(), e, true)
			require.NoError(t, err)
			r := m.newRun(context.Background(), e, epoch)
			r.until = m.now().Add(m.Lease / 2) // it is time
			m.crew.held[r.key] = r
		}
		ctx, stop := context.WithTimeout(t.Context(), m.Lease/5)
		defer stop()
		m.renew(ctx)
		synctest.Wait()
		// Nor is it by what its tool tells too late.
		for _, r := range m.crew.held {
			r.notes.waiting = []Event{{Kind: EventProgress, Progress: &engine.Progress{Done: 1}}}
			r.notes.flush()
		}
		for id, writes := range map[string]uint64{"rests": 0, "runs": 2} {
			e, err := m.book.Task(t.Context(), "p", id)
			require.NoError(t, err)
			assert.Equal(t, writes, e.Writes, id)
			assert.Equal(t, id == "runs", e.Taken(), id)
		}
	})
}
