package saga_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

var update = flag.Bool("update", false, "write frozen positions that are missing; they are never overwritten")

// frozenPosition is a position as some release of this package encoded it. Every later
// one must go on from it. In the first format the body held everything but the secrets.
type frozenPosition struct {
	Turn    uint32
	Body    []byte
	State   []byte `json:",omitempty"`
	Effects []byte `json:",omitempty"`
	Secrets []byte `json:",omitempty"`
	// Code is what was secret in the effect's result, if anything was.
	Code string `json:",omitempty"`
}

type frozenState struct {
	City string `json:"city"`
	PIN  saga.Secret
}

type frozenHold struct {
	ID   string `json:"id"`
	Code saga.Secret
}

// frozenTools are a machine and a flow that hold something and ask whether to keep it.
func frozenTools(undone *[]string) map[string]saga.Definition {
	room := &saga.Effect[string, frozenHold]{
		Name: "room",
		Do: func(_ context.Context, _ saga.Key, in string) (frozenHold, error) {
			return frozenHold{"hold of " + in, saga.NewSecret("code 7")}, nil
		},
		Undo: func(_ context.Context, p saga.Performed[string, frozenHold]) error {
			*undone = append(*undone, fmt.Sprint(p.In, ", ", p.Out.ID, ", ", p.Out.Code.Reveal(), ", ", p.Known))
			return nil
		},
	}
	type turn = saga.Turn[tripArgs, frozenState]
	asks, effects := []steps.Question{askConfirm}, []saga.Declared{room}
	return map[string]saga.Definition{
		"machine": saga.Machine[tripArgs, frozenState]{
			Info: saga.Info{Name: "frozen", Asks: asks, Effects: effects},
			Start: func(t *turn) (saga.Next, error) {
				hold, err := saga.Do(t, room, "Rome")
				if err != nil {
					return nil, err
				}
				t.State = frozenState{hold.ID, saga.NewSecret("1234")}
				return t.Ask("end", askConfirm)
			},
			Steps: saga.Steps[tripArgs, frozenState]{"end": func(t *turn) (saga.Next, error) {
				return t.Textf("%s: %s, %s", t.Args.From, t.State.City, t.State.PIN.Reveal())
			}},
		},
		"flow": saga.Flow[tripArgs, string]{
			Info: saga.Info{Name: "frozen", Asks: asks, Effects: effects},
			Run: func(r *saga.Run, in tripArgs) (string, error) {
				hold, err := saga.Do(r, room, "Rome")
				if err != nil {
					return "", err
				}
				if _, err := saga.Ask(r, askConfirm); err != nil {
					return "", err
				}
				return fmt.Sprintf("%s: %s, %s", in.From, hold.ID, hold.Code.Reveal()), nil
			},
		},
	}
}

func TestFrozenPositions(t *testing.T) {
	var undone []string
	for kind, d := range frozenTools(&undone) {
		tool, err := d.Compile()
		require.NoError(t, err)
		out, err := tool.Start(t.Context(), engine.Call{ID: testID, Now: testNow, Client: steps.AllFeatures(), Arguments: []byte(`{"from":"Oslo"}`)})
		require.NoError(t, err)
		path := filepath.Join("testdata", "positions", kind+"-2.json")
		if _, err := os.Stat(path); *update && err != nil {
			e := out.Position.Encode()
			b, err := json.MarshalIndent(frozenPosition{1, e.Body, e.State, e.Effects, e.Secrets, "code 7"}, "", "  ")
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, append(b, '\n'), 0o644))
		}
		paths, err := filepath.Glob(filepath.Join("testdata", "positions", kind+"-*.json"))
		require.NoError(t, err)
		require.Len(t, paths, 2)
		for _, path := range paths {
			t.Run(filepath.Base(path), func(t *testing.T) {
				b, err := os.ReadFile(path)
				require.NoError(t, err)
				var f frozenPosition
				require.NoError(t, json.Unmarshal(b, &f))
				pos := &engine.Position{ID: testID, Turn: f.Turn, Tool: "frozen"}
				require.NoError(t, pos.Restore(engine.Encoded{Body: f.Body, State: f.State, Effects: f.Effects, Secrets: f.Secrets}))
				r := engine.Call{Now: testNow, Client: steps.AllFeatures(), Answers: []steps.Answer{accept("confirm", yes)}}
				out, err := tool.Resume(t.Context(), pos, r)
				require.NoError(t, err)
				want := "Oslo: hold of Rome, 1234"
				if kind == "flow" {
					want = "Oslo: hold of Rome, " + f.Code
				}
				assert.Equal(t, want, text(t, out))
				undone = nil
				_, err = tool.Cancel(t.Context(), pos, engine.Call{Now: testNow})
				require.NoError(t, err)
				assert.Equal(t, []string{"Rome, hold of Rome, " + f.Code + ", true"}, undone)

				// What was read in an old format is written in the present one.
				again := &engine.Position{ID: testID, Turn: f.Turn, Tool: "frozen"}
				require.NoError(t, again.Restore(pos.Encode()))
				assert.Equal(t, byte(2), pos.Encode().Body[0])
				out, err = tool.Resume(t.Context(), again, r)
				require.NoError(t, err)
				assert.Equal(t, want, text(t, out))
			})
		}
	}
}
