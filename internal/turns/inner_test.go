package turns

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// long is a tool whose second request goes on by itself: it performs "one", sleeps, performs
// "two", asks the server's model, performs "three", yields, performs last, if that is given, and
// asks once more, unless it is over.
func (w *world) long(sleep time.Duration, over bool, last *saga.Effect[string, string]) saga.Definition {
	where, more := &steps.Form[tripForm]{ID: "where", Message: "There?"}, &steps.Form[tripForm]{ID: "more", Message: "More?"}
	draft := &steps.Sample{ID: "draft", Request: steps.SampleRequest{MaxTokens: 10}}
	one, two, three := w.effect("one"), w.effect("two"), w.effect("three")
	info := saga.Info{Name: "trip", Asks: []steps.Question{where, more, draft}, Effects: []saga.Declared{one, two, three}, Yields: true}
	if last != nil {
		info.Effects = append(info.Effects, last)
	}
	return saga.Flow[tripArgs, string]{Info: info, Run: func(r *saga.Run, in tripArgs) (string, error) {
		if _, err := saga.Ask(r, where); err != nil {
			return "", err
		}
		if _, err := saga.Do(r, one, in.To); err != nil {
			return "", err
		}
		if err := r.Sleep(sleep); err != nil {
			return "", err
		}
		if _, err := saga.Do(r, two, in.To); err != nil {
			return "", err
		}
		text, err := saga.Ask(r, draft.With(steps.Promptf("write")))
		if err != nil {
			return "", err
		}
		if _, err := saga.Do(r, three, text.Content.Text()); err != nil {
			return "", err
		}
		if err := r.Yield(content.Textf("nearly")); err != nil {
			return "", err
		}
		if last != nil {
			if _, err := saga.Do(r, last, in.To); err != nil {
				return "", err
			}
		}
		if over {
			return "over", nil
		}
		_, err = saga.Ask(r, more)
		return "more", err
	}}
}

// What a request did that went on by itself, after a sleep, with what the server's model said or
// after a part of its result, is found by a cancel after its response was lost.
func TestCancelFindsInnerTurns(t *testing.T) {
	for name, c := range map[string]struct {
		sleep    time.Duration
		over     bool
		last     string // nothing, or how it can be undone
		resumed  bool   // the lost request came to its end
		wants    []string
		finished bool
	}{
		"that asked":                     {sleep: 30 * time.Second, resumed: true, wants: []string{"three", "two", "one"}},
		"that ended the saga":            {sleep: 30 * time.Second, resumed: true, over: true, wants: []string{"three", "two", "one"}},
		"that was cut off in its sleep":  {sleep: 30 * time.Second, over: true, wants: []string{"three", "two", "one"}},
		"that came to a last effect":     {sleep: 30 * time.Second, resumed: true, last: "undoable", finished: true},
		"that came to a final effect":    {sleep: 30 * time.Second, over: true, last: "final", wants: []string{"three", "two", "one"}},
		"before a last effect":           {sleep: 30 * time.Second, over: true, last: "undoable", wants: []string{"last", "three", "two", "one"}},
		"that does not fit into a turn":  {sleep: 50 * time.Second, resumed: true, wants: []string{"one"}},
		"that has not slept in the turn": {sleep: 0, resumed: true, wants: []string{"three", "two", "one"}},
	} {
		for _, policy := range []Policy{Carried, Resent} {
			t.Run(name+" "+policy.Purpose, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld()
					var last *saga.Effect[string, string]
					if c.last != "" {
						last = w.effect("last")
						last.Irreversible = true
						undo := last.Undo
						if last.Undo = nil; c.last == "undoable" {
							last.Undo = func(ctx context.Context, p saga.Performed[string, string]) error {
								if slices.Contains(w.things(), "last") {
									return saga.Final(fmt.Errorf("it is paid"))
								}
								return undo(ctx, p)
							}
						}
					}
					words := 0
					r := newRunner(t, w.long(c.sleep, c.over, last))
					r.Model = func(context.Context, *steps.SampleRequest) (*steps.SampleResult, error) {
						words++ // something else each time
						return &steps.SampleResult{Role: content.Assistant, Model: "m", Content: content.Blocks{content.Text{Text: fmt.Sprint(words)}}}, nil
					}
					q := Request{Policy: policy, Principal: "ann", Client: steps.Features{Forms: true}, Program: r.Registry.Find(engine.KindTool, "trip"), Arguments: []byte(`{"to":"Rome"}`)}
					first, err := r.Call(t.Context(), q)
					require.NoError(t, err)
					q.Token, q.Answers = first.Token, []steps.Answer{say("where", true)}
					ctx, cut := context.WithCancel(t.Context())
					if !c.resumed {
						time.AfterFunc(time.Second, cut)
					}
					_, err = r.Resume(ctx, q)
					cut()
					assert.Equal(t, c.resumed, err == nil, err)
					before := len(w.things())
					if q.Declared = q.Client; policy.Resent {
						q.Client = steps.AllFeatures()
					}
					began := time.Now()
					end, err := r.Cancel(t.Context(), q)
					require.NoError(t, err)
					assert.Zero(t, time.Since(began), "nothing is waited for")
					if c.finished {
						assert.Contains(t, end.Result.Content.Text(), "Not cancelled: it is too late.")
						assert.Len(t, w.things(), before)
						return
					}
					assert.Equal(t, c.wants, UndoReport(end.Result).Undone)
					assert.Empty(t, w.things())
					assert.NotContains(t, w.calls, "last", "a cancel does what cannot be undone")
				})
			})
		}
	}
}
