package client_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// booking asks, holds a room, asks again and takes it. Undoing fails while stuck.
func booking(held map[saga.Key]bool, stuck *bool) saga.Definition {
	type form struct {
		Yes bool `json:"yes"`
	}
	first, second := &steps.Form[form]{ID: "first", Message: "A room?"}, &steps.Form[form]{ID: "second", Message: "This one?"}
	room := &saga.Effect[string, bool]{
		Name: "room", Tries: 1,
		Do: func(_ context.Context, k saga.Key, _ string) (bool, error) { held[k] = true; return true, nil },
		Undo: func(_ context.Context, p saga.Performed[string, bool]) error {
			if *stuck {
				return errors.New("stuck")
			}
			delete(held, p.Key)
			return nil
		},
	}
	return saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "booking", Asks: []steps.Question{first, second}, Effects: []saga.Declared{room}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			if _, err := saga.Ask(r, first); err != nil {
				return "", err
			}
			if _, err := saga.Do(r, room, "7"); err != nil {
				return "", err
			}
			_, err := saga.Ask(r, second)
			return "taken", err
		},
	}
}

func TestCallsAreCancelled(t *testing.T) {
	t.Parallel()
	held, stuck := map[saga.Key]bool{}, false
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	s, err := server.New(server.Options{Tools: []saga.Definition{booking(held, &stuck)}, Keys: keys, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	c := client.New(&client.HTTP{URL: web.URL + server.Endpoint}, client.Options{})
	defer c.Close()

	// positions returns where a call stands before, and after, each answer; the
	// one after an answer is as if the turn's response had been lost.
	positions := func() (all []client.Position) {
		handlers := client.Handlers{
			Elicit: func(_ context.Context, r *client.Request) (*client.ElicitResult, error) {
				return client.Accept(map[string]any{"yes": true}), nil
			},
			OnPosition: func(_ context.Context, p client.Position) error {
				all = append(all, p)
				return nil
			},
		}
		_, err := c.Call(t.Context(), "booking", nil, handlers)
		require.NoError(t, err)
		require.Len(t, all, 4)
		return all
	}
	const (
		since = "If the saga went on from this token, what it did since then is not undone: cancel it with its latest token."
		early = "Cancelled. Up to this token, the saga has done nothing that is to be undone. " + since
		from  = "Cancelled. " + since
		after = "Cancelled. If the saga went on after these answers, what it did since then is not undone: cancel it with its latest token."
	)
	all := positions()
	for i, want := range []struct {
		text string
		held int
	}{
		{early, 1},                   // before the first answer: the effect is of a later turn
		{after + "Undone: room.", 0}, // the first answer was sent, its response lost
		{from + "Undone: room.", 0},  // before the second answer
		{"taken", 1},                 // too late
	} {
		clear(held)
		all = positions()
		require.Len(t, held, 1)
		got, err := c.Cancel(t.Context(), throughJSON(t, all[i]))
		require.NoError(t, err)
		assert.Equal(t, want.text, strings.ReplaceAll(got.Content.Text(), "\n", ""), "position %d", i)
		assert.Len(t, held, want.held, "position %d", i)
		assert.False(t, got.Outstanding())
	}

	t.Run("what cannot be undone is said, and cancelling can be repeated", func(t *testing.T) {
		all, stuck = positions(), true
		got, err := c.Cancel(t.Context(), all[2])
		require.NoError(t, err)
		assert.True(t, got.Outstanding())
		stuck = false
		got, err = c.Cancel(t.Context(), all[2])
		require.NoError(t, err)
		assert.False(t, got.Outstanding())
	})
	t.Run("a call that has not begun", func(t *testing.T) {
		_, err := c.Cancel(t.Context(), client.Position{Version: 1, Dialect: "saga", Tool: "booking"})
		require.ErrorAs(t, err, new(*client.PositionError))
		assert.ErrorContains(t, err, "has not begun")
	})
	t.Run("a broken position", func(t *testing.T) {
		_, err := c.Cancel(t.Context(), client.Position{})
		var broken *client.PositionError
		assert.ErrorAs(t, err, &broken)
	})
}

// A turn that needs no answers, as the one after a part, may have been taken as well, and its response lost.
func TestCancelAfterATurnWithoutAnswers(t *testing.T) {
	t.Parallel()
	held, stuck := map[saga.Key]bool{}, false
	tool := booking(held, &stuck).(saga.Flow[struct{}, string])
	run := tool.Run
	tool.Yields = true
	tool.Run = func(r *saga.Run, in struct{}) (string, error) {
		if err := r.Yield(content.Text{Text: "a part"}); err != nil {
			return "", err
		}
		if _, err := saga.Do(r, tool.Effects[0].(*saga.Effect[string, bool]), "8"); err != nil {
			return "", err
		}
		return run(r, in)
	}
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	s, err := server.New(server.Options{Tools: []saga.Definition{tool}, Keys: keys, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	c := client.New(&client.HTTP{URL: web.URL + server.Endpoint}, client.Options{})
	defer c.Close()
	var all []client.Position
	_, err = c.Call(t.Context(), "booking", nil, client.Handlers{
		Elicit: func(context.Context, *client.Request) (*client.ElicitResult, error) { return nil, client.ErrPause },
		OnPosition: func(_ context.Context, p client.Position) error {
			all = append(all, p)
			return nil
		},
	})
	require.ErrorIs(t, err, client.ErrPause)
	require.Empty(t, all[0].Steps)
	require.Len(t, held, 1)
	got, err := c.Cancel(t.Context(), throughJSON(t, all[0]))
	require.NoError(t, err)
	assert.Contains(t, got.Content.Text(), "Undone: room.")
	assert.Empty(t, held)
}
