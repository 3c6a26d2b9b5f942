package saga_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type placeV0 struct {
	Place string `json:"place"`
}

type placeV1 struct {
	City string `json:"city"`
}

func startAt[State any](state State, next string) func(*saga.Turn[empty, State]) (saga.Next, error) {
	return func(t *saga.Turn[empty, State]) (saga.Next, error) {
		t.State = state
		return t.Ask(next, askConfirm)
	}
}

// Prompts and resources go on from older revisions as machines do, and refuse those
// that nothing reads.
func TestPromptsAndResourcesHaveUpgrades(t *testing.T) {
	asks := []steps.Question{askConfirm}
	upgrades := map[uint32]saga.Upgrade[placeV1]{
		0: saga.From(func(old placeV0) (placeV1, error) { return placeV1{City: old.Place}, nil }),
	}
	renamed := map[string]string{"old": "new"}
	say := func(t *saga.Turn[empty, placeV1]) (saga.Next, error) {
		return t.Messages(content.Message{Role: content.User, Content: content.Text{Text: t.State.City}})
	}
	show := func(t *saga.Turn[empty, placeV1]) (saga.Next, error) {
		return t.Contents(content.ResourceContents{URI: "test://r", Text: t.State.City})
	}
	never := func(*saga.Turn[empty, placeV0]) (saga.Next, error) { return nil, assert.AnError }
	kinds := map[engine.Kind]struct {
		before, after, bare saga.Definition
		text                func(*engine.Outcome) string
	}{
		engine.KindPrompt: {
			before: saga.Prompt[empty, placeV0]{Machine: saga.Machine[empty, placeV0]{Info: saga.Info{Name: "x", Asks: asks}, Start: startAt(placeV0{"Oslo"}, "old"), Steps: saga.Steps[empty, placeV0]{"old": never}}},
			after: saga.Prompt[empty, placeV1]{
				Machine: saga.Machine[empty, placeV1]{
					Info:     saga.Info{Name: "x", Revision: 1, Renamed: renamed, Asks: asks},
					Upgrades: upgrades,
					Start:    startAt(placeV1{}, "new"),
					Steps:    saga.Steps[empty, placeV1]{"new": say},
				},
			},
			bare: saga.Prompt[empty, placeV1]{Machine: saga.Machine[empty, placeV1]{Info: saga.Info{Name: "x", Revision: 1, Asks: asks}, Start: startAt(placeV1{}, "new"), Steps: saga.Steps[empty, placeV1]{"new": say}}},
			text: func(o *engine.Outcome) string { return o.Messages.Messages[0].Content.(content.Text).Text },
		},
		engine.KindResource: {
			before: saga.Resource[empty, placeV0]{Machine: saga.Machine[empty, placeV0]{Info: saga.Info{Name: "x", Asks: asks}, Start: startAt(placeV0{"Oslo"}, "old"), Steps: saga.Steps[empty, placeV0]{"old": never}}, URI: "test://r"},
			after: saga.Resource[empty, placeV1]{
				Machine: saga.Machine[empty, placeV1]{
					Info:     saga.Info{Name: "x", Revision: 1, Renamed: renamed, Asks: asks},
					Upgrades: upgrades,
					Start:    startAt(placeV1{}, "new"),
					Steps:    saga.Steps[empty, placeV1]{"new": show},
				},
				URI: "test://r",
			},
			bare: saga.Resource[empty, placeV1]{Machine: saga.Machine[empty, placeV1]{Info: saga.Info{Name: "x", Revision: 1, Asks: asks}, Start: startAt(placeV1{}, "new"), Steps: saga.Steps[empty, placeV1]{"new": show}}, URI: "test://r"},
			text: func(o *engine.Outcome) string { return o.Contents[0].Text },
		},
	}
	for kind, k := range kinds {
		t.Run(kind.String(), func(t *testing.T) {
			old, err := k.before.Compile()
			require.NoError(t, err)
			out, err := old.Start(t.Context(), engine.Call{Now: testNow, Client: steps.AllFeatures()})
			require.NoError(t, err)
			tools, err := engine.NewRegistry(k.after)
			require.NoError(t, err)
			reader, _ := tools.Reader(old.Target, 0)
			require.NotNil(t, reader)
			r := engine.Call{Now: testNow, Client: steps.AllFeatures(), Answers: []steps.Answer{accept("confirm", yes)}}
			end, err := reader.Resume(t.Context(), out.Position, r)
			require.NoError(t, err)
			assert.Equal(t, "Oslo", k.text(end))

			tools, err = engine.NewRegistry(k.bare)
			require.NoError(t, err)
			reader, _ = tools.Reader(old.Target, 0)
			assert.Nil(t, reader)
		})
	}
	_, err := saga.Prompt[empty, placeV1]{
		Machine: saga.Machine[empty, placeV1]{
			Info:     saga.Info{Name: "x", Asks: asks},
			Upgrades: upgrades,
			Start:    startAt(placeV1{}, "new"),
			Steps:    saga.Steps[empty, placeV1]{"new": say},
		},
	}.Compile()
	assert.ErrorContains(t, err, "which is not older than 0")
}
