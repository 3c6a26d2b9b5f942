// Package echo is a dialect that only tests serve: tools/call under another method, with a
// result that repeats the request. It shows all that a dialect needs.
package echo

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

const method = "echo/call"

// policy keeps the dialect's tokens apart from those of others.
var policy = turns.Policy{Purpose: "echo"}

type echo struct{ *dialect.Host }

// New is of the type [dialect.New].
func New(h *dialect.Host) (dialect.Dialect, error) { return echo{h}, nil }

// Name implements [dialect.Dialect].
func (echo) Name() string { return "echo" }

// Match implements [dialect.Dialect].
func (echo) Match(m *wire.Message, _ http.Header) bool { return m.Method == method }

// Serve implements [dialect.Dialect]. Without a token it begins a saga, with one it continues.
func (d echo) Serve(ctx context.Context, x *dialect.Exchange) (json.RawMessage, *wire.Error) {
	var p struct {
		Name      string                     `json:"name"`
		Arguments json.RawMessage            `json:"arguments"`
		Token     string                     `json:"token"`
		Answers   map[string]json.RawMessage `json:"answers"`
	}
	if rerr := wire.DecodeParams(x.Message.Params, &p); rerr != nil {
		return nil, rerr
	}
	tool, _, err := d.Tool(p.Name, nil)
	if err != nil {
		return nil, d.Translate(ctx, method, err)
	}
	q := x.Turn(policy)
	q.Program, q.Arguments, q.Token, q.Client = tool, p.Arguments, p.Token, steps.AllFeatures()
	for id, result := range p.Answers {
		q.Answers = append(q.Answers, steps.Answer{StepID: id, Result: result})
	}
	take := d.Turns.Call
	if p.Token != "" {
		take, q.Arguments = d.Turns.Resume, nil
	}
	end, err := take(ctx, q)
	if err != nil {
		return nil, d.Translate(ctx, method, err)
	}
	said, err := wire.Marshal(map[string]any{"echo": x.Message.Params, "token": end.Token, "asks": end.Steps, "result": end.Result})
	if err != nil {
		return nil, d.Translate(ctx, method, err)
	}
	return said, nil
}
