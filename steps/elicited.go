package steps

import (
	"encoding/json"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/checkerr"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// What a user did with a question (MCP page "client/elicitation").
const (
	accepted  = "accept"  // answered, or agreed to open the link
	declined  = "decline" // said no
	cancelled = "cancel"  // dismissed the question without choosing
)

// elicited is a parsed ElicitResult.
type elicited struct {
	action string
	// content is an object of strings, numbers, booleans and lists of strings. It is
	// nil if there was none or the user did not accept.
	content jsontext.Value
}

// parseElicited reads an ElicitResult. If it is malformed it returns why.
func parseElicited(result json.RawMessage) (e elicited, reason string) {
	if reason = checkObject(result); reason != "" {
		return e, reason
	}
	var action jsontext.Value
	for name, v := range jsonview.Members(result) {
		switch string(name) {
		case "action":
			action = v
		case "content":
			e.content = v
		}
	}
	switch e.action = actionOf(action); {
	case action.Kind() != '"':
		return e, `"action" must be a string: "accept", "decline" or "cancel"`
	case e.action == declined, e.action == cancelled, e.action == accepted && absent(e.content):
		e.content = nil
		return e, ""
	case e.action != accepted:
		return e, `"action" must be "accept", "decline" or "cancel"`
	case e.content.Kind() != '{':
		return e, `"content" must be an object`
	}
	for name, v := range jsonview.Members(e.content) {
		if !elicitable(v) {
			return e, "content member " + strconv.Quote(string(name)) +
				" must be a string, a number, a boolean or a list of strings"
		}
	}
	return e, ""
}

// actionOf returns the action that a string names, or "".
func actionOf(v jsontext.Value) string {
	for _, a := range [...]string{accepted, declined, cancelled} {
		if jsonview.Is(v, a) {
			return a
		}
	}
	return ""
}

// elicitable reports whether v is of a type that content may hold.
func elicitable(v jsontext.Value) bool {
	switch v.Kind() {
	case '{', 'n':
		return false
	case '[':
		for item := range jsonview.Elements(v) {
			if jsontext.Value(item).Kind() != '"' {
				return false
			}
		}
	}
	return true
}

// checkObject says why an untrusted message is not a JSON object, or "": valid JSON,
// without duplicate names, in UTF-8.
func checkObject(raw json.RawMessage) string {
	switch {
	case !jsonview.Valid(raw):
		return "it is not valid JSON"
	case jsontext.Value(raw).Kind() != '{':
		return "it is not a JSON object"
	}
	return ""
}

// answerTo returns the result that came for step id.
func answerTo(a Answers, id string) (json.RawMessage, error) {
	if a == nil {
		return nil, &StepError{StepID: id, Err: ErrNotAsked}
	}
	answer, ok := a.StepAnswer(id)
	switch {
	case !ok:
		return nil, &StepError{StepID: id, Err: ErrNotAsked}
	case answer.Error != nil:
		return nil, &StepError{StepID: id, Err: answer.Error}
	}
	return answer.Result, nil
}

// acceptedBy returns the content that the user accepted for step id.
func acceptedBy(a Answers, id string) (jsontext.Value, error) {
	result, err := answerTo(a, id)
	if err != nil {
		return nil, err
	}
	e, reason := parseElicited(result)
	switch {
	case reason != "":
		err = &checkerr.MalformedError{StepID: id, Reason: reason}
	case e.action == declined:
		err = ErrDeclined
	case e.action == cancelled:
		err = ErrCancelled
	}
	if err != nil {
		return nil, &StepError{StepID: id, Err: err}
	}
	return e.content, nil
}
