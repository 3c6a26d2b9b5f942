package dialect

import (
	"context"
	"encoding/json"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// SagaMarker is the key in a tool's _meta, and in the server's experimental
// capabilities, that says: this is a saga, call it with tools/callSaga.
const SagaMarker = "io.github.mcpsaga/saga"

// This file is the methods of the saga proposal, tools/callSaga and tools/resumeSaga with
// the shapes of its TypeScript schema, and tools/cancelSaga, which is this project's.
// Several dialects serve them. There is one addition to the proposal: steps of the type
// "roots", whose params are those of roots/list.
//
// tools/cancelSaga ends a suspended saga and undoes its effects.
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
const (
	callSaga   = "tools/callSaga"
	resumeSaga = "tools/resumeSaga"
	cancelSaga = "tools/cancelSaga"
)

// SagaMethods are the methods of the saga proposal.
func SagaMethods() []string { return []string{callSaga, resumeSaga, cancelSaga} }

// IsSagaMethod reports whether a method is one of the saga proposal's.
func IsSagaMethod(method string) bool {
	return method == callSaga || method == resumeSaga || method == cancelSaga
}

// sagaParams are the parameters of these methods.
type sagaParams struct {
	of                 string // the tool's name, or the token
	arguments, results jsontext.Value
}

func (p *sagaParams) read(params jsontext.Value, of string) (rerr *wire.Error) {
	for name, v := range jsonview.Members(params) {
		switch string(name) {
		case of:
			p.of, rerr = wire.ReadString(v, "/"+of)
		case "arguments":
			p.arguments = v
		case "completedSteps":
			p.results = v
		}
		if rerr != nil {
			return rerr
		}
	}
	return nil
}

// SagaCall returns what tools/callSaga names, as far as it can be read.
func SagaCall(params jsontext.Value) (tool string, arguments jsontext.Value) {
	var p sagaParams
	if p.read(params, "name") != nil {
		return "", nil // the method says so
	}
	return p.of, p.arguments
}

// Saga serves a method of the saga proposal; n, which may be nil, hears what goes on. What the client has declared plays no part:
// for a step that it cannot perform it sends an error.
func (h *Host) Saga(ctx context.Context, x *Exchange, n engine.Notifier) (none turns.End, err error) {
	var p sagaParams
	q := x.Turn(turns.Carried)
	q.Client, q.Named, q.Notifier = steps.AllFeatures(), x.Named(), n
	if q.Method == callSaga {
		if rerr := p.read(x.Message.Params, "name"); rerr != nil {
			return none, rerr
		}
		if p.of == "" {
			return none, wire.NewError(wire.CodeInvalidParams, "params.name is missing: it names the tool")
		}
		if q.Program, q.Arguments, err = h.Tool(p.of, p.arguments); err != nil {
			return none, err
		}
		return h.Turns.Call(ctx, q)
	}
	if rerr := p.read(x.Message.Params, "sagaToken"); rerr != nil {
		return none, rerr
	}
	if k := p.results.Kind(); q.Method == resumeSaga && (k == jsontext.KindInvalid || k == 'n') {
		return none, wire.NewError(wire.CodeInvalidParams, "params.completedSteps is missing: it holds the results of all steps so far")
	}
	if q.Method == cancelSaga && p.of == "" {
		return none, wire.NewError(wire.CodeInvalidParams, "params.sagaToken is missing: it names the saga")
	}
	if q.Answers, err = stepAnswers(p.results); err != nil {
		return none, err
	}
	q.Token = p.of
	if q.Method == resumeSaga {
		return h.Turns.Resume(ctx, q)
	}
	q.Arguments = json.RawMessage(p.arguments)
	return h.Turns.Cancel(ctx, q, turns.Resent)
}

// Tool finds the tool that is called, and checks that its arguments are an object.
func (h *Host) Tool(name string, arguments jsontext.Value) (*engine.Program, json.RawMessage, error) {
	t := h.Tools.Find(engine.KindTool, name)
	if t == nil {
		return nil, nil, wire.NewError(wire.CodeInvalidParams, "there is no tool of that name; tools/list has those there are")
	}
	if arguments != nil && arguments.Kind() != '{' {
		return nil, nil, wire.NewError(wire.CodeInvalidParams, "params.arguments must be an object")
	}
	return t, json.RawMessage(arguments), nil
}

// stepAnswers reads SagaStepResult[], or null for none.
func stepAnswers(results jsontext.Value) ([]steps.Answer, error) {
	if k := results.Kind(); k != '[' && k != 'n' && k != jsontext.KindInvalid {
		return nil, wire.WrongParam("/completedSteps")
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
		return a, wire.WrongParam("/completedSteps/" + strconv.Itoa(i))
	}
	var result, failure jsontext.Value
	for name, v := range jsonview.Members(v) {
		switch string(name) {
		case "stepId":
			var ok bool
			if a.StepID, ok = jsonview.String(v); !ok && jsontext.Value(v).Kind() != 'n' {
				return a, wire.WrongParam("/completedSteps/" + strconv.Itoa(i) + "/stepId")
			}
		case "result":
			result = v
		case "error":
			failure = v
		}
	}
	if a.StepID == "" {
		return a, wire.NewError(wire.CodeInvalidParams, "an element of params.completedSteps has no stepId")
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

// AppendSagaResult writes a ToolCallSagaResult or a CallToolResult.
func AppendSagaResult(b []byte, t *turns.End) ([]byte, error) {
	if t.Result != nil {
		return AppendToolResult(b, t.Result)
	}
	b = append(b, `{"state":"suspended","sagaToken":`...)
	b = AppendToken(b, t.Token)
	b = append(b, `,"steps":[`...)
	for i := range t.Steps {
		step := &t.Steps[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"type":"`...)
		b = append(b, step.Kind.String()...)
		b = append(b, `","stepId":`...)
		b = wire.AppendString(b, step.ID)
		b = append(b, `,"params":`...)
		b = append(b, step.Params...)
		b = append(b, '}')
	}
	return append(b, "]}"...), nil
}

// AppendToken writes a token as a JSON string. Tokens consist of A-Z a-z 0-9 - _
// alone, so there is nothing to escape.
func AppendToken(b []byte, token string) []byte {
	return append(append(append(b, '"'), token...), '"')
}
