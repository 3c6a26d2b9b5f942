package sagatest

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// entry is a recorded suspension.
type entry struct {
	// Tool, Revision, Saga, Turn and Deadline are the position's.
	Tool     string    `json:"tool"`
	Revision uint32    `json:"revision"`
	Saga     string    `json:"saga"`
	Turn     uint32    `json:"turn"`
	Deadline time.Time `json:"deadline,omitzero"`
	// At is when the saga was suspended.
	At time.Time `json:"at"`
	// Waits are the steps that it waits for, with what they said.
	Waits []waiting `json:"waits"`
	// Effects were begun before; for people who read the file.
	Effects []string `json:"effects,omitempty"`
	// Holds is what state and effects decoded to, and Result how the saga ended, when
	// this was recorded. They are missing in records from before there were these.
	Holds  json.RawMessage `json:"holds,omitempty"`
	Result string          `json:"result,omitempty"`
	// Answers are those that the client gave from there on.
	Answers []recordedAnswer `json:"answers"`
	// Position, State, Record and Secrets are what engine.Position.Restore takes.
	Position []byte `json:"position"`
	State    []byte `json:"state,omitempty"`
	Record   []byte `json:"record,omitempty"`
	Secrets  []byte `json:"secrets,omitempty"`

	path string
	// stale: the record lacks what is now recorded, or an update has changed it.
	stale bool
}

type waiting struct {
	Step string `json:"step"`
	Says string `json:"says,omitempty"`
}

type recordedAnswer struct {
	Step   string             `json:"step"`
	Result json.RawMessage    `json:"result,omitempty"`
	Error  *steps.ClientError `json:"error,omitempty"`
}

// suspended makes an entry of a response, while a script is played.
func (x *trial) suspended(rep reply) {
	p := rep.Position
	parts := p.Encode()
	e := &entry{
		Tool: p.Tool, Revision: p.Revision, Saga: saga.ID(p.ID).String(), Turn: p.Turn, Deadline: p.Deadline, At: x.client.rig.clock.now(),
		Position: parts.Body, State: parts.State, Record: parts.Effects, Secrets: parts.Secrets,
	}
	for _, s := range rep.Steps {
		e.Waits = append(e.Waits, waiting{s.ID, asked(s).Message()})
	}
	calls, _ := x.client.rig.watch.taken()
	for _, c := range calls {
		e.Effects = append(e.Effects, c.Effect)
	}
	if holds, err := x.sweep.tool.Decoded(p); err == nil { // or the next turn fails
		e.Holds = holds
	}
	x.sweep.entries = append(x.sweep.entries, e)
}

// answered adds the answers that a request brings for the first time to all entries
// so far.
func (x *trial) answered(q request) {
	for _, a := range q.answers {
		if x.client.hasSent(a) {
			continue
		}
		for _, e := range x.sweep.entries {
			e.Answers = append(e.Answers, recordedAnswer{a.StepID, a.Result, a.Error})
		}
	}
}

func (e *entry) waits() string {
	var ids []string
	for _, w := range e.Waits {
		ids = append(ids, fmt.Sprintf("%q", w.Step))
	}
	return strings.Join(ids, ", ")
}

var notInFiles = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

func (e *entry) name() string {
	name := fmt.Sprintf("%02d", e.Turn)
	for _, w := range e.Waits {
		name += "-" + notInFiles.ReplaceAllString(w.Step, "_")
	}
	return short(name, 100) + ".json"
}

func (e *entry) write(path string) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(e); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o666)
}

// readJournal returns the entries of all revisions of a tool.
func readJournal(dir string) (list []*entry, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*", "*.json"))
	for _, path := range paths {
		e := &entry{path: path}
		b, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(b, e)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		list = append(list, e)
	}
	return list, err
}

func (e *entry) position() (*engine.Position, error) {
	id, err := hex.DecodeString(e.Saga)
	if err != nil || len(id) != len(saga.ID{}) {
		return nil, fmt.Errorf("%s: %q is no saga's id", e.path, e.Saga)
	}
	p := &engine.Position{ID: saga.ID(id), Turn: e.Turn, Tool: e.Tool, Revision: e.Revision, Deadline: e.Deadline}
	if err := p.Restore(engine.Encoded{Body: e.Position, State: e.State, Effects: e.Record, Secrets: e.Secrets}); err != nil {
		return nil, fmt.Errorf("%s: %w", e.path, err)
	}
	return p, nil
}

// answer returns what the client answered when this was recorded: to the same step, or else to the same question.
func (e *entry) answer(to Asked) (Answer, bool) {
	i := slices.IndexFunc(e.Answers, func(a recordedAnswer) bool { return a.Step == to.ID })
	if i < 0 {
		i = slices.IndexFunc(e.Answers, func(a recordedAnswer) bool { return asked(steps.Step{ID: a.Step}).Question == to.Question })
	}
	if i < 0 {
		return Answer{}, false
	}
	a := e.Answers[i]
	return Answer{reply: func(Asked) (steps.Answer, error) { return steps.Answer{Result: a.Result, Error: a.Error}, nil }}, true
}

// holds compares what a recorded saga holds with what the present code makes of it. An
// upgrade makes something else of it, so only records of the present revision count.
func (x *trial) holds(e *entry, tool *engine.Program, pos *engine.Position) *broken {
	if e.Revision != tool.Revision {
		return nil
	}
	now, err := tool.Decoded(pos)
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

// resulted compares how a recorded saga ended with how it ends now. An author who updates means
// the difference.
func (x *trial) resulted(e *entry, now *Played) *broken {
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
