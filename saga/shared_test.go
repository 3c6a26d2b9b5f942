package saga_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Prompts and resources embed a machine, which has more than they can have.
func TestWhatOnlyToolsHave(t *testing.T) {
	machine := func() saga.Machine[empty, int] {
		return saga.Machine[empty, int]{
			Info:  saga.Info{Name: "x"},
			Start: func(t *saga.Turn[empty, int]) (saga.Next, error) { return t.Textf("done") },
		}
	}
	for field, give := range map[string]func(*saga.Machine[empty, int]){
		"Effects":        func(m *saga.Machine[empty, int]) { m.Effects = []saga.Declared{newWorld().effect("e")} },
		"Annotations":    func(m *saga.Machine[empty, int]) { m.Annotations = &saga.ToolAnnotations{ReadOnlyHint: true} },
		"OutputSchema":   func(m *saga.Machine[empty, int]) { m.OutputSchema = &jsonschema.Schema{Type: "object"} },
		"InputSchema":    func(m *saga.Machine[empty, int]) { m.InputSchema = &jsonschema.Schema{Type: "object"} },
		"RawInputSchema": func(m *saga.Machine[empty, int]) { m.RawInputSchema = json.RawMessage(`{"type":"object"}`) },
	} {
		m := machine()
		give(&m)
		_, err := m.Compile()
		assert.NoError(t, err, "a tool can have %s", field)
		for what, d := range map[string]saga.Definition{
			"a prompt":   saga.Prompt[empty, int]{Machine: m},
			"a resource": saga.Resource[empty, int]{Machine: m, URI: "x://y"},
		} {
			_, err := d.Compile()
			var definition *saga.DefinitionError
			require.ErrorAs(t, err, &definition, field)
			assert.Equal(t, what+" cannot have "+field+"; what needs them is a tool", definition.Problem)
		}
	}
}

type contextKey struct{}

// A Turn and a Run are the context that the turn was given, and effects get it too.
func TestTurnsAreContexts(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	ctx, cancel := context.WithDeadline(context.WithValue(t.Context(), contextKey{}, "value"), now)
	defer cancel()
	var seen []context.Context
	see := &saga.Effect[string, string]{Name: "see", Do: func(ctx context.Context, _ saga.Key, _ string) (string, error) {
		seen = append(seen, ctx)
		return "", nil
	}}
	info := saga.Info{Name: "x", Effects: []saga.Declared{see}}
	for _, d := range []saga.Definition{
		saga.Flow[empty, string]{Info: info, Run: func(r *saga.Run, _ empty) (string, error) {
			seen = append(seen, r)
			return saga.Do(r, see, "")
		}},
		saga.Machine[empty, empty]{Info: info, Start: func(t *saga.Turn[empty, empty]) (saga.Next, error) {
			seen = append(seen, t)
			if _, err := saga.Do(t, see, ""); err != nil {
				return nil, err
			}
			return t.Textf("done")
		}},
	} {
		seen = nil
		tool, err := d.Compile()
		require.NoError(t, err)
		_, err = tool.Start(ctx, engine.Call{Client: steps.AllFeatures()})
		require.NoError(t, err)
		require.Len(t, seen, 2)
		for _, c := range seen {
			assert.Equal(t, "value", c.Value(contextKey{}))
		}
		deadline, ok := seen[0].Deadline()
		assert.True(t, ok)
		assert.Equal(t, now, deadline)
		assert.NoError(t, seen[0].Err())
		bounded, ok := seen[1].Deadline()
		assert.True(t, ok && bounded.Before(now), "an effect's Timeout bounds it as well")
	}
}
