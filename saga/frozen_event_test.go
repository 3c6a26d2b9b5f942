package saga_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// frozen starts a saga of a tool, and returns the position that some release has kept in the named file, with what was
// noted beside it. With -update it keeps that of the saga, if there is none.
func frozen(t *testing.T, d saga.Definition, file string, note func() string) (tool *engine.Program, pos *engine.Position, noted string) {
	t.Helper()
	tool, err := d.Compile()
	require.NoError(t, err)
	out, err := tool.Start(t.Context(), engine.Call{ID: testID, Now: testNow, Client: steps.AllFeatures(), Mark: []byte("mark"), Arguments: []byte(`{}`)})
	require.NoError(t, err)
	require.NotNil(t, out.Position)
	path := filepath.Join("testdata", "positions", file)
	if _, err := os.Stat(path); *update && err != nil {
		e := out.Position.Encode()
		b, err := json.MarshalIndent(frozenPosition{1, e.Body, e.State, e.Effects, e.Secrets, note()}, "", "  ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, append(b, '\n'), 0o644))
	}
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	var f frozenPosition
	require.NoError(t, json.Unmarshal(b, &f))
	pos = &engine.Position{ID: testID, Turn: f.Turn, Tool: out.Position.Tool}
	require.NoError(t, pos.Restore(engine.Encoded{Body: f.Body, State: f.State, Effects: f.Effects, Secrets: f.Secrets}))
	return tool, pos, f.Code
}

// Positions that wait for an event lead to the handle that was given away, for as long as was said.
func TestFrozenEvents(t *testing.T) {
	var told []string
	for kind, d := range waiting(&told) {
		t.Run(kind, func(t *testing.T) {
			told = nil
			tool, pos, handle := frozen(t, d, "event-"+kind+"-1.json", func() string { return told[0] })
			for range 2 { // as it was kept, and as it is kept now
				awaited := tool.Awaited(pos)
				require.Len(t, awaited, 1)
				assert.Equal(t, handle, awaited[0].Place.Handle([]byte("mark")))
				assert.Equal(t, testNow.Add(time.Hour), awaited[0].Until)
				assert.Equal(t, "Waiting.", awaited[0].Message)
				five := []steps.Answer{{StepID: "arrived", Result: json.RawMessage(`{"action":"accept","content":{"cents":5}}`)}}
				end, err := tool.Resume(t.Context(), pos, engine.Call{Now: testNow, Mark: []byte("mark"), Events: five})
				require.NoError(t, err)
				assert.Equal(t, "5 cents", text(t, end))
				assert.Equal(t, handle, told[len(told)-1])
				again := &engine.Position{ID: testID, Turn: pos.Turn, Tool: pos.Tool}
				require.NoError(t, again.Restore(pos.Encode()))
				pos = again
			}
		})
	}
}

// A flow that runs again finds why its effects failed as it found it before: the errors by which it decides, and what its
// caller may read.
func TestFrozenFailures(t *testing.T) {
	errFull, errClosed := errors.New("the hotel is full"), errors.New("the hotel is closed")
	fails := func(name string, err error) *saga.Effect[string, string] {
		return &saga.Effect[string, string]{Name: name, Tries: 1, Fails: []error{errFull, errClosed}, Do: func(context.Context, saga.Key, string) (string, error) { return "", err }}
	}
	refused := fails("refused", saga.Refused(fmt.Errorf("Ritz: %w", errFull)))
	unknown := fails("unknown", errors.Join(saga.Failf("Nobody answers."), errClosed))
	other := fails("other", saga.Refused(errors.New("no such hotel")))
	flow := saga.Flow[empty, string]{
		Info: saga.Info{Name: "frozen", Asks: []steps.Question{askConfirm}, Effects: []saga.Declared{refused, unknown, other}},
		Run: func(r *saga.Run, _ empty) (said string, err error) {
			for _, e := range []*saga.Effect[string, string]{refused, unknown, other} {
				_, err := saga.Do(r, e, "Ritz")
				shown, _ := errors.AsType[*engine.ToolError](err)
				said += fmt.Sprintf("%v (%t, %t, %v); ", err, errors.Is(err, errFull), errors.Is(err, errClosed), shown)
			}
			_, err = saga.Ask(r, askConfirm)
			return said, err
		},
	}
	const want = `effect "refused": Ritz: the hotel is full (true, false, <nil>); ` +
		`effect "unknown" has an unknown outcome: Nobody answers.` + "\nthe hotel is closed (false, true, Nobody answers.); " +
		`effect "other": no such hotel (false, false, <nil>); `
	tool, pos, _ := frozen(t, flow, "failures-1.json", func() string { return "" })
	for range 2 {
		out, err := tool.Resume(t.Context(), pos, engine.Call{Now: testNow, Client: steps.AllFeatures(), Answers: []steps.Answer{accept("confirm", yes)}})
		require.NoError(t, err)
		assert.Equal(t, want, text(t, out))
		again := &engine.Position{ID: testID, Turn: pos.Turn, Tool: pos.Tool}
		require.NoError(t, again.Restore(pos.Encode()))
		pos = again
	}
}
