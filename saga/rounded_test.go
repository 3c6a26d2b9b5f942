package saga_test

import (
	"context"
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

// What an author has in an any comes back in a later turn as a number of another type, but never as another number.
func TestNumbersAreNotRounded(t *testing.T) {
	const id = 1<<53 + 1
	type sure struct {
		Sure bool `json:"sure"`
	}
	type row struct {
		Of map[string]any `json:"of"`
	}
	ask := &steps.Form[sure]{ID: "sure", Message: "Sure?"}
	for name, test := range map[string]struct {
		value   any
		rounded bool
	}{
		"a large integer": {int64(id), true}, "in a list": {[]any{1, []any{uint64(math.MaxUint64)}}, true}, "a negative one": {int64(-id), true},
		"as it was sent": {json.Number("9007199254740993"), true}, "in raw JSON": {json.RawMessage(`{"id": 9007199254740993}`), true}, "in a struct": {struct{ ID int64 }{id}, true}, "a power of two": {uint64(1 << 60), true},
		"a small integer": {int64(1 << 53), false}, "a float": {1.5, false}, "a large float": {1e300, false}, "a text": {"9007199254740993", false},
		"nothing": {nil, false}, "a time": {time.Unix(0, 0), false}, "a sorted struct": {struct {
			B float32
			A *int
		}{B: 2}, false}, "raw JSON": {json.RawMessage(`{"b": 1.0, "a": 1e2}`), false},
	} {
		var did []any
		effect := &saga.Effect[row, row]{Name: "keep", Do: func(_ context.Context, _ saga.Key, in row) (row, error) {
			did = append(did, in.Of["it"])
			return in, nil
		}, Undo: func(context.Context, saga.Performed[row, row]) error { return nil }}
		result := &saga.Effect[string, any]{Name: "find", ReadOnly: true, Tries: 1, Do: func(context.Context, saga.Key, string) (any, error) { return test.value, nil }}
		tools := map[string]saga.Definition{
			"input": saga.Flow[struct{}, string]{Info: saga.Info{Name: "input", Asks: []steps.Question{ask}, Effects: []saga.Declared{effect}}, Run: func(r *saga.Run, _ struct{}) (string, error) {
				if _, err := saga.Do(r, effect, row{map[string]any{"it": test.value}}); err != nil {
					return "", err
				}
				_, err := saga.Ask(r, ask)
				return "done", err
			}},
			"result": saga.Flow[struct{}, string]{Info: saga.Info{Name: "result", Asks: []steps.Question{ask}, Effects: []saga.Declared{result}}, Run: func(r *saga.Run, _ struct{}) (string, error) {
				if _, err := saga.Do(r, result, ""); err != nil {
					return "", err
				}
				_, err := saga.Ask(r, ask)
				return "done", err
			}},
			"state": saga.Machine[struct{}, row]{Info: saga.Info{Name: "state", Asks: []steps.Question{ask}},
				Start: func(t *saga.Turn[struct{}, row]) (saga.Next, error) {
					t.State.Of = map[string]any{"it": test.value}
					return t.Ask("end", ask)
				},
				Steps: saga.Steps[struct{}, row]{"end": func(t *saga.Turn[struct{}, row]) (saga.Next, error) { return t.Textf("done") }},
			},
		}
		for where, tool := range tools {
			t.Run(name+", "+where, func(t *testing.T) {
				if test.rounded {
					assert.ErrorContains(t, sagatest.Play(t, tool, nil).Err, "would come back rounded")
					return
				}
				played := sagatest.Play(t, tool, nil, sagatest.Accept("sure", sure{true}))
				require.NoError(t, played.Err)
				assert.Equal(t, "done", played.Text())
			})
		}
		if test.rounded {
			assert.Empty(t, did, "%s: the effect does not act on another number", name)
		}
	}
}
