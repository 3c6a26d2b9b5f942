package saga_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

var arrived = &steps.Event[receipt]{ID: "arrived", Message: "Waiting.", Within: time.Hour}

// waiting are tools that tell their handle, and wait for an event: a flow and a machine.
func waiting(told *[]string) map[string]saga.Definition {
	info := saga.Info{Name: "waits", Asks: []steps.Question{arrived}}
	say := func(got receipt) string { return fmt.Sprintf("%d cents", got.Cents) }
	type turn = saga.Turn[struct{}, struct{}]
	return map[string]saga.Definition{
		"flow": saga.Flow[struct{}, string]{Info: info, Run: func(r *saga.Run, _ struct{}) (string, error) {
			handle, err := saga.Handle(r, arrived)
			if err != nil {
				return "", err
			}
			*told = append(*told, handle)
			got, err := saga.Ask(r, arrived)
			return say(got), err
		}},
		"machine": saga.Machine[struct{}, struct{}]{Info: info, Start: func(t *turn) (saga.Next, error) {
			handle, err := saga.Handle(t, arrived)
			if err != nil {
				return nil, err
			}
			*told = append(*told, handle)
			return t.Ask("end", arrived)
		}, Steps: saga.Steps[struct{}, struct{}]{"end": func(t *turn) (saga.Next, error) {
			handle, err := saga.Handle(t, arrived)
			if err != nil {
				return nil, err
			}
			*told = append(*told, handle)
			got, err := arrived.Answer(t)
			if err != nil {
				return nil, err
			}
			return t.Textf("%s", say(got))
		}}},
	}
}

// A saga that waits for an event asks its client nothing, and takes the answer from nobody but its driver. Where it stands can be
// kept, and leads to the same handle.
func TestEventsAreNothingToClients(t *testing.T) {
	now, mark := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), []byte("mark")
	var told []string
	for name, d := range waiting(&told) {
		t.Run(name, func(t *testing.T) {
			told = nil
			p, err := d.Compile()
			require.NoError(t, err)
			require.True(t, p.Waits())
			start := func(saga byte) *engine.Outcome {
				out, err := p.Start(t.Context(), engine.Call{ID: [16]byte{saga}, Now: now, Mark: mark})
				require.NoError(t, err)
				return out
			}
			out, other := start(1), start(1)
			assert.NotEqual(t, told[0], told[1], "whoever knows the saga's id does not know the handle")
			assert.NotEqual(t, out.Position.Encode().Secrets, other.Position.Encode().Secrets)
			assert.Empty(t, out.Steps)
			assert.Empty(t, out.Position.PendingIDs())

			kept := &engine.Position{ID: [16]byte{1}, Turn: out.Position.Turn, Tool: "waits"}
			require.NoError(t, kept.Restore(out.Position.Encode()))
			awaited := p.Awaited(kept)
			require.Len(t, awaited, 1)
			assert.Equal(t, told[0], awaited[0].Place.Handle(mark))
			assert.Equal(t, "Waiting.", awaited[0].Message)
			assert.Equal(t, now.Add(time.Hour), awaited[0].Until)
			assert.Equal(t, awaited[0].Until, kept.Rests())

			five := []steps.Answer{{StepID: "arrived", Result: json.RawMessage(`{"action":"accept","content":{"cents":5}}`)}}
			ignored, err := p.Resume(t.Context(), kept, engine.Call{Now: now, Mark: mark, Answers: five})
			require.NoError(t, err)
			require.NotNil(t, ignored.Position)
			assert.True(t, ignored.Position.Awaits(), "a client cannot answer")
			assert.Equal(t, awaited[0].Until, ignored.Position.Rests(), "nor has it wait for longer")
			end, err := p.Resume(t.Context(), kept, engine.Call{Now: now, Mark: mark, Events: five})
			require.NoError(t, err)
			require.NotNil(t, end.Result)
			assert.Equal(t, "5 cents", end.Result.Content.Text())
			assert.Equal(t, told[0], told[len(told)-1], "the handle is the same in each run")
		})
	}
}

func TestHandlesThatCannotBe(t *testing.T) {
	keyed, other := arrived.With(steps.Key("17")), &steps.Event[receipt]{ID: "other", Message: "x", Within: 1}
	for says, e := range map[string]*steps.Event[receipt]{"has a Key": keyed, "is not declared": other, "no ID": {Message: "x", Within: 1}} {
		d := saga.Flow[struct{}, string]{Info: saga.Info{Name: "waits", Asks: []steps.Question{arrived}}, Run: func(r *saga.Run, _ struct{}) (string, error) {
			_, err := saga.Handle(r, e)
			return "", err
		}}
		p, err := d.Compile()
		require.NoError(t, err)
		out, err := p.Start(t.Context(), engine.Call{})
		require.NoError(t, err)
		assert.ErrorContains(t, out.Err, says)
	}
}

func TestTasksDoNotBeginAfterEvents(t *testing.T) {
	_, err := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "waits", Asks: []steps.Question{arrived}, Tasks: saga.Tasks{Mode: saga.TasksOptional, After: "arrived"}},
		Run:  func(*saga.Run, struct{}) (string, error) { return "", nil },
	}.Compile()
	assert.ErrorContains(t, err, "which is an event")
}

// A page is of a form that is declared, and for others.
func TestPagesOfWhatIsAsked(t *testing.T) {
	for says, ask := range map[string]*steps.Form[struct{}]{
		`question "other" is not declared`:                       {ID: "other", Message: "?", By: steps.By{"a"}, Within: time.Hour},
		`question "plain" is not declared, or is not for others`: {ID: "plain", Message: "?"},
	} {
		declared := []steps.Question{&steps.Form[struct{}]{ID: "plain", Message: "?"}, &steps.Form[struct{}]{ID: "for-others", Message: "?", By: steps.By{"a"}, Within: time.Hour}}
		tool := saga.Flow[struct{}, string]{
			Info: saga.Info{Name: "tool", Asks: declared},
			Run: func(r *saga.Run, _ struct{}) (string, error) {
				_, err := saga.Page(r, ask)
				assert.ErrorContains(t, err, says)
				return "", err
			},
		}
		sagatest.Play(t, tool, nil)
	}
}
