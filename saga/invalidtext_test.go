package saga_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A text that is not UTF-8, such as the name of a file, comes back in a later turn as it was, or the turn fails.
func TestTextsThatAreNotUTF8(t *testing.T) {
	const name = "a\xff.txt"
	type sure struct {
		Sure bool `json:"sure"`
	}
	type file struct {
		Name string
		Raw  []byte
	}
	ask := &steps.Form[sure]{ID: "sure", Message: "Sure?"}
	for what, in := range map[string]file{"a text": {Name: name}, "bytes": {Raw: []byte(name)}} {
		var removed []string
		remove := &saga.Effect[file, file]{Name: "remove", Do: func(_ context.Context, _ saga.Key, in file) (file, error) {
			removed = append(removed, in.Name+string(in.Raw))
			return in, nil
		}, Undo: func(context.Context, saga.Performed[file, file]) error { return nil }}
		for tool, definition := range map[string]saga.Definition{
			"input": saga.Flow[struct{}, string]{Info: saga.Info{Name: "input", Asks: []steps.Question{ask}, Effects: []saga.Declared{remove}}, Run: func(r *saga.Run, _ struct{}) (string, error) {
				if _, err := saga.Do(r, remove, in); err != nil {
					return "", err
				}
				_, err := saga.Ask(r, ask)
				return "done", err
			}},
			"state": saga.Machine[struct{}, file]{Info: saga.Info{Name: "state", Asks: []steps.Question{ask}},
				Start: func(t *saga.Turn[struct{}, file]) (saga.Next, error) {
					t.State = in
					return t.Ask("end", ask)
				},
				Steps: saga.Steps[struct{}, file]{"end": func(t *saga.Turn[struct{}, file]) (saga.Next, error) {
					removed = append(removed, t.State.Name+string(t.State.Raw))
					return t.Textf("done")
				}}},
		} {
			removed = nil
			if what == "bytes" {
				require.NoError(t, sagatest.Play(t, definition, nil, sagatest.Accept("sure", sure{true})).Err, tool)
				assert.Equal(t, []string{name}, removed, tool)
				continue
			}
			assert.ErrorContains(t, sagatest.Play(t, definition, nil).Err, "is not UTF-8", tool)
			assert.Empty(t, removed, tool)
		}
	}
}

// The result of an effect does not fail for such a text, as it has acted: all code reads the same.
func TestResultsThatAreNotUTF8(t *testing.T) {
	var seen []string
	pay := &saga.Effect[string, string]{Name: "pay", Irreversible: true, Do: func(context.Context, saga.Key, string) (string, error) { return "re\xffceipt", nil }}
	ask := &steps.Form[struct{}]{ID: "sure", Message: "Sure?"}
	tool := saga.Flow[struct{}, string]{Info: saga.Info{Name: "pay", Asks: []steps.Question{ask}, Effects: []saga.Declared{pay}}, Run: func(r *saga.Run, _ struct{}) (string, error) {
		receipt, err := saga.Do(r, pay, "1")
		if err != nil {
			return "", err
		}
		seen = append(seen, receipt)
		_, err = saga.Ask(r, ask)
		return receipt, err
	}}
	require.NoError(t, sagatest.Play(t, tool, nil, sagatest.Accept("sure", struct{}{})).Err)
	assert.Equal(t, []string{"re\ufffdceipt", "re\ufffdceipt"}, seen)
}
