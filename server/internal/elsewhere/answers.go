package elsewhere

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/relay"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// What a model may say instead of the fields of a form, and of all questions at once.
const (
	sayAccept  = "accept"
	sayDecline = "decline"
	sayCancel  = "cancel"
)

// readAnswers reads what a model says to open questions. It is none of it taken if refusal says why. cancel: the call is
// to be given up.
func (v *view) readAnswers(open []steps.Step) (list []steps.Answer, cancel bool, refusal string) {
	list, cancel, refusal = v.readCarried(v.Exchange, v.call, v.program().Routing)
	if refusal != "" || cancel {
		return nil, cancel, refusal
	}
	for _, a := range list {
		i := slices.IndexFunc(open, func(q steps.Step) bool { return q.ID == a.StepID })
		if i < 0 {
			return nil, false, notOpen(a.StepID)
		}
		if why := Misfit(open[i], a.Result); why != "" {
			return nil, false, doesNotFit(a.StepID, why)
		}
	}
	return list, false, ""
}

// readCarried is readAnswers where it is not known what is open.
func (r *Router) readCarried(x *dialect.Exchange, c *Call, routing func(question string) engine.Routing) (list []steps.Answer, cancel bool, refusal string) {
	raw := c.Answers
	if text, ok := jsonview.String(raw); ok { // some models quote their objects
		if raw = jsontext.Value(text); text == sayCancel {
			return nil, true, ""
		}
	}
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, false, ""
	case !jsonview.Valid(raw) || raw.Kind() != '{':
		return nil, false, `No answer was taken: answers must be an object that has the id of each question and what was answered, or "cancel" to give the call up.`
	}
	for id, value := range jsonview.Members(raw) {
		a := steps.Answer{StepID: string(id), By: ByRelay}
		q := routing(a.StepID)
		switch {
		case !q.User:
			return nil, false, notOpen(a.StepID)
		case r.Routes(q, x.Caller)&steps.RouteRelay == 0:
			return nil, false, relay.Person(a.StepID)
		}
		if a.Result = resultOf(value); a.Result == nil {
			return nil, false, fmt.Sprintf(`No answer was taken: that to %q must be an object with the fields of its schema, or "accept", "decline" or "cancel".`, a.StepID)
		}
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b steps.Answer) int { return strings.Compare(a.StepID, b.StepID) })
	return list, false, ""
}

// give gives the call answers to what was open just now.
func (v *view) give(ctx context.Context, list []steps.Answer) error {
	if len(list) == 0 {
		return nil
	}
	now, err := v.Tasks.AnswerFound(ctx, v.Principal, v.task, list)
	unfit, refused := errors.AsType[*engine.AnswerError](err)
	switch {
	case refused:
		v.refusal = doesNotFit(unfit.StepID, unfit.Reason)
	case err != nil:
		return err
	case now != nil: // another answer was faster
		v.task, v.refusal = now, notOpen(list[0].StepID)
	default: // what it asks now is known when it is followed
		answered := *v.task
		answered.Status, answered.Questions, answered.Found = tasks.Working, nil, nil
		v.task = &answered
	}
	return nil
}

func doesNotFit(id, why string) string {
	return fmt.Sprintf("No answer was taken, as that to %q does not fit: %s.", id, why)
}

func notOpen(id string) string {
	return fmt.Sprintf("No answer was taken: there is no open question %q, or it was answered before.", id)
}

// resultOf is an ElicitResult of what a model says to a question; nil if it is none.
func resultOf(value jsontext.Value) json.RawMessage {
	if value.Kind() == '{' {
		return append(append([]byte(`{"action":"accept","content":`), value...), '}')
	}
	action, _ := jsonview.String(value)
	if action != sayAccept && action != sayDecline && action != sayCancel {
		return nil
	}
	return append(wire.AppendString([]byte(`{"action":`), action), '}')
}

// Misfit says why an answer does not fit its form, or "". An answer that is not accepted fits any.
func Misfit(q steps.Step, result json.RawMessage) string {
	spec, err := q.Form()
	if err != nil || !jsonview.Is(jsonview.Get(result, "action"), sayAccept) {
		return ""
	}
	content := jsontext.Value(jsonview.Get(result, "content"))
	if kind := content.Kind(); content != nil && kind != '{' && kind != 'n' {
		return "it is no object"
	}
	fields := map[string]any{} // as they are written: float64 has not all numbers
	for name, value := range jsonview.Members(content) {
		fields[string(name)] = jsontext.Value(value)
	}
	if err := spec.Validate(fields); err != nil {
		return err.Error()
	}
	return ""
}
