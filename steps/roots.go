package steps

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

// RootsList asks which directories the client works in (MCP page "client/roots").
// They are information, not permission: check access yourself.
type RootsList struct {
	// ID correlates the answer with the question. It is unique within a saga, and has
	// 1 to 64 characters of A-Z a-z 0-9 _ - . : / .
	ID string

	nth bool
}

// Root is a directory or file that the client works in.
type Root struct {
	// URI locates it; its scheme is file.
	URI string `json:"uri"`
	// Name is its name for the user, or empty.
	Name string `json:"name,omitzero"`
}

// StepID implements [Question].
func (r *RootsList) StepID() string { return r.ID }

// Verify implements [Question].
func (r *RootsList) Verify() error { return checkID(r.ID, r.nth) }

// Step implements [Request].
func (r *RootsList) Step() (Step, error) {
	if err := r.Verify(); err != nil {
		return Step{}, err
	}
	return Step{ID: r.ID, Kind: Roots, Params: json.RawMessage("{}"), Needs: Features{Roots: true}}, nil
}

// Nth returns the n-th instance of the question, with the id "ID#n".
func (r *RootsList) Nth(n int) *RootsList { return &RootsList{ID: nthID(r.ID, n), nth: true} }

// Check implements [Question].
func (r *RootsList) Check(step Step, result json.RawMessage) error {
	_, err := parsed(step.ID, result, parseRoots)
	return err
}

// Answer returns the client's roots, perhaps none. The error is a *[StepError].
func (r *RootsList) Answer(a Answers) ([]Root, error) { return answered(a, r.ID, parseRoots) }

func parseRoots(result json.RawMessage) ([]Root, string) {
	var r struct {
		Roots []Root `json:"roots"`
	}
	if err := readParams(result, &r); err != nil {
		return nil, strings.TrimPrefix(err.Error(), "question: ")
	}
	if r.Roots == nil {
		return nil, "roots: must be an array"
	}
	for i, root := range r.Roots {
		if u, err := url.Parse(root.URI); err != nil || u.Scheme != "file" || u.Path == "" {
			return nil, fmt.Sprintf("roots[%d].uri: must be a file:// URI", i)
		}
	}
	return r.Roots, ""
}
