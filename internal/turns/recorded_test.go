package turns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// What every dialect writes is the same from the record as it was at first.
func TestResponsesAreRecordedExactly(t *testing.T) {
	half := 0.5
	result, at := &content.Result{}, time.Unix(1e9, 1).UTC()
	for _, end := range []End{
		{Outcome: engine.Outcome{Result: result}, Wake: at},
		{Outcome: engine.Outcome{Result: result}, Expires: at},
		{Outcome: engine.Outcome{Result: result, Reworded: []string{"a"}}},
		{Outcome: engine.Outcome{Result: result, Yielded: content.Blocks{content.Text{Text: "a"}}}},
		{Outcome: engine.Outcome{Result: result, Messages: &engine.Messages{}}},
		{Outcome: engine.Outcome{Result: result, Contents: []content.ResourceContents{}}},
		{Outcome: engine.Outcome{Result: result, Steps: []steps.Step{{ID: "s", Params: json.RawMessage(`{}`)}}}},
		{Outcome: engine.Outcome{Result: &content.Result{}}},
		{Outcome: engine.Outcome{Result: &content.Result{IsError: true, Content: content.Blocks{
			content.Text{Text: "a\xffb <&> \u2028", Annotations: &content.Annotations{Priority: &half}, Meta: json.RawMessage(`{ "a" : 1.50 }`)},
			content.Image{Data: []byte{1, 2}, MIMEType: "image/png"}, content.Audio{Data: []byte{}, MIMEType: "audio/wav"},
			content.EmbeddedResource{URI: "x:y", Blob: []byte{}}, content.EmbeddedResource{URI: "x:y", Text: ""}, content.ResourceLink{URI: "x:y", Name: "n"},
			content.Unknown{Raw: json.RawMessage(`{"type":"later", "n": 12345678901234567890}`)},
		}}}},
		{Outcome: engine.Outcome{Disclosed: true, Result: &content.Result{StructuredContent: json.RawMessage(` {"b": 1e2, "a": [ 9007199254740993 ]}`), Meta: map[string]any{
			"z": 1, "a": "x", "m": map[string]any{"k": 1.5}, engine.UndoMetaKey: &engine.UndoReport{Undone: []string{"a"}, Outstanding: []string{}, SagaToken: "t"},
		}}}},
		{Outcome: engine.Outcome{Result: &content.Result{StructuredContent: json.RawMessage(`null`), Meta: map[string]any{}}}, Gone: tokens.ReasonExpired},
		{Outcome: engine.Outcome{Messages: &engine.Messages{Description: "d", Messages: []content.Message{{Role: content.User, Content: content.Text{Text: "hi"}}}}}},
		{Outcome: engine.Outcome{Messages: &engine.Messages{}}},
		{Outcome: engine.Outcome{Contents: []content.ResourceContents{{URI: "a:b", Text: "t"}, {URI: "a:b", MIMEType: "m", Blob: []byte{}}, {Text: "\xff"}}}},
		{Outcome: engine.Outcome{Contents: []content.ResourceContents{}}},
		{Outcome: engine.Outcome{Reworded: []string{"a"}, Steps: []steps.Step{{ID: "s~2", Kind: steps.Sampling, Params: json.RawMessage(`{"a":1.0}`), Needs: steps.Features{Sampling: true}}}}},
	} {
		raw, err := encodeResponse(&end, nil)
		require.NoError(t, err)
		again, failure, err := decodeResponse(raw)
		require.NoError(t, err)
		require.NoError(t, failure)
		second, err := encodeResponse(&again, nil)
		require.NoError(t, err)
		assert.Equal(t, string(raw), string(second))
		var general response // what has nothing but a result is written and read in a shorter way
		require.NoError(t, jsonv2.Unmarshal(raw, &general))
		third, err := jsonv2.Marshal(general, jsontext.AllowInvalidUTF8(true))
		require.NoError(t, err)
		assert.Equal(t, string(raw), string(third))
		assert.True(t, again.recorded)
		assert.Equal(t, end.Gone, again.Gone)
		assert.Equal(t, end.Disclosed, again.Disclosed)
		assert.Equal(t, end.Reworded, again.Reworded)
		assert.Equal(t, end.Yielded, again.Yielded)
		assert.True(t, end.Wake.Equal(again.Wake) && end.Expires.Equal(again.Expires))
		assert.Equal(t, end.Steps, again.Steps)
		assert.Equal(t, UndoReport(end.Result), UndoReport(again.Result))
		assert.Equal(t, end.Messages == nil, again.Messages == nil)
		assert.Equal(t, end.Contents == nil, again.Contents == nil)
		for i, c := range again.Contents {
			assert.Equal(t, end.Contents[i].Blob == nil, c.Blob == nil)
		}
	}
}

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
	s := newShared(t, prompt)
	var reasons []string
	a := s.replica(func(c *Config) {
		c.Hook = func(ctx context.Context, turn *Turn, next func(context.Context) error) error {
			err := next(ctx)
			reasons = append(reasons, turn.Outcome+" "+turn.Reason)
			return err
		}
	})
	for how := range fail {
		first := a.begin(t, fmt.Sprintf(`{"how":%q}`, how), func(q *Request) { q.Program = a.Registry.Find(engine.KindPrompt, "p") })
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

// Who reads the store learns nothing, and who changes it gains nothing.
func TestRecordsTellNothing(t *testing.T) {
	_, s := sharedTrip(t)
	a := s.replica()
	seen := &seeing{Store: s.store}
	a.line.Store = seen
	secret := "unmistakable-4711"
	first := a.begin(t, fmt.Sprintf(`{"to":%q,"early":true}`, secret), func(q *Request) { q.IdempotencyKey = secret })
	second, err := a.resume(first.Token, say("where", true))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(seen.all), 4)
	for _, r := range seen.all {
		for _, text := range []string{r.Key, r.Queue, r.Owner, string(r.Body)} {
			for _, word := range []string{secret, "trip", "ann", "here", "hold", "where", first.Token, second.Token} {
				assert.NotContains(t, text, word)
			}
		}
		assert.LessOrEqual(t, len(r.Key), ledger.MaxName)
	}
	// A body that is moved to another record does not open.
	a.line.Store = s.store
	last := seen.all[len(seen.all)-1]
	third, err := a.call(`{"to":"Oslo","early":true}`)
	require.NoError(t, err)
	x, err := a.Codec.Open(tokens.Binding{Purpose: "saga", Principal: "ann"}, time.Now(), third.Token)
	require.NoError(t, err)
	e, err := a.records.Saga(t.Context(), "ann", x.Claims.ID)
	require.NoError(t, err)
	moved := last
	moved.Key = e.Key()
	r, err := s.store.Load(t.Context(), moved.Key)
	require.NoError(t, err)
	moved.Rev = r.Rev
	require.NoError(t, s.store.Swap(t.Context(), &moved))
	_, err = a.resume(third.Token, say("where", true))
	require.ErrorIs(t, err, ErrLedger)
}

