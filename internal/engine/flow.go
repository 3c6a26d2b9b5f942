package engine

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/schema"
	"github.com/mcpsaga/mcpsaga/steps"
)

// FlowStep is where every saga of a flow continues.
const FlowStep = "flow"

// Replay is one run of a flow: what was answered or performed before is found in its
// record, and what is new is added.
type Replay struct {
	turn  *Turn
	rec   record
	asked *Asked
	// taken counts the times and ids of this run, left those until it suspended.
	taken, left counts
}

// RunFlow runs a flow again from its beginning, with the record of the turns before.
// What run returns besides an error is the saga's result if it did not ask.
func (tc *Turn) RunFlow(recorded []byte, run func(*Replay) (any, error)) (Ended, error) {
	fail := func(err error) (Ended, error) { return Ended{}, &StepFailure{tc.program.Name, tc.Step, err} }
	r := &Replay{turn: tc}
	tc.mu.Lock()
	tc.replay = r
	tc.log.used = nil // a flow comes to its old effects again
	if tc.saves != nil {
		tc.saves.at.next = FlowStep
	}
	tc.mu.Unlock()
	if err := r.restore(recorded); err != nil {
		return Ended{}, &PositionError{tc.program.Name, err}
	}
	var out any
	err := Protect(func() (err error) {
		out, err = run(r)
		return err
	})
	switch tc.latched.(type) {
	case *stoppedError, *HaltedError, *DivergedError:
		return fail(tc.latched) // whatever the flow made of it
	}
	switch {
	case errors.As(err, new(*PanicError)):
		return fail(err) // also one after a question that was swallowed
	case r.asked != nil && !errors.Is(err, tc.latched):
		_, did, doing, _ := r.asked.wording()
		return fail(&SwallowedError{Did: did, Doing: doing, Returned: err})
	case r.asked != nil:
		if r.checkReached("", "") != nil {
			what, _, _, _ := r.asked.wording()
			return fail(r.checkReached(what, ""))
		}
		r.rec.counts = r.left
		return Ended{Asked: r.asked, Kept: r.rec.encode(), Reworded: r.rec.reworded()}, nil
	case err != nil:
		return fail(err)
	}
	if err := r.checkReached("the end of the flow", ""); err != nil {
		return fail(err)
	}
	result, err := flowResult(out)
	if err != nil {
		return fail(err)
	}
	return Ended{Outcome: Outcome{Result: result}}, nil
}

func flowResult(out any) (*content.Result, error) {
	switch out := out.(type) {
	case string:
		return &content.Result{Content: content.Blocks{content.Text{Text: out}}}, nil
	case *content.Result:
		if out == nil {
			return nil, errors.New("the result is nil")
		}
		return out, nil
	}
	if t := reflect.TypeOf(out); t != nil && t.Kind() == reflect.Struct && t.NumField() == 0 {
		return &content.Result{}, nil
	}
	raw, err := jsonv2.Marshal(out, schema.ResultJSONOptions)
	if err != nil {
		return nil, fmt.Errorf("the result cannot be encoded: %w", err)
	}
	return StructuredResult(raw), nil
}

// StructuredResult is a result of JSON. The same JSON is given as text for clients that
// do not read structured results (MCP, server/tools, structured content).
func StructuredResult(raw []byte) *content.Result {
	return &content.Result{
		Content:           content.Blocks{content.Text{Text: string(raw)}},
		StructuredContent: json.RawMessage(raw),
	}
}

// counts are how many times (those of sleeps among them), ids (random sources among them)
// and parts of the result a run has taken, or yielded.
type counts struct{ times, ids, yields int }

// suspended is the error with which a flow ends that has asked, yielded or gone to sleep.
type suspended struct{ asked *Asked }

