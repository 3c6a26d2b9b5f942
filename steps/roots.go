package steps

import (
	"encoding/json"
	"net/url"
	"strconv"

	"github.com/tidwall/gjson"
)

// RootsList asks which directories the client works in (MCP page
// "client/roots"). They are information, not permission: check access yourself.
type RootsList struct {
	// ID correlates the answer with the question. It is unique within a saga, and has
	// 1 to 64 characters of A-Z a-z 0-9 _ - . : / .
	ID string

	nth bool
}

// Root is a directory or file that the client works in.
type Root struct {
	// URI locates it; its scheme is file.
	URI string
	// Name is its name for the user, or empty.
	Name string
}

// StepID implements [Question].
func (r *RootsList) StepID() string { return r.ID }

// Verify implements [Verifier].
func (r *RootsList) Verify() error {
	check := checkDeclaredID
	if r.nth {
		check = checkID
	}
	if reason := check(r.ID); reason != "" {
		return &QuestionError{StepID: r.ID, Reason: reason}
	}
	return nil
}

// Step implements [Ask].
func (r *RootsList) Step() (Step, error) {
	if err := r.Verify(); err != nil {
		return Step{}, err
	}
	return Step{ID: r.ID, Kind: Roots, Params: json.RawMessage("{}"), Needs: ListRoots}, nil
}

// Nth returns the n-th instance of the question, with the id "ID#n".
func (r *RootsList) Nth(n int) *RootsList { return &RootsList{ID: nthID(r.ID, n), nth: true} }

// Check implements [Question].
func (r *RootsList) Check(step Step, result json.RawMessage) error {
	if _, reason := parseRoots(result); reason != "" {
		return &MalformedError{StepID: step.ID, Reason: reason}
	}
	return nil
}

// Answer returns the client's roots, perhaps none. The error is a *[StepError].
func (r *RootsList) Answer(a Answers) ([]Root, error) {
	result, err := answerTo(a, r.ID)
	if err != nil {
		return nil, err
	}
	roots, reason := parseRoots(result)
	if reason != "" {
		return nil, &StepError{StepID: r.ID, Err: &MalformedError{StepID: r.ID, Reason: reason}}
	}
	return roots, nil
}

func parseRoots(result json.RawMessage) (roots []Root, reason string) {
	obj, reason := parseObject(result)
	if reason != "" {
		return nil, reason
	}
	list := member(obj, "roots")
	if !list.IsArray() {
		return nil, `"roots" must be an array`
	}
	roots = []Root{}
	list.ForEach(func(_, item gjson.Result) bool {
		at := "root " + strconv.Itoa(len(roots))
		if !item.IsObject() {
			reason = at + " must be an object"
			return false
		}
		uri, name := member(item, "uri"), member(item, "name")
		switch u, err := url.Parse(uri.Str); {
		case uri.Type != gjson.String, err != nil, u.Scheme != "file", u.Path == "":
			reason = at + `: "uri" must be a file:// URI`
		case name.Type != gjson.String && name.Type != gjson.Null:
			reason = at + `: "name" must be a string`
		default:
			roots = append(roots, Root{URI: uri.Str, Name: name.Str})
		}
		return reason == ""
	})
	if reason != "" {
		return nil, reason
	}
	return roots, ""
}
