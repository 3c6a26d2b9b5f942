package server

import (
	"context"
	"encoding/json"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// This file is the dialect of the saga proposal: tools/callSaga and
// tools/resumeSaga with the shapes of its TypeScript schema. It adds one thing
// to the proposal: steps of the type "roots", whose params are those of
// roots/list.

// CallToolSagaRequest['params'].
type callSagaParams struct {
	Name      string         `json:"name"`
	Arguments jsontext.Value `json:"arguments"`
}

// ResumeToolSagaRequest['params'].
type resumeSagaParams struct {
	SagaToken      string           `json:"sagaToken"`
	CompletedSteps []sagaStepResult `json:"completedSteps"`
}

// SagaStepResult.
type sagaStepResult struct {
	StepID string         `json:"stepId"`
	Result jsontext.Value `json:"result"`
	Error  jsontext.Value `json:"error"`
}

func (s *Server) callSaga(ctx context.Context, c caller, params jsontext.Value) (json.RawMessage, error) {
	var p callSagaParams
	if err := decodeParams(params, &p); err != nil {
		return nil, err
	}
	if p.Name == "" {
		return nil, rpcError(jsonrpc2.CodeInvalidParams, "params.name is missing: it names the tool")
	}
	t := s.tools.Lookup(p.Name)
	if t == nil {
		return nil, rpcError(jsonrpc2.CodeInvalidParams, "there is no tool of that name; tools/list has those there are")
	}
	if p.Arguments != nil && p.Arguments.Kind() != '{' {
		return nil, rpcError(jsonrpc2.CodeInvalidParams, "params.arguments must be an object")
	}
	c.features, c.purpose = steps.AllFeatures, purposeSaga
	turn, err := s.call(ctx, c, t, json.RawMessage(p.Arguments))
	if err != nil {
		return nil, err
	}
	return sagaResult(turn)
}

func (s *Server) resumeSaga(ctx context.Context, c caller, params jsontext.Value) (json.RawMessage, error) {
	var p resumeSagaParams
	if err := decodeParams(params, &p); err != nil {
		return nil, err
	}
	if p.CompletedSteps == nil {
		return nil, rpcError(jsonrpc2.CodeInvalidParams, "params.completedSteps is missing: it holds the results of all steps so far")
	}
	answers, err := stepAnswers(p.CompletedSteps)
	if err != nil {
		return nil, err
	}
	c.features, c.purpose = steps.AllFeatures, purposeSaga
	turn, err := s.resume(ctx, c, nil, nil, p.SagaToken, answers)
	if err != nil {
		return nil, err
	}
	return sagaResult(turn)
}

func stepAnswers(results []sagaStepResult) ([]steps.Answer, error) {
	answers := make([]steps.Answer, len(results))
	for i, r := range results {
		a, err := r.answer()
		if err != nil {
			return nil, err
		}
		answers[i] = a
	}
	return answers, nil
}

// answer checks the shape of a step's result. Whether it is an answer to the
// question is for the engine to decide.
func (r *sagaStepResult) answer() (steps.Answer, error) {
	a := steps.Answer{StepID: r.StepID}
	if r.StepID == "" {
		return a, rpcError(jsonrpc2.CodeInvalidParams, "an element of params.completedSteps has no stepId")
	}
	if r.Result != nil {
		if r.Result.Kind() != '{' {
			return a, &saga.AnswerError{StepID: r.StepID, Reason: "its result must be an object"}
		}
		a.Result = json.RawMessage(r.Result)
	}
	if r.Error != nil {
		var e struct {
			Code    *int64         `json:"code"`
			Message *string        `json:"message"`
			Data    jsontext.Value `json:"data"`
		}
		if err := jsonv2.Unmarshal(r.Error, &e); err != nil || e.Code == nil || e.Message == nil {
			return a, &saga.AnswerError{StepID: r.StepID, Reason: "its error must be an object with code (an integer) and message (a string)"}
		}
		a.Error = &steps.ClientError{Code: *e.Code, Message: *e.Message, Data: json.RawMessage(e.Data)}
	}
	return a, nil
}

// sagaResult writes a ToolCallSagaResult or a CallToolResult.
func sagaResult(t turn) (json.RawMessage, error) {
	if t.Result != nil {
		return marshal(t.Result)
	}
	b := make([]byte, 0, 256+len(t.token))
	b = append(b, `{"state":"suspended","sagaToken":`...)
	b = appendString(b, t.token)
	b = append(b, `,"steps":[`...)
	for i, step := range t.steps {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"type":`...)
		b = appendString(b, step.Kind.String())
		b = append(b, `,"stepId":`...)
		b = appendString(b, step.ID)
		b = append(b, `,"params":`...)
		b = append(b, step.Params...)
		b = append(b, '}')
	}
	return append(b, "]}"...), nil
}
