package server

import (
	"context"
	"encoding/json"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/steps"
)

// This file is the dialect of the saga proposal: tools/callSaga and
// tools/resumeSaga with the shapes of its TypeScript schema. It adds one thing
// to the proposal: steps of the type "roots", whose params are those of
// roots/list.

// callSagaParams are CallToolSagaRequest['params'].
type callSagaParams struct {
	name      string
	arguments jsontext.Value
}

func (p *callSagaParams) read(params jsontext.Value) (fail *jsonrpc2.Error) {
	for name, v := range jsonview.Members(params) {
		switch string(name) {
		case "name":
			p.name, fail = readText(v, "/name")
		case "arguments":
			p.arguments = v
		}
		if fail != nil {
			return fail
		}
	}
	return nil
}

// resumeSagaParams are ResumeToolSagaRequest['params'].
type resumeSagaParams struct {
	token   string
	results jsontext.Value // the member completedSteps
}

func (p *resumeSagaParams) read(params jsontext.Value) (fail *jsonrpc2.Error) {
	for name, v := range jsonview.Members(params) {
		switch string(name) {
		case "sagaToken":
			p.token, fail = readText(v, "/sagaToken")
		case "completedSteps":
			p.results = v
		}
		if fail != nil {
			return fail
		}
	}
	return nil
}

func (s *Server) callSaga(ctx context.Context, c caller, params jsontext.Value) (none turn, err error) {
	var p callSagaParams
	if fail := p.read(params); fail != nil {
		return none, fail
	}
	if p.name == "" {
		return none, rpcError(jsonrpc2.CodeInvalidParams, "params.name is missing: it names the tool")
	}
	t := s.tools.Lookup(p.name)
	if t == nil {
		return none, rpcError(jsonrpc2.CodeInvalidParams, "there is no tool of that name; tools/list has those there are")
	}
	if p.arguments != nil && p.arguments.Kind() != '{' {
		return none, rpcError(jsonrpc2.CodeInvalidParams, "params.arguments must be an object")
	}
	c.features, c.purpose = steps.AllFeatures(), purposeSaga
	return s.call(ctx, c, t, json.RawMessage(p.arguments))
}

func (s *Server) resumeSaga(ctx context.Context, c caller, params jsontext.Value) (none turn, err error) {
	var p resumeSagaParams
	if fail := p.read(params); fail != nil {
		return none, fail
	}
	if k := p.results.Kind(); k == jsontext.KindInvalid || k == 'n' {
		return none, rpcError(jsonrpc2.CodeInvalidParams, "params.completedSteps is missing: it holds the results of all steps so far")
	}
	answers, err := stepAnswers(p.results)
	if err != nil {
		return none, err
	}
	c.features, c.purpose = steps.AllFeatures(), purposeSaga
	return s.resume(ctx, c, nil, nil, p.token, answers)
}

// stepAnswers reads SagaStepResult[], or null for none.
func stepAnswers(results jsontext.Value) ([]steps.Answer, error) {
	if k := results.Kind(); k != '[' && k != 'n' && k != jsontext.KindInvalid {
		return nil, wrongParam("/completedSteps")
	}
	answers := make([]steps.Answer, 0, 2)
	for v := range jsonview.Elements(results) {
		a, err := stepAnswer(v, len(answers))
		if err != nil {
			return nil, err
		}
		answers = append(answers, a)
	}
	return answers, nil
}

// stepAnswer checks the shape of a step's result. Whether it is an answer to the
// question is for the engine to decide.
func stepAnswer(v jsontext.Value, i int) (a steps.Answer, err error) {
	if k := v.Kind(); k != '{' && k != 'n' {
		return a, wrongParam("/completedSteps/" + strconv.Itoa(i))
	}
	var result, failure jsontext.Value
	for name, v := range jsonview.Members(v) {
		switch string(name) {
		case "stepId":
			var ok bool
			if a.StepID, ok = jsonview.String(v); !ok && jsontext.Value(v).Kind() != 'n' {
				return a, wrongParam("/completedSteps/" + strconv.Itoa(i) + "/stepId")
			}
		case "result":
			result = v
		case "error":
			failure = v
		}
	}
	if a.StepID == "" {
		return a, rpcError(jsonrpc2.CodeInvalidParams, "an element of params.completedSteps has no stepId")
	}
	if result != nil {
		if result.Kind() != '{' {
			return a, &engine.AnswerError{StepID: a.StepID, Reason: "its result must be an object"}
		}
		a.Result = json.RawMessage(result)
	}
	if failure != nil {
		var e struct {
			Code    *int64         `json:"code"`
			Message *string        `json:"message"`
			Data    jsontext.Value `json:"data"`
		}
		if err := jsonv2.Unmarshal(failure, &e); err != nil || e.Code == nil || e.Message == nil {
			return a, &engine.AnswerError{StepID: a.StepID, Reason: "its error must be an object with code (an integer) and message (a string)"}
		}
		a.Error = &steps.ClientError{Code: *e.Code, Message: *e.Message, Data: json.RawMessage(e.Data)}
	}
	return a, nil
}

// appendSagaResult writes a ToolCallSagaResult or a CallToolResult.
func appendSagaResult(b []byte, t *turn) ([]byte, error) {
	if t.Result != nil {
		return appendToolResult(b, t.Result)
	}
	b = append(b, `{"state":"suspended","sagaToken":`...)
	b = appendToken(b, t.token)
	b = append(b, `,"steps":[`...)
	for i := range t.steps {
		step := &t.steps[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"type":"`...)
		b = append(b, step.Kind.String()...)
		b = append(b, `","stepId":`...)
		b = appendString(b, step.ID)
		b = append(b, `,"params":`...)
		b = append(b, step.Params...)
		b = append(b, '}')
	}
	return append(b, "]}"...), nil
}
