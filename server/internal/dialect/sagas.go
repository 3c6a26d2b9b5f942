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

// The methods of the saga proposal, with the shapes of its TypeScript schema, and this project's tools/cancelSaga, which
// ends a suspended saga and undoes its effects. Several dialects serve them. Steps of the type "roots" are an addition to
// the proposal, whose params are those of roots/list.
//
//	params of tools/cancelSaga: { sagaToken: string; completedSteps?: SagaStepResult[]; arguments?: object }
//	result: CallToolResult, with the report in _meta["io.github.mcpsaga/undo"]
//
// completedSteps are answers that were sent and got no response, so that what the lost turn did is undone as well. The token
// may also be that of a report, to try again what could not be undone, or a requestState of MCP 2026-07-28: with
// completedSteps, arguments are then those of the call.
const (
	MethodCall   = "tools/callSaga"
	MethodResume = "tools/resumeSaga"
	MethodCancel = "tools/cancelSaga"
)

// Params are the parameters of a request that takes a turn.
type Params struct {
	// Name is what is called or read, or the token of the saga.
	Name string
	// Arguments and Answers are as they came; nil if they did not.
	Arguments, Answers jsontext.Value
	// State is the token of MCP 2026-07-28.
	State jsontext.Value
	// Resumed is read apart, of calls of tools.
	Resumed Resumed
}

// ReadParams reads the parameters with these names for the name and the answers.
func ReadParams(params jsontext.Value, name, answers string) (p Params, rerr *wire.Error) {
	for member, v := range jsonview.Members(params) {
		switch string(member) {
		case name:
			var ok bool
			if p.Name, ok = jsonview.String(v); !ok && jsontext.Value(v).Kind() != 'n' {
				return p, wire.WrongParam("/" + name)
			}
		case answers:
			p.Answers = v
		case "arguments":
			p.Arguments = v
		case "requestState":
			p.State = v
		}
	}
	return p, nil
}

// Saga serves a method of the saga proposal. What the client has declared plays no part: for
// a step that it cannot perform it sends an error.
func (h *Host) Saga(ctx context.Context, x *Exchange) (none turns.End, err error) {
	q := x.Turn(turns.Carried)
	q.Client, q.Parts = steps.AllFeatures(), true
	name := "sagaToken"
	if q.Method == MethodCall {
		name = "name"
	}
	p, rerr := ReadParams(x.Message.Params, name, "completedSteps")
	if rerr != nil {
		return none, rerr
	}
	if len(x.Header[wire.NameHeader]) > 0 { // a gateway may have gone by it
		q.Named, _, _ = wire.DecodedHeader(x.Header, wire.NameHeader)
	}
	if q.Method == MethodCall {
		if p.Name == "" {
			return none, wire.NewError(wire.CodeInvalidParams, "params.name is missing: it names the tool")
		}
		if q.Program, q.Arguments, err = h.Tool(ctx, p.Name, p.Arguments); err != nil {
			return none, err
		}
		if q.Program.Tasks.Mode == engine.TasksRequired {
			return none, wire.NewError(wire.CodeInvalidParams, taskOnlyText)
		}
		if q.IdempotencyKey, rerr = h.IdempotencyKey(x); rerr != nil {
			return none, rerr
		}
		return h.Turns.Call(ctx, q)
	}
	if k := p.Answers.Kind(); q.Method == MethodResume && (k == jsontext.KindInvalid || k == 'n') {
		return none, wire.NewError(wire.CodeInvalidParams, "params.completedSteps is missing: it holds the results of all steps so far")
	}
	if q.Method == MethodCancel && p.Name == "" {
		return none, wire.NewError(wire.CodeInvalidParams, "params.sagaToken is missing: it names the saga")
	}
	if q.Answers, err = stepAnswers(p.Answers); err != nil {
		return none, err
	}
	q.Token = p.Name
	if q.Method == MethodResume {
		return h.Turns.Resume(ctx, q)
	}
	q.Arguments = json.RawMessage(p.Arguments)
	return h.Turns.Cancel(ctx, q, turns.Resent, turns.Paged)
}

// stepAnswers reads SagaStepResult[], and checks its shape; nil if it is missing or null. Whether
// they are answers to the questions is for the engine to decide.
func stepAnswers(results jsontext.Value) ([]steps.Answer, error) {
	if k := results.Kind(); k != '[' && k != 'n' && k != jsontext.KindInvalid {
		return nil, wire.WrongParam("/completedSteps")
	} else if k != '[' {
		return nil, nil
	}
	answers := make([]steps.Answer, 0, 2)
	for v := range jsonview.Elements(results) {
		at := func() string { return "/completedSteps/" + strconv.Itoa(len(answers)) }
		if k := jsontext.Value(v).Kind(); k != '{' && k != 'n' {
			return nil, wire.WrongParam(at())
		}
		var a steps.Answer
		var result, failure jsontext.Value
		for name, v := range jsonview.Members(v) {
			switch string(name) {
			case "stepId":
				var ok bool
				if a.StepID, ok = jsonview.String(v); !ok && jsontext.Value(v).Kind() != 'n' {
					return nil, wire.WrongParam(at() + "/stepId")
				}
			case "result":
				result = v
			case "error":
				failure = v
			}
		}
		if a.StepID == "" {
			return nil, wire.NewError(wire.CodeInvalidParams, "an element of params.completedSteps has no stepId")
		}
		if result != nil && result.Kind() != '{' {
			return nil, &engine.AnswerError{StepID: a.StepID, Reason: "its result must be an object"}
		}
		a.Result = json.RawMessage(result)
		if failure != nil {
			var e struct {
				Code    *int64         `json:"code"`
				Message *string        `json:"message"`
				Data    jsontext.Value `json:"data"`
			}
			if err := jsonv2.Unmarshal(failure, &e); err != nil || e.Code == nil || e.Message == nil {
				return nil, &engine.AnswerError{StepID: a.StepID, Reason: "its error must be an object with code (an integer) and message (a string)"}
			}
			a.Error = &steps.ClientError{Code: *e.Code, Message: *e.Message, Data: json.RawMessage(e.Data)}
		}
		answers = append(answers, a)
	}
	return answers, nil
}

// SagaResult is a ToolCallSagaResult or a CallToolResult.
func (h *Host) SagaResult(t *turns.End) ([]byte, error) {
	if t.Result != nil {
		return ToolResult(t.Result)
	}
	b, err := Suspended(t)
	if err == nil && !t.Wake.IsZero() {
		b = append(h.AppendRetryAfter(append(b[:len(b)-1], `,"_meta":{`...), t.Wake), "}}"...)
	}
	return b, err
}

// Suspended is a ToolCallSagaResult without _meta.
func Suspended(t *turns.End) ([]byte, error) {
	size := 128 + len(t.Token)
	for i := range t.Steps {
		size += 64 + len(t.Steps[i].ID) + len(t.Steps[i].Params)
	}
	b := append(make([]byte, 0, size), `{"state":"suspended","sagaToken":"`...)
	b = append(b, t.Token...) // of A-Z a-z 0-9 - _ alone: there is nothing to escape
	b = append(b, `","steps":[`...)
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
	b = append(b, ']')
	if t.Yielded != nil {
		var err error
		if b, err = t.Yielded.AppendJSON(append(b, `,"content":`...)); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}
