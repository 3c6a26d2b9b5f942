package sagatest

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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
	// Waits are the steps and events that it waits for, with what they said.
	Waits []waiting `json:"waits"`
	// Effects were begun before; for people who read the file.
	Effects []string `json:"effects,omitempty"`
	// Result is how the saga ended when this was recorded.
	Result string `json:"result"`
	// Answers are those that the client gave from there on.
	Answers []recordedAnswer `json:"answers"`
	// Position, State, Record and Secrets are what engine.Position.Restore takes.
	Position []byte `json:"position"`
	State    []byte `json:"state,omitempty"`
	Record   []byte `json:"record,omitempty"`
	Secrets  []byte `json:"secrets,omitempty"`

	path string
	// updated: it is another one than its file has.
	updated bool
}

type waiting struct {
	Step string `json:"step"`
	Says string `json:"says,omitempty"`
	// Event: no client is asked.
	Event bool `json:"event,omitempty"`
}

// recordedAnswer is of a client, or to an event, whose id is then the Step.
type recordedAnswer struct {
	Step   string             `json:"step"`
	Result json.RawMessage    `json:"result,omitempty"`
	Error  *steps.ClientError `json:"error,omitempty"`
	// Later is how long it took, if it is to an event.
	Later time.Duration `json:"later,omitempty"`
}

// record adds to all entries so far the answers that a request brings for the first time, and the events that happen before
// it. If the saga is suspended then, it makes an entry of that.
func (x *trial) record(q request, rep reply) {
	var answers []recordedAnswer
	for _, a := range q.answers {
		if !x.hasSent(a) {
			answers = append(answers, recordedAnswer{Step: a.StepID, Result: a.Result, Error: a.Error})
		}
	}
	for _, h := range q.events {
		answers = append(answers, recordedAnswer{Step: h.Question, Result: h.result, Later: h.later})
	}
	for _, e := range x.sweep.entries {
		e.Answers = append(e.Answers, answers...)
	}
	p := rep.Position
	if p == nil {
		return
	}
	parts := p.Encode()
	e := &entry{
		Tool: p.Tool, Revision: p.Revision, Saga: saga.ID(p.ID).String(), Turn: p.Turn, Deadline: p.Deadline, At: x.rig.clock.now(),
		Position: parts.Body, State: parts.State, Record: parts.Effects, Secrets: parts.Secrets,
	}
	for _, s := range rep.Steps {
		e.Waits = append(e.Waits, waiting{Step: s.ID, Says: asked(s).Message()})
	}
	for _, a := range x.sweep.tool.Awaited(p) {
		e.Waits = append(e.Waits, waiting{a.Question, a.Message, true})
	}
	for _, c := range x.rig.world.taken() {
		e.Effects = append(e.Effects, c.Effect)
	}
	x.sweep.entries = append(x.sweep.entries, e)
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
	return name[:min(len(name), 100)] + ".json"
}

func (e *entry) write() error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(e); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(e.path), 0o777); err != nil {
		return err
	}
	return os.WriteFile(e.path, b.Bytes(), 0o666)
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
	return Answer{later: a.Later, answer: steps.Answer{Result: a.Result, Error: a.Error}}, true
}
