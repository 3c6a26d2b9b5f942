package sagatest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
)

// holds compares what a recorded saga holds with what the present code makes of it. An
// upgrade makes something else of it, so only records of the present revision count.
func (x *trial) holds(e *entry, tool *engine.Program, pos *engine.Position) *broken {
	if e.Revision != tool.Revision {
		return nil
	}
	now, err := tool.Decoded(pos, sagahooks.Rehearsal{})
	if err != nil {
		return &broken{what: fmt.Sprintf("it cannot go on: %v", err), advice: keepGoing}
	}
	if e.Holds == nil {
		e.Holds, e.stale = now, true
		return nil
	}
	was, err := exact(e.Holds)
	if err != nil {
		return &broken{what: fmt.Sprintf("what it held cannot be read: %v", err), advice: "restore the file"}
	}
	is, err := exact(now)
	if err != nil {
		return &broken{what: err.Error(), advice: keepGoing}
	}
	if at, ok := missing(was, is, ""); ok {
		return &broken{what: fmt.Sprintf("what it holds is not what it was: %s is lost or another; it was %s and is now %s", at, e.Holds, now),
			advice: "a field that was renamed, removed or given another meaning needs a new Revision, with an Upgrade"}
	}
	return nil
}

// exact decodes JSON and leaves numbers as they are: 64 bits have no room for all.
func exact(raw []byte) (v any, err error) {
	in := json.NewDecoder(bytes.NewReader(raw))
	in.UseNumber()
	return v, in.Decode(&v)
}

// missing returns where something of was is not, or not the same, in is. What is new
// there is no loss.
func missing(was, is any, at string) (string, bool) {
	switch was := was.(type) {
	case map[string]any:
		is, ok := is.(map[string]any)
		if !ok {
			return at, true
		}
		for name, v := range was {
			where := name
			if at != "" {
				where = at + "." + name
			}
			now, ok := is[name]
			if !ok {
				return where, true
			}
			if lost, ok := missing(v, now, where); ok {
				return lost, true
			}
		}
		return "", false
	case []any:
		is, ok := is.([]any)
		if !ok || len(is) != len(was) {
			return at, true
		}
		for i := range was {
			if lost, ok := missing(was[i], is[i], fmt.Sprintf("%s[%d]", at, i)); ok {
				return lost, true
			}
		}
		return "", false
	}
	return at, !reflect.DeepEqual(was, is)
}

// resulted compares how a recorded saga ended with how it ends now. Who updates means
// the difference.
func (x *trial) resulted(e *entry, now *Ending) *broken {
	result := x.sweep.c.same(now)
	if e.Result == result {
		return nil
	}
	if e.Result == "" || os.Getenv(updateEnv) != "" {
		e.Result, e.stale = result, true
		return nil
	}
	return &broken{what: "its result is another:" + differ(e.Result, result),
		advice: fmt.Sprintf("if the result is meant to be another, run the test with %s=1 in the environment; if it holds a time or a number that others count, set Case.Same; otherwise %s", updateEnv, keepGoing)}
}
