package server_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

func taskTool(mode saga.TaskMode) saga.Definition {
	type none struct{}
	return saga.Machine[none, none]{
		Info:  saga.Info{Name: "job", Tasks: saga.Tasks{Mode: mode}},
		Start: func(t *saga.Turn[none, none]) (saga.Next, error) { return t.Textf("done") },
	}
}

// A tool that must be a task is refused where there can be none.
func TestTasksNeedALedger(t *testing.T) {
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	options := server.Options{Keys: keys, Tools: []saga.Definition{taskTool(saga.TasksRequired)}, Logger: slog.New(slog.DiscardHandler)}
	_, err = server.New(options)
	var wrong *saga.DefinitionError
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, "job", wrong.Tool)
	assert.ErrorContains(t, err, "ledger")
	options.Ledger = ledger.NewMemory(ledger.MemoryOptions{})
	_, err = server.New(options)
	require.NoError(t, err)
	options.Ledger, options.Tools = nil, []saga.Definition{taskTool(saga.TasksOptional)}
	_, err = server.New(options)
	require.NoError(t, err)
}

// A process that only works ends when it is told to.
func TestWorkEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, err := codec.NewKeyset()
		require.NoError(t, err)
		options := server.Options{Keys: keys, Tools: []saga.Definition{taskTool(saga.TasksOptional)}, Logger: slog.New(slog.DiscardHandler)}
		s, err := server.New(options)
		require.NoError(t, err)
		require.ErrorContains(t, s.Work(t.Context()), "Ledger")
		options.Ledger = ledger.NewMemory(ledger.MemoryOptions{})
		s, err = server.New(options)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, s.Work(ctx), context.DeadlineExceeded)
		assert.Equal(t, time.Hour, time.Since(began))
	})
}
