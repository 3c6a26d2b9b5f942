package steps

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// By names who may answer a [Form] instead of the caller, each a person or a role: a [FormOption] as well, which
// replaces them.
type By []string

// Bounds of By.
const (
	maxBy     = 8
	maxByName = 256
)

// others says who answers a form, if not the user of the client. It is part of what is asked: other people are another
// question.
type others struct {
	Within      int64 `json:"within"` // as of an event
	By          By    `json:"by"`
	AllowCaller bool  `json:"allowCaller,omitzero"`
}

func (b By) applyForm(s *FormSpec) error {
	if s.others == nil {
		return &QuestionError{Where: "By", Reason: "the form is for the user of the client; one for others has a Within"}
	}
	o := *s.others
	o.By, s.others = b, &o
	return nil
}

func (o *others) verify() error {
	reason := ""
	switch {
	case slices.ContainsFunc(o.By, func(name string) bool { return name == "" || len(name) > maxByName }):
		reason = "has a name in By that is empty, or longer than 256 bytes"
	case o.Within <= 0:
		reason = "has a By and no Within: say for how long others may answer"
	case o.Within > int64(maxWithin):
		reason = "may be answered for longer than ten years"
	case len(o.By) > maxBy:
		reason = "names more than 8 in By: give them a role"
	default:
		return nil
	}
	return &QuestionError{Reason: reason}
}

// parseOthers is parseElicited for what others have answered, or not in time.
func parseOthers(result json.RawMessage) (outcome, string) {
	if o, reason := parseOutcome(result, timedOut); reason == "" {
		return o, ""
	}
	return parseElicited(result)
}

// AnsweredBy returns who has answered a form that is for others, as the server knows them (the principal's subject), and
// when. It returns nothing if no one has, in time.
func (f *Form[T]) AnsweredBy(a Answers) (who string, at time.Time) {
	if f.Within <= 0 || a == nil {
		return "", at
	}
	answer, _ := a.StepAnswer(f.ID)
	who, _ = jsonview.String(jsonview.Get(answer.Result, "by"))
	when, _ := jsonview.String(jsonview.Get(answer.Result, "at"))
	at, _ = time.Parse(time.RFC3339, when)
	return who, at
}