// seeing remembers what is written to a store.
type seeing struct {
	ledger.Store
	all []ledger.Record
}

func (s *seeing) Swap(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
	kept := *r
	kept.Body = slices.Clone(r.Body)
	s.all = append(s.all, kept)
	return s.Store.Swap(ctx, r, items...)
}

// Who writes into the store can put back a record as it was: then a turn is taken again, and
// what has ended well is undone. This cannot be prevented, and the documents say so.
func TestRecordsThatArePutBack(t *testing.T) {
	w, s := sharedTrip(t)
	a := s.replica()
	seen := &seeing{Store: s.store}
	a.line.Store = seen
	first := a.begin(t, `{"to":"Rome"}`)
	second, err := a.resume(first.Token, say("where", true))
	require.NoError(t, err)
	was := seen.all[len(seen.all)-1]
	_, err = a.resume(second.Token, say("pay", true))
	require.NoError(t, err)
	_, err = a.resume(second.Token, say("pay", false))
	spent(t, err)
	_, err = a.cancel(second.Token)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"hold", "charge"}, w.things(), "it has ended")

	putBack := func() *replica {
		now, err := s.store.Load(t.Context(), was.Key)
		require.NoError(t, err)
		old := was
		old.Rev = now.Rev
		require.NoError(t, s.store.Swap(t.Context(), &old))
		return s.replica()
	}
	end, err := putBack().resume(second.Token, say("pay", false))
	require.NoError(t, err)
	assert.Contains(t, end.Result.Content.Text(), "not booked", "the same turn with another answer")
	end, err = putBack().cancel(second.Token)
	require.NoError(t, err)
	assert.Contains(t, end.Result.Content.Text(), "Undone: hold")
	assert.Equal(t, []string{"charge"}, w.things())
}
