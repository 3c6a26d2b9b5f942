package durable

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// ownTasks are this project's, with leases and intervals as they are by default.
type ownTasks struct {
	store ledger.Store
	core  *durable.Core
	leave context.CancelFunc
	work  sync.WaitGroup
}

type counted struct {
	N int `json:"n"`
}

func threeSteps() saga.Definition {
	type turn = saga.Turn[struct{}, counted]
	return saga.Machine[struct{}, counted]{
		Info:  saga.Info{Name: "steps", Description: "Does nothing in three steps.", Tasks: saga.Tasks{Mode: saga.TasksOptional}},
		Start: func(t *turn) (saga.Next, error) { t.State.N++; return t.Goto("second") },
		Steps: saga.Steps[struct{}, counted]{
			"second": func(t *turn) (saga.Next, error) { t.State.N++; return t.Goto("third") },
			"third":  func(t *turn) (saga.Next, error) { t.State.N++; return t.Textf("%d", t.State.N) },
		},
	}
}

func openTasks(ctx context.Context, target string) (worker, error) {
	keys, err := codec.NewKeyset()
	if err != nil {
		return nil, err
	}
	var store ledger.Store
	if strings.HasPrefix(target, "/") {
		store, err = sqlite.Open(ctx, target)
	} else {
		store, err = postgres.Open(ctx, target)
	}
	if err != nil {
		return nil, err
	}
	sealer, err := tokens.New(keys, tokens.Options{Audience: "bench"})
	if err != nil {
		return nil, err
	}
	registry, err := engine.NewRegistry(threeSteps())
	if err != nil {
		return nil, err
	}
	runner := turns.New(turns.Config{
		Registry: registry, Codec: sealer, Log: slog.New(slog.DiscardHandler), Now: time.Now, UndoGrace: turns.DefaultUndoGrace,
	})
	core, err := durable.New(durable.Config{Turns: runner, Store: store, Workers: most, PerPrincipal: most})
	if err != nil {
		return nil, err
	}
	working, leave := context.WithCancel(context.Background())
	t := &ownTasks{store: store, core: core, leave: leave}
	t.work.Go(func() { _ = core.Work(working) })
	return t, nil
}

const principal = "bench"

func (t *ownTasks) Do(ctx context.Context) error {
	task, err := t.core.Start(ctx, tasks.Start{Request: turns.Request{
		Policy: turns.Carried, Method: "tools/call", Principal: principal, Client: steps.AllFeatures(),
		Program: t.core.Turns.Registry.Find(engine.KindTool, "steps"), Arguments: json.RawMessage("{}"),
	}})
	if err != nil {
		return err
	}
	for found, err := range t.core.Follow(ctx, principal, task.ID, tasks.NoEvents, nil) {
		if err != nil {
			return err
		}
		task = found.Task
	}
	if task.Status != tasks.Completed || task.End == nil {
		return wrong(task.Status)
	}
	return nil
}

func (t *ownTasks) Close() {
	t.leave()
	t.work.Wait()
	_ = t.store.Close()
}
