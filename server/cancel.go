package server

import (
	"context"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// tools/cancelSaga is this project's extension to the saga proposal: it ends a
// suspended saga and undoes its effects.
//
//	params: { sagaToken: string; completedSteps?: SagaStepResult[]; arguments?: object }
//	result: CallToolResult, with the report in _meta["io.github.mcpsaga/undo"]
//
// If something could not be undone, here or when a tool failed, the report has a
// sagaToken of its own: cancelled, it is tried again. While it is not known whether
// an irreversible effect was performed, the error is wire.CodeTryAgain.
//
// A client that has sent answers and got no response sends them again as
// completedSteps, so that what the lost turn did is undone as well. The token may
// also be a requestState of MCP 2026-07-28; with completedSteps, arguments are
// then those of the call.
type cancelSagaParams struct {
	SagaToken      string         `json:"sagaToken"`
	CompletedSteps jsontext.Value `json:"completedSteps"`
	Arguments      jsontext.Value `json:"arguments"`
}

func (s *Server) cancelSaga(ctx context.Context, c caller, params jsontext.Value) (none turns.End, err error) {
	var p cancelSagaParams
	if fail := wire.DecodeParams(params, &p); fail != nil {
		return none, fail
	}
	if p.SagaToken == "" {
		return none, wire.NewError(wire.CodeInvalidParams, "params.sagaToken is missing: it names the saga")
	}
	q := c.sagaRequest("tools/cancelSaga")
	if q.Answers, err = stepAnswers(p.CompletedSteps); err != nil {
		return none, err
	}
	q.Token, q.Arguments = p.SagaToken, json.RawMessage(p.Arguments)
	return s.turns.Cancel(ctx, q, turns.Resent)
}
