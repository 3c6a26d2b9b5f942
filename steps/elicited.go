package steps

import (
	"encoding/json"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// Action is what a user did with a question (MCP page "client/elicitation").
type Action string

// The actions MCP knows.
const (
	// Accept: the user answered, or agreed to open the link.
	Accept Action = "accept"
	// Decline: the user said no.
	Decline Action = "decline"
	// Cancel: the user dismissed the question without choosing.
	Cancel Action = "cancel"
)

// elicited is a parsed ElicitResult.
type elicited struct {
	action Action
	// content is an object of strings, numbers, booleans and lists of strings. It
	// does not exist if there was none or the user did not accept.
	content gjson.Result
}

// parseElicited reads an ElicitResult. If it is malformed it returns why.
func parseElicited(result json.RawMessage) (e elicited, reason string) {
	obj, reason := parseObject(result)
	if reason != "" {
		return e, reason
	}
	var action gjson.Result
	obj.ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "action":
			action = v
		case "content":
			e.content = v
		}
		return true
	})
	switch e.action = Action(action.Str); e.action {
	case Decline, Cancel:
		e.content = gjson.Result{}
		return e, ""
	case Accept:
	default:
		if action.Type != gjson.String {
			return e, `"action" must be a string: "accept", "decline" or "cancel"`
		}
		return e, `"action" must be "accept", "decline" or "cancel"`
	}
	if e.content.Type == gjson.Null {
		e.content = gjson.Result{}
		return e, ""
	}
	if !e.content.IsObject() {
		return e, `"content" must be an object`
	}
	e.content.ForEach(func(key, v gjson.Result) bool {
		if !elicitable(v) {
			reason = "content member " + strconv.Quote(key.Str) +
				" must be a string, a number, a boolean or a list of strings"
		}
		return reason == ""
	})
	return e, reason
}

// elicitable reports whether v is of a type that content may hold.
func elicitable(v gjson.Result) bool {
	if v.Type != gjson.JSON {
		return v.Type != gjson.Null
	}
	ok := v.IsArray()
	if ok {
		v.ForEach(func(_, item gjson.Result) bool {
			ok = item.Type == gjson.String
			return ok
		})
	}
	return ok
}

// parseObject reads a JSON object from an untrusted message: valid JSON, without
// duplicate names, in UTF-8. If it is not one it returns why.
func parseObject(raw json.RawMessage) (obj gjson.Result, reason string) {
	if reason = checkObject(raw); reason != "" {
		return obj, reason
	}
	return gjson.ParseBytes(raw), ""
}

// checkObject is parseObject for those who only look into raw.
func checkObject(raw json.RawMessage) string {
	switch {
	case !jsonview.Valid(raw):
		return "it is not valid JSON"
	case jsontext.Value(raw).Kind() != '{':
		return "it is not a JSON object"
	}
	return ""
}

// member returns the member of obj that is called name.
func member(obj gjson.Result, name string) (found gjson.Result) {
	obj.ForEach(func(key, v gjson.Result) bool {
		if key.Str == name {
			found = v
			return false
		}
		return true
	})
	return found
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
func acceptedBy(a Answers, id string) (gjson.Result, error) {
	result, err := answerTo(a, id)
	if err != nil {
		return gjson.Result{}, err
	}
	e, reason := parseElicited(result)
	switch {
	case reason != "":
		err = &MalformedError{StepID: id, Reason: reason}
	case e.action == Decline:
		err = ErrDeclined
	case e.action == Cancel:
		err = ErrCancelled
	}
	if err != nil {
		return gjson.Result{}, &StepError{StepID: id, Err: err}
	}
	return e.content, nil
}
