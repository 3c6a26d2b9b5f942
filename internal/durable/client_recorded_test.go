package durable_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A prompt or a resource has no results that say that they failed: how it failed is recorded.
func TestFailuresAreRecorded(t *testing.T) {
	runs := 0
	fail := map[string]error{
		"told":      saga.Failf("no room"),
		"hidden":    errors.New("secret"),
		"not found": fmt.Errorf("%w here", saga.ErrNotFound),
		"declined":  nil,
	}
	ask := &steps.Form[tripForm]{ID: "where", Message: "There?"}
	type args struct {
		How string `json:"how"`
	}
	prompt := saga.Prompt[args, struct{}]{Machine: saga.Machine[args, struct{}]{
		Info:  saga.Info{Name: "p", Asks: []steps.Question{ask}, SingleUse: saga.SingleUseRequired},
		Start: func(t *saga.Turn[args, struct{}]) (saga.Next, error) { return t.Ask("end", ask) },
		Steps: saga.Steps[args, struct{}]{"end": func(t *saga.Turn[args, struct{}]) (saga.Next, error) {
			if _, err := ask.Answer(t); err != nil {
				return nil, err
			}
			runs++
			return nil, fail[t.Args.How]
		}},
	}}
	s := newFleet(t, prompt)
	var reasons []string
	a := s.replica(func(c *clientConfig) {
		c.Hook = func(ctx context.Context, turn *turns.Turn, next func(context.Context) error) error {
			err := next(ctx)
			reasons = append(reasons, turn.Outcome+" "+turn.Reason)
			return err
		}
	})
	for how := range fail {
		first := a.begin(t, fmt.Sprintf(`{"how":%q}`, how), func(q *turns.Request) { q.Program = a.Registry.Find(engine.KindPrompt, "p") })
		answer := say("where", true)
		if how == "declined" {
			answer.Result = []byte(`{"action":"decline"}`)
		}
		_, once := a.resume(first.Token, answer)
		require.Error(t, once)
		_, again := a.resume(first.Token, answer)
		require.Error(t, again)
		var was, is *engine.ToolError
		if errors.As(once, &was) {
			require.ErrorAs(t, again, &is)
			assert.Equal(t, was.Text, is.Text)
			assert.Equal(t, was.Disclosed, is.Disclosed)
		} else {
			assert.ErrorIs(t, once, saga.ErrNotFound)
			assert.ErrorIs(t, again, saga.ErrNotFound)
		}
		assert.Contains(t, reasons[len(reasons)-1], " recorded")
		assert.NotContains(t, reasons[len(reasons)-2], " recorded")
		_, err := a.resume(first.Token, say("where", false))
		spent(t, err)
		end, err := a.cancel(first.Token)
		require.NoError(t, err)
		assert.Contains(t, end.Result.Content.Text(), "the prompt has ended")
	}
	assert.Equal(t, 3, runs)
}

// seeing remembers what is written to a store.
type seeing struct {
	store.Store
	records []store.Record
	items   []store.Item
}

func (s *seeing) Write(ctx context.Context, r *store.Record, c store.Change) error {
	kept := *r
	s.records, s.items = append(s.records, kept), append(s.items, c.Items...)
	return s.Store.Write(ctx, r, c)
}

// Who reads the store learns which tool a saga is of, and how far it is, and no more. Who changes it
// gains nothing.
func TestRecordsTellNothing(t *testing.T) {
	_, s := tripFleet(t)
	seen := &seeing{Store: s.store}
	a := s.replica(func(c *clientConfig) { c.Store = seen })
	secret := "unmistakable-4711"
	first := a.begin(t, fmt.Sprintf(`{"to":%q,"early":true}`, secret), func(q *turns.Request) { q.IdempotencyKey = secret })
	second, err := a.resume(first.Token, say("where", true))
	require.NoError(t, err)
	require.Len(t, seen.records, 3)
	bodies := make([]string, 0, len(seen.records))
	for _, r := range seen.records {
		bodies = append(bodies, string(r.ID[:]), string(r.Owner[:]), string(r.Account[:]), string(r.Request[:]), string(r.Summary), string(r.State))
	}
	for _, item := range seen.items {
		bodies = append(bodies, item.Kind, string(item.Body))
	}
	for _, body := range bodies {
		for _, word := range []string{secret, "trip", "ann", "here", "hold", "where", first.Token, second.Token} {
			assert.NotContains(t, body, word)
		}
	}

	// What is moved to another record does not open, nor does what a record had before.
	last, before := seen.records[len(seen.records)-1], seen.records[len(seen.records)-2]
	third := a.begin(t, `{"to":"Oslo","early":true}`)
	other := seen.records[len(seen.records)-1]
	replace := func(id store.ID, state []byte) {
		now, err := s.store.Load(t.Context(), id)
		require.NoError(t, err)
		now.State = state
		now.Fence++
		require.NoError(t, s.store.Write(t.Context(), now, store.Change{Items: []store.Item{{N: now.Head + 1, Kind: "turn", Body: state}}}))
	}
	replace(other.ID, last.State)
	_, err = a.resume(third.Token, say("where", true))
	require.ErrorIs(t, err, durable.ErrUnreadable)
	replace(last.ID, before.State)
	_, err = a.resume(second.Token, say("pay", true))
	require.ErrorIs(t, err, durable.ErrUnreadable)
}

// restored is a store from a backup, which keeps its identity.
type restored struct {
	store.Store
	id store.ID
}

func (s *restored) Identity(context.Context) (store.ID, error) { return s.id, nil }

// Who writes into the store can put back a record as it was: then a turn is taken again, and
// what has ended well is undone. This cannot be prevented, and the documents say so.
func TestRecordsThatArePutBack(t *testing.T) {
	w, s := tripFleet(t)
	seen := &seeing{Store: s.store}
	a := s.replica(func(c *clientConfig) { c.Store = seen })
	first := a.begin(t, `{"to":"Rome"}`)
	second, err := a.resume(first.Token, say("where", true))
	require.NoError(t, err)
	was := seen.records[len(seen.records)-1]
	now, err := s.store.Load(t.Context(), was.ID)
	require.NoError(t, err)
	_, err = a.resume(second.Token, say("pay", true))
	require.NoError(t, err)
	_, err = a.resume(second.Token, say("pay", false))
	spent(t, err)
	_, err = a.cancel(second.Token)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"hold", "charge"}, w.things(), "it has ended")

	id, err := s.store.Identity(t.Context())
	require.NoError(t, err)
	putBack := func() *replica {
		memory := store.NewMemory(nil)
		t.Cleanup(func() { _ = memory.Close() })
		old, log := was, make([]store.Item, now.Head)
		for i := range log {
			log[i] = store.Item{N: uint64(i) + 1, Kind: "turn"}
		}
		old.Head = 0
		require.NoError(t, memory.Write(t.Context(), &old, store.Change{Items: log}))
		return s.replica(func(c *clientConfig) { c.Store = &restored{memory, id} })
	}
	end, err := putBack().resume(second.Token, say("pay", false))
	require.NoError(t, err)
	assert.Contains(t, end.Result.Content.Text(), "not booked", "the same turn with another answer")
	end, err = putBack().cancel(second.Token)
	require.NoError(t, err)
	assert.Contains(t, end.Result.Content.Text(), "Undone: hold")
	assert.Equal(t, []string{"charge"}, w.things())
}
