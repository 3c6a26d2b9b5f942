package server

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/steps"
)

// tools/cancelSaga is this project's extension to the saga proposal: it ends a
// suspended saga and undoes its effects.
//
//	params: { sagaToken: string; completedSteps?: SagaStepResult[]; arguments?: object }
//	result: CallToolResult, with the report in _meta["io.github.mcpsaga/undo"]
//
// If something could not be undone, here or when a tool failed, the report has a
// sagaToken of its own: cancelled, it is tried again. While it is not known whether
// an irreversible effect was performed, the error is codeTryAgain.
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

func (s *Server) cancelSaga(ctx context.Context, c caller, params jsontext.Value) (end turn, err error) {
	var p cancelSagaParams
	if fail := decodeParams(params, &p); fail != nil {
		return end, fail
	}
	if p.SagaToken == "" {
		return end, rpcError(jsonrpc2.CodeInvalidParams, "params.sagaToken is missing: it names the saga")
	}
	answers, err := stepAnswers(p.CompletedSteps)
	if err != nil {
		return end, err
	}
	c.features, c.purpose = steps.AllFeatures(), purposeSaga
	end, err = s.cancel(ctx, c, json.RawMessage(p.Arguments), p.SagaToken, answers)
	var rejected *codec.Rejected
	if errors.As(err, &rejected) && rejected.Reason == codec.ReasonAuthentication {
		// Perhaps it is one of the other dialect.
		c.purpose, c.resends = purposeMRTR, true
		end, err = s.cancel(ctx, c, json.RawMessage(p.Arguments), p.SagaToken, answers)
	}
	return end, err
}

// cancel ends the saga that the token holds.
func (s *Server) cancel(ctx context.Context, c caller, args json.RawMessage, token string, answers []steps.Answer) (turn, error) {
	c.cancels = len(answers) == 0
	o, err := s.openToken(c, nil, args, token)
	if err != nil {
		return turn{}, err
	}
	lazy := newLazyContext(ctx, time.Now().Add(s.opts.TurnTimeout))
	defer lazy.cancel()
	ctx = lazy
	if o.gone != nil {
		s.log.Log(ctx, levelOf(o.gone.Reason), "saga abandoned", o.attrs()...)
		out, err := o.tool.Cancel(ctx, o.pos, engine.Resumption{Now: s.opts.Now()}) // no turn is taken any more
		if err == nil && len(answers) > 0 {
			out.Result.Content = append(out.Result.Content, content.Resultf(engine.LostTurn).Content...)
		}
		return s.ended(c, o.tool, o.pos.ID, nil, out, err)
	}
	r := engine.Resumption{Now: s.opts.Now(), Client: s.features(c), Answers: answers, Notifier: c.notify}
	if c.resends && !c.cancels {
		r.Arguments = orEmpty(args)
	}
	out, err := o.tool.Cancel(ctx, o.pos, r)
	if err == nil && out.Result == nil {
		// The answers ended a prompt or a resource, whose ends are no tool results.
		out = &engine.Outcome{Result: content.Resultf("It was too late to cancel: the %v has ended.", o.tool.Kind)}
	}
	return s.ended(c, o.tool, o.pos.ID, nil, out, err)
}

// sealUndo gives a client the means to try an undo again that did not succeed: a
// token that can only be cancelled. It is one of the saga dialect, whatever the
// call's, as only that has a method to cancel.
func (s *Server) sealUndo(c caller, t *engine.Program, result *content.Result) error {
	if result == nil {
		return nil
	}
	report, ok := result.Meta[engine.UndoMetaKey].(*engine.UndoReport)
	if !ok || report.Again == nil {
		return nil
	}
	c.purpose, c.resends = purposeSaga, false
	token, err := s.sealToken(c, t, nil, report.Again)
	report.SagaToken = token
	return err
}
