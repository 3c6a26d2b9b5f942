package sagatest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

type rigForm struct {
	Sure bool `json:"sure"`
}

var rigAsk = &steps.Form[rigForm]{ID: "sure", Message: "Sure?"}

// rigTool holds something, asks, and ends.
func rigTool(held map[saga.Key]bool) saga.Definition {
	hold := &saga.Effect[string, bool]{
		Name: "hold",
		Do: func(_ context.Context, key saga.Key, _ string) (bool, error) {
			held[key] = true
			return true, nil
		},
		Undo: func(_ context.Context, p saga.Performed[string, bool]) error {
			delete(held, p.Key)
			return nil
		},
	}
	return saga.Flow[struct{ What string }, string]{
		Info: saga.Info{Name: "hold", Asks: []steps.Question{rigAsk}, Effects: []saga.Declared{hold}},
		Run: func(r *saga.Run, in struct{ What string }) (string, error) {
			if _, err := saga.Do(r, hold, in.What); err != nil {
				return "", err
			}
			_, err := saga.Ask(r, rigAsk)
			return "held", err
		},
	}
}

// A turn of the kit is one of package server, whatever the clock says.
func TestTurnsAreThoseOfProduction(t *testing.T) {
	late := tokens.DefaultTTL + tokens.DefaultSkew + time.Second
	for name, test := range map[string]struct {
		jump    time.Duration
		cancels bool
		held    bool // afterwards
		err     error
		says    string
	}{
		"in time":                               {0, false, true, nil, "held"},
		"cancelled":                             {0, true, false, nil, "Cancelled."},
		"before it was sealed":                  {-2 * tokens.DefaultSkew, false, true, turns.ErrEarly, ""},
		"cancelled before it was sealed":        {-2 * tokens.DefaultSkew, true, false, nil, "Cancelled."},
		"late":                                  {late, false, false, nil, "too late"},
		"cancelled late":                        {late, true, false, nil, "Cancelled."},
		"too late to undo anything":             {late + turns.DefaultUndoGrace, false, true, tokens.ErrRejected, ""},
		"cancelled too late to undo anything":   {late + turns.DefaultUndoGrace, true, true, tokens.ErrRejected, ""},
		"as late as something can be undone at": {late + turns.DefaultUndoGrace - time.Minute, false, false, nil, "too late"},
	} {
		for _, resends := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, resends=%v", name, resends), func(t *testing.T) {
				held := make(map[saga.Key]bool)
				c := Player{Resends: resends}.client(t, rigTool(held), json.RawMessage(`{"What":"a room"}`), newCodec(t, 0))
				first := c.send(request{})
				require.NoError(t, first.err)
				require.Len(t, held, 1)
				c.take(request{}, first)
				q := c.resume(steps.Answer{StepID: "sure", Result: []byte(`{"action":"accept","content":{"sure":true}}`)})
				if q.cancels = test.cancels; q.cancels {
					q.answers = nil
				}
				c.rig.clock.pass(test.jump)
				rep := c.send(q)
				require.ErrorIs(t, rep.err, test.err)
				assert.Equal(t, test.held, len(held) > 0)
				if test.err == nil {
					assert.Contains(t, rep.Result.Content.Text(), test.says)
				}
			})
		}
	}
}

// A client that sends the arguments in every turn sends those of the first.
func TestResentArgumentsAreBound(t *testing.T) {
	c := Player{Resends: true}.client(t, rigTool(make(map[saga.Key]bool)), json.RawMessage(`{"What":"a room"}`), newCodec(t, 0))
	c.take(request{}, c.send(request{}))
	c.rig.args = json.RawMessage(`{"What":"a house"}`)
	rep := c.send(c.resume())
	require.ErrorIs(t, rep.err, tokens.ErrRejected)
	assert.ErrorContains(t, rep.err, "not those of the first turn")
}

// What a play says about tokens is true of a server's.
func TestTokensAreAsLongAsAServers(t *testing.T) {
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	tool := rigTool(make(map[saga.Key]bool))
	s, err := server.New(server.Options{Keys: keys, Tools: []saga.Definition{tool}})
	require.NoError(t, err)
	for resends, r := range map[bool]server.Request{
		false: {Method: "tools/callSaga", Params: json.RawMessage(`{"name":"hold","arguments":{"What":"a room"}}`)},
		true: {Method: "tools/call", Version: "2026-07-28", Params: json.RawMessage(`{"name":"hold","arguments":{"What":"a room"},"_meta":{
			"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}`)},
	} {
		raw, err := s.Handle(t.Context(), &r)
		require.NoError(t, err)
		token := jsontest.Get(raw, "sagaToken").String() + jsontest.Get(raw, "requestState").String()
		require.NotEmpty(t, token)
		played := Player{Resends: resends}.Play(t, tool, json.RawMessage(`{"What":"a room"}`), Accept("sure", rigForm{true}))
		assert.Len(t, played.Rounds[0].Token, len(token), "resends: %v", resends)
	}
}