// wording says of what has ended a turn: what it is, that the flow did it, the verb, and that the saga is at it. It
// is written out only where code reads an error.
func (a *Asked) wording() (what, did, doing, now string) {
	switch {
	case len(a.Steps) > 0:
		names := make([]string, len(a.Steps))
		for i := range a.Steps {
			names[i] = strconv.Quote(a.Steps[i].ID)
		}
		list := strings.Join(names, ", ")
		return "question " + list, "asked " + list, "asking", "waits for the answer to " + list
	case !a.Wake.IsZero():
		return "a sleep", "went to sleep", "sleeping", "sleeps until " + a.Wake.UTC().Format(time.RFC3339Nano)
	}
	return "a part of the result", "yielded a part of the result", "yielding", "has yielded a part of its result"
}

func (e *suspended) Error() string {
	_, _, _, now := e.asked.wording()
	return fmt.Sprintf("the saga %s; the flow must return this error", now)
}

// enter is [Turn.Enter] for what a run does until it has suspended or diverged.
func (r *Replay) enter(call string) error {
	err := r.turn.Enter(call, "")
	if err == nil && r.turn.latched != nil {
		r.turn.Leave()
		return r.turn.latched
	}
	return err
}

// Ask asks several questions in one round. It returns nil when all are answered; an
// error that the flow must return may mean that the saga has to wait.
func (r *Replay) Ask(questions ...steps.Request) error {
	if err := r.enter("Ask"); err != nil {
		return err
	}
	defer r.turn.Leave()
	wanted, err := r.turn.Resolve(questions, r.answered)
	if err != nil {
		return err
	}
	missing := wanted[:0] // wanted is ours
	for _, s := range wanted {
		r.turn.mu.Lock() // answers may be read in goroutines
		found, err := r.rec.take(&s)
		r.turn.mu.Unlock()
		if err != nil {
			return r.turn.diverges(err)
		}
		if !found {
			missing = append(missing, s)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return r.suspend(&Asked{Next: FlowStep, Steps: missing})
}

// suspend ends the turn.
func (r *Replay) suspend(a *Asked) error {
	r.asked, r.left = a, r.taken
	r.turn.latched = &suspended{a}
	return r.turn.latched
}

// Yield ends the turn with a part of the result. A run that comes to it again continues.
func (r *Replay) Yield(blocks content.Blocks) error {
	if err := r.enter("Yield"); err != nil {
		return err
	}
	defer r.turn.Leave()
	if err := r.turn.program.checkYield(blocks); err != nil {
		return err
	}
	if r.taken.yields < r.rec.delivered {
		r.taken.yields++
		return nil
	}
	if err := r.admit("a call of", "Yield"); err != nil {
		return err
	}
	r.taken.yields++
	return r.suspend(&Asked{Next: FlowStep, Yielded: blocks})
}

// Sleep ends the turn until d has passed since the flow has come to it, Until until at. A
// run that comes to it later continues.
func (r *Replay) Sleep(d time.Duration) error {
	now := r.turn.Now
	if d > 0 {
		now = r.turn.present()
	}
	return r.sleep("Sleep", now, func(now time.Time) time.Time { return now.Add(d) })
}

// Until is as Sleep.
func (r *Replay) Until(at time.Time) error {
	return r.sleep("Until", r.turn.Now, func(time.Time) time.Time { return at })
}

func (r *Replay) sleep(call string, now time.Time, until func(now time.Time) time.Time) error {
	if err := r.enter(call); err != nil {
		return err
	}
	defer r.turn.Leave()
	at := until(r.time(now))
	if err := cmp.Or(r.turn.latched, checkSleep(call, at)); err != nil { // latched if it is new, and comes before something that is not
		return err
	}
	switch {
	case !r.turn.Now.Before(at):
		return nil
	case r.checkReached("", "") != nil:
		// Something is recorded that came after it, so it is over whatever the clock of this
		// machine says.
		return nil
	}
	return r.suspend(&Asked{Next: FlowStep, Wake: at.Round(0).UTC()})
}

// answered returns the one of a step and its alternatives that was asked before and
// is answered: it is not asked again, whatever the present client can do.
func (r *Replay) answered(s *steps.Step) *steps.Step {
	var found *steps.Step
	first := len(r.rec.entries)
	for ; s != nil; s = s.Otherwise {
		if i := r.rec.next(s); i >= 0 && i < first {
			found, first = s, i
		}
	}
	return found
}

// Now returns the time, the same whenever the flow runs again.
func (r *Replay) Now() time.Time {
	if r.turn.Enter("Now", "") != nil {
		return r.turn.Now
	}
	defer r.turn.Leave()
	return r.time(r.turn.Now)
}

// time is present, or what was so in an earlier run.
func (r *Replay) time(present time.Time) time.Time {
	now := present.UnixNano()
	switch {
	case r.taken.times < len(r.rec.times):
		now = r.rec.times[r.taken.times]
	case r.admit("a call of", "Now") == nil:
		r.rec.times = append(r.rec.times, now)
	}
	r.taken.times++
	return time.Unix(0, now).UTC()
}

// NewID returns an id that no other call returns: 43 characters of A-Z a-z 0-9 -
// _, the same whenever the flow runs again.
func (r *Replay) NewID() string {
	n, err := r.nextID("NewID")
	if err != nil {
		return "" // and the turn fails
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "mcpsaga id 1\x00%s%d", r.turn.ID[:], n))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// nextID numbers the calls of NewID and Rand.
func (r *Replay) nextID(call string) (int, error) {
	if err := r.turn.Enter(call, ""); err != nil {
		return 0, err
	}
	defer r.turn.Leave()
	if r.rec.counted && r.taken.ids >= r.rec.counts.ids {
		_ = r.admit("a call of", call) // later operations return the error
	}
	r.taken.ids++
	return r.taken.ids, nil
}

// Rand returns a source of random numbers that gives the same ones whenever the
// flow runs again. Each call returns one that begins anew; they are not for
// secrets.
func (r *Replay) Rand() *rand.Rand {
	n, _ := r.nextID("Rand") // 0 if the turn fails
	return rand.New(rand.NewChaCha8(sha256.Sum256(fmt.Appendf(nil, "mcpsaga random 1\x00%s%d", r.turn.ID[:], n))))
}

// admit is asked before a flow does something new. A run that replays a record of the
// same revision does nothing new before it has come to all that is recorded: what it
// did then would come between things that have happened. Once a run has suspended or
// diverged it does nothing new either.
func (r *Replay) admit(what, name string) error {
	if err := r.turn.latched; err != nil {
		return err
	}
	return r.turn.diverges(r.checkReached(what, name))
}

// diverges ends the turn with a divergence, or does nothing without one. Code that does not return the error ends all
// the same.
func (tc *Turn) diverges(err error) error {
	if err == nil {
		return nil
	}
	if d, ok := err.(*DivergedError); ok && tc.replay == nil {
		d.Step = tc.Step
	}
	tc.latched = err
	return err
}

// checkReached reports a divergence if something that was recorded was not come to
// again. What older revisions recorded may be left over. What came instead is new if it has a name.
func (r *Replay) checkReached(came, name string) error {
	diverged := func(recorded, after string) error {
		if name != "" {
			came = fmt.Sprintf("%s %q, which is new", came, name)
		}
		return &DivergedError{Recorded: recorded, Came: after + came}
	}
	if i := slices.IndexFunc(r.rec.entries, func(e recordEntry) bool { return !e.reached && !e.old }); i >= 0 {
		return diverged(fmt.Sprintf("question %q", r.rec.entries[i].id), "")
	}
	if i := slices.IndexFunc(r.turn.log.records, func(e *EffectRecord) bool { return !e.reached && !e.Old }); i >= 0 {
		return diverged(fmt.Sprintf("effect %q", r.turn.log.records[i].name), "")
	}
	then, now := r.rec.counts, r.taken
	for _, c := range []struct {
		then, now int
		calls     string
	}{{then.times, now.times, "Now, Sleep and Until"}, {then.yields, now.yields, "Yield"}, {then.ids, now.ids, "NewID and Rand"}} {
		if c.now < c.then {
			return diverged(fmt.Sprintf("%d calls of %s", c.then, c.calls), fmt.Sprintf("after %d of them ", c.now))
		}
	}
	return nil
}
