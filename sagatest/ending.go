package sagatest

import (
	"encoding/json"

	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
)

// Ending is how a saga ended, as the client learnt it, and what it did on the way.
type Ending struct {
	// Scenario says what went on, in a sweep; empty in a play.
	Scenario string
	// Result is a tool's result. Messages is a prompt's, Contents a resource's; if it was
	// too late to cancel them, Result says so.
	Result   *content.Result
	Messages *engine.Messages
	Contents []content.ResourceContents
	// Err is why the saga failed, as the operator's log has it; the client does
	// not learn it. It is also set if the last turn failed as a whole: after the first
	// turn, which nobody can take again, it is a *engine.UndoneError, and the saga has
	// ended.
	Err error
	// Cancelled: the client cancelled the saga, and it was not too late for that.
	Cancelled bool
	// Suspended: the client left, or the last turn failed; the saga has not ended.
	Suspended bool
	// Calls are what the engine called, in order, in all turns.
	Calls []Call
	// Progress and Logs are what the tool told the client meanwhile.
	Progress []engine.Progress
	Logs     []engine.Log
}

// Good reports whether the saga ended with a result that is no error.
func (e *Ending) Good() bool {
	if e.Suspended || e.Cancelled {
		return false
	}
	return e.Result != nil && !e.Result.IsError || e.Messages != nil || e.Contents != nil
}

// Text returns the texts of the result, one per line. What the engine says about
// undone effects is part of it.
func (e *Ending) Text() string {
	if e.Result == nil {
		return ""
	}
	return e.Result.Content.Text()
}

// Undo returns the report about undone effects, or nil if the result has none.
func (e *Ending) Undo() *engine.UndoReport { return undoReport(e.Result) }

func undoReport(r *content.Result) *engine.UndoReport {
	if r == nil {
		return nil
	}
	u, _ := r.Meta[engine.UndoMetaKey].(*engine.UndoReport)
	return u
}

// Effects lists the calls by name, in order: "hold-room", "undo hold-room". Tries
// are listed one by one.
func (e *Ending) Effects() []string {
	var names []string
	for _, c := range e.Calls {
		name := c.Effect
		if c.Undo {
			name = "undo " + name
		}
		names = append(names, name)
	}
	return names
}

// asJSON is all that the client learns at the end, for comparisons.
func (e *Ending) asJSON() string {
	switch {
	case e.Messages != nil:
		return compact(e.Messages)
	case e.Contents != nil:
		return compact(e.Contents)
	case e.Result != nil:
		return compact(e.Result)
	}
	return ""
}

// compact returns v as JSON, which has one form for one value.
func compact(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "cannot be encoded: " + err.Error()
	}
	return string(b)
}

// look writes down what a world looks like. A slice or map that is nil is as empty as
// one that had something: an author means the same by both.
func look(world any) string {
	b, err := jsonv2.Marshal(world, jsonv1.DefaultOptionsV1(), jsonv2.FormatNilSliceAsNull(false), jsonv2.FormatNilMapAsNull(false))
	if err != nil {
		return "cannot be encoded: " + err.Error()
	}
	return string(b)
}
