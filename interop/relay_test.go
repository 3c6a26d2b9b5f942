package interop

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// seating asks two things, and something that no model may answer if that is wanted.
func seating(consent bool) (tool saga.Definition, undone *int) {
	type row struct {
		Row int `json:"row" minimum:"1"`
	}
	type sure struct {
		Sure bool `json:"sure"`
	}
	undone = new(int)
	where := &steps.Form[row]{ID: "row", Message: `Which row? Say "7", or another.`}
	really := &steps.Form[sure]{ID: "sure", Message: "Really?", Consent: consent}
	hold := &saga.Effect[int, string]{
		Name: "hold",
		Do:   func(context.Context, saga.Key, int) (string, error) { return "a seat", nil },
		Undo: func(context.Context, saga.Performed[int, string]) error { *undone++; return nil },
	}
	return saga.Flow[none, string]{
		Info: saga.Info{Name: "seat", Asks: []steps.Question{where, really}, Effects: []saga.Declared{hold}},
		Run: func(r *saga.Run, _ none) (string, error) {
			at, err := saga.Ask(r, where)
			if err != nil {
				return "", err
			}
			got, err := saga.Do(r, hold, at.Row)
			if err != nil {
				return "", err
			}
			_, err = saga.Ask(r, really)
			return got, err
		},
	}, undone
}

// TypeScript clients that declare nothing bring a tool to its end with a model that does only what results say, in both eras, with a
// ledger and without. At a consent it is sent to a person, and there is none.
func TestTypeScriptClientsRelay(t *testing.T) {
	node := needNode(t)
	for _, c := range []struct{ name, version, mode, protocol string }{
		{"SDK 1", "1", `null`, ""}, {"SDK 2, 2025-11-25", "2", `"legacy"`, "2025-11-25"}, {"SDK 2, 2026-07-28", "2", `{"pin":"2026-07-28"}`, "2026-07-28"},
	} {
		for _, remembers := range []bool{true, false} {
			for _, consent := range []bool{true, false} {
				name := c.name + map[bool]string{true: ", ledger"}[remembers] + map[bool]string{true: ", consent"}[consent]
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					tool, undone := seating(consent)
					keys, err := codec.NewKeyset()
					require.NoError(t, err)
					o := server.Options{Tools: []saga.Definition{tool}, Keys: keys}
					if remembers {
						o.Ledger = ledger.NewMemory(ledger.MemoryOptions{})
					}
					s, err := server.New(o)
					require.NoError(t, err)
					web := httptest.NewServer(s.Handler())
					cmd := node.command("relay.mjs", c.version, c.mode, web.URL+server.Endpoint, "seat", `{"Which row? Say \"7\", or another.":{"row":7},"Really?":{"sure":true}}`)
					out, err := cmd.Output()
					web.Close()
					s.Close()
					require.NoError(t, err, "%v", err)
					var said struct{ Text, Protocol string }
					require.NoError(t, json.Unmarshal(out, &said), "%s", out)
					assert.Equal(t, c.protocol, said.Protocol)
					if !consent {
						assert.Equal(t, "a seat", said.Text)
						assert.Zero(t, *undone)
						return
					}
					assert.Contains(t, said.Text, "must be answered by a person")
					assert.Equal(t, 1, *undone)
				})
			}
		}
	}
}
