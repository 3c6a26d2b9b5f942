package turns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// newRunner returns a runner of tools with keys of its own.
func newRunner(t testing.TB, definitions ...saga.Definition) *Runner {
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	c, err := tokens.New(keys, tokens.Options{})
	require.NoError(t, err)
	tools, err := engine.NewRegistry(definitions...)
	require.NoError(t, err)
	return New(Config{Registry: tools, Codec: c, Log: slog.New(slog.DiscardHandler), Now: time.Now, Timeout: time.Minute})
}

// world is where effects happen: once per key, and never after they were undone.
type world struct {
	mu     sync.Mutex
	done   map[saga.Key]string // what is done
	undone map[saga.Key]bool
	calls  []string
}

func newWorld() *world {
	return &world{done: map[saga.Key]string{}, undone: map[saga.Key]bool{}}
}

// things lists what is done.
func (w *world) things() (list []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, what := range w.done {
		list = append(list, what)
	}
	return list
}

func (w *world) do(_ context.Context, name string, key saga.Key) error {
	w.mu.Lock()
	w.calls = append(w.calls, name)
	if w.undone[key] {
		w.mu.Unlock()
		return saga.Refused(errors.New("it was undone"))
	}
	w.done[key] = name
	w.mu.Unlock()
	return nil
}

func (w *world) undo(_ context.Context, name string, key saga.Key) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, "undo "+name)
	delete(w.done, key)
	w.undone[key] = true
	return nil
}

func (w *world) effect(name string) *saga.Effect[string, string] {
	return &saga.Effect[string, string]{
		Name: name, Tries: 1,
		Do: func(ctx context.Context, key saga.Key, in string) (string, error) {
			return string(key), w.do(ctx, name, key)
		},
		Undo: func(ctx context.Context, p saga.Performed[string, string]) error { return w.undo(ctx, name, p.Key) },
	}
}

type (
	tripArgs struct {
		To string `json:"to"`
	}
	tripForm struct {
		OK bool `json:"ok"`
	}
)

// say is an answer.
func say(id string, ok bool) steps.Answer {
	return steps.Answer{StepID: id, Result: fmt.Appendf(nil, `{"action":"accept","content":{"ok":%v}}`, ok)}
}
