package turns

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/longtests"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// schedule is what happens in a run, and when: clients that call, resume, repeat, fork, cancel
// and go away; servers that die, stand still and have clocks of their own; a store and effects
// that fail. The rest is worked out from Seed, so the same schedule runs in the same way, but for
// what happens at the very same moment: what was found once may have to be played again and again.
type schedule struct {
	Seed  uint64
	Skews []int // of the servers, in seconds
	// Slow: everything may take a second or two. Long: effects may take longer than a lease.
	Slow, Long bool
	Events     []event
}

// event is one of eventKinds, after a pause. What else the numbers mean depends on it.
type event struct {
	Kind    string
	Wait    time.Duration
	A, B, C int
}

var eventKinds = []string{
	"call", "call", "call", "resume", "resume", "resume", "resume", "resume", "resume", "resume", "repeat", "repeat",
	"cancel", "kill", "kill", "pause", "pause", "freeze", "outage", "unwilling", "flaky", "refuse", "forget", "late", "undo now",
}

var eventWaits = []time.Duration{
	0, time.Millisecond, 3 * time.Millisecond, 8 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, time.Second, 4 * time.Second,
	9 * time.Second, 11 * time.Second, time.Minute, modelTTL, modelTTL + modelSkew, 10 * time.Minute,
}

func schedules() *rapid.Generator[schedule] {
	number := rapid.IntRange(0, 1<<16)
	one := rapid.Custom(func(t *rapid.T) event {
		return event{
			rapid.SampledFrom(eventKinds).Draw(t, "kind"), rapid.SampledFrom(eventWaits).Draw(t, "wait"),
			number.Draw(t, "a"), number.Draw(t, "b"), number.Draw(t, "c"),
		}
	})
	return rapid.Custom(func(t *rapid.T) schedule {
		return schedule{
			Seed:  rapid.Uint64().Draw(t, "seed"),
			Skews: rapid.SliceOfN(rapid.SampledFrom([]int{0, 0, 2, -2, 14, -14}), 2, 3).Draw(t, "skews"),
			Slow:  rapid.Bool().Draw(t, "slow"), Long: rapid.Bool().Draw(t, "long"),
			Events: rapid.SliceOfN(one, 3, 30).Draw(t, "events"),
		}
	})
}

// The contract, whatever happens: a turn is recorded once, and everybody who asks for it is
// told the same; what is spent is refused; an end is final; what a saga did is there as a whole
// if it ended well and gone otherwise, once its time is over; nothing is forgotten before that,
// and everything after. SAGA_NIGHTLY=1 plays a hundred thousand schedules.
func TestModel(t *testing.T) {
	rounds := 2
	if longtests.Wanted() {
		rounds = 4
	}
	if os.Getenv("SAGA_NIGHTLY") == "1" && !raceEnabled {
		rounds = 1000
	}
	for range rounds {
		rapid.Check(t, func(rt *rapid.T) {
			if wrong := playSchedule(t, schedules().Draw(rt, "schedule"), nil); len(wrong) > 0 {
				rt.Fatalf("%s\n%s", wrong[0], strings.Join(wrong, "\n"))
			}
		})
	}
}

// played is a run of a schedule.
type played struct {
	schedule
	seed       uint64
	slow, long bool
	store      ledger.Store
	behind     *behind
	servers    []*process
	started    int

	workers, clients, late sync.WaitGroup

	mu        sync.Mutex
	out       time.Time // until then the store is out of reach now and then
	calm      bool      // nothing was disturbed
	customers []*customer
	keys      map[string]bool // of the records written
	wrong     []string
	begun     time.Time
	trace     []string // what happened, to be read when something is wrong
}

// notes writes down what happens. The lock is held.
func (x *played) notes(format string, args ...any) {
	x.trace = append(x.trace, fmt.Sprintf("%14v ", time.Since(x.begun))+fmt.Sprintf(format, args...))
}

func (x *played) note(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.notes(format, args...)
}

func (x *played) breaks(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.breaksLocked(format, args...)
}

func (x *played) breaksLocked(format string, args ...any) {
	x.notes("WRONG "+format, args...)
	if len(x.wrong) < 5 {
		x.wrong = append(x.wrong, fmt.Sprintf(format, args...))
	}
}

func (x *played) disturbed() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.calm = false
}

func (x *played) wrote(key string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.keys[key] = true
}

// outage reports whether an operation of the store fails.
func (x *played) outage() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return time.Now().Before(x.out)
}

// customer is a saga as its client knows it.
type customer struct {
	name   string
	args   modelArgs
	policy Policy
	key    string
	known  []string          // tokens, in the order of learning
	waits  map[string]string // what a token is asked
	// late is when some clock may say that a token came too late. Whoever brings it then is told
	// how the saga ended, whatever the answers.
	late map[string]time.Time
	// asked are the requests sent, by token ("" is the call), and told what came of them.
	asked map[string][]ask
	told  map[string]outcomeOf
	// went: it was resumed, or cancelled or undone by hand, so it may be elsewhere. forced: by
	// hand.
	went, forced bool
	end          string // "well", "badly", or "at what is final": badly, but there is no way back
	text, report string // of the end that is well, and of one that came too late
	// outstanding are the effects that could not be undone, as the client was told last.
	outstanding []string
}

type ask struct {
	answers []steps.Answer
	digest  string
}

type outcomeOf struct{ digest, text string }

// playSchedule runs a schedule, on a store that breaks may break, and returns what was wrong.
func playSchedule(t *testing.T, s schedule, breaks func(ledger.Store) ledger.Store) (wrong []string) {
	modelShared()
	synctest.Test(t, func(t *testing.T) {
		x := &played{schedule: s, seed: s.Seed, slow: s.Slow, long: s.Long, calm: true, keys: map[string]bool{}, begun: time.Now()}
		memory := ledger.NewMemory(ledger.MemoryOptions{})
		defer memory.Close()
		if x.store = memory; breaks != nil {
			x.store = breaks(memory)
		}
		x.behind = &behind{done: map[saga.Key]string{}, undone: map[saga.Key]bool{}, calls: map[string]int{}}
		for i, skew := range s.Skews {
			x.servers = append(x.servers, x.start(i, time.Duration(skew)*time.Second))
		}
		for _, e := range s.Events {
			time.Sleep(e.Wait + 1)
			x.happens(e)
		}
		x.heal()
		x.finish()
		x.settle(memory)
		if wrong = x.wrong; len(wrong) > 0 {
			wrong = append(wrong, x.trace...)
		}
	})
	return wrong
}

// happens is an event.
func (x *played) happens(e event) {
	p := x.servers[e.A%len(x.servers)]
	duration := []time.Duration{time.Millisecond, 4 * time.Second, 11 * time.Second, 25 * time.Second, time.Minute, 4 * time.Minute}[e.B%6]
	soon := 1 + e.C%12
	if slices.Contains([]string{"kill", "pause", "freeze", "outage", "unwilling", "flaky", "refuse"}, e.Kind) {
		x.disturbed()
	}
	x.note("%s %d, for %v, after %d", e.Kind, p.slot, duration, soon)
	switch e.Kind {
	case "call":
		if n := len(x.customers); e.B%4 == 0 && n > 0 && x.customers[n-1].key != "" {
			x.call(p, x.customers[n-1], e)
			return
		}
		c := &customer{name: fmt.Sprint(len(x.customers)), policy: Carried, waits: map[string]string{}, late: map[string]time.Time{}, asked: map[string][]ask{}, told: map[string]outcomeOf{}}
		c.args = modelArgs{c.name, e.B%3 == 0, payments[e.C%3]}
		if e.C%2 == 0 {
			c.key = "key " + c.name
		}
		if e.B%5 == 0 {
			c.policy = Resent
		}
		x.customers = append(x.customers, c)
		x.call(p, c, e)
	case "kill": // and another one takes its place
		p.mu.Lock()
		p.dieAt = p.gates + soon
		p.mu.Unlock()
		if e.B%2 == 0 {
			x.servers[p.slot] = x.start(p.slot, p.skew)
		}
	case "pause", "freeze":
		p.mu.Lock()
		p.pauseAt, p.pause, p.freeze = p.gates+soon, duration, e.Kind == "freeze"
		p.mu.Unlock()
	case "outage":
		x.mu.Lock()
		x.out = time.Now().Add(duration)
		x.mu.Unlock()
	case "unwilling", "flaky":
		x.behind.mu.Lock()
		defer x.behind.mu.Unlock()
		if e.Kind == "flaky" {
			x.behind.flaky = time.Now().Add(duration)
		} else {
			x.behind.unwilling = time.Now().Add(duration)
		}
	case "refuse":
		x.behind.mu.Lock()
		defer x.behind.mu.Unlock()
		if x.behind.refuses, x.behind.fatal = 1+e.B%2, 0; e.B%3 > 0 {
			x.behind.fatal = soon
		}
		x.behind.unreached = e.C % 2
	case "late":
		x.comesLate(e)
	case "forget":
		_, _ = x.store.Forget(context.Background(), 1000)
	case "undo now":
		x.undoNow(e)
	default:
		x.goesOn(p, e)
	}
}

// goesOn is an event of a saga that has begun.
func (x *played) goesOn(p *process, e event) {
	x.mu.Lock()
	var list []*customer
	for _, c := range x.customers {
		if len(c.known) > 0 {
			list = append(list, c)
		}
	}
	if len(list) == 0 {
		x.mu.Unlock()
		return
	}
	c := list[len(list)-1-e.B%len(list)%3%len(list)]
	token := c.known[len(c.known)-1]
	if e.C%5 == 0 {
		token = c.known[e.C/5%len(c.known)]
	}
	answers := c.answers(token, e.C/7)
	if sent := c.asked[token]; (e.Kind == "repeat" || e.C%6 == 0) && len(sent) > 0 {
		answers = sent[e.B%len(sent)].answers
	}
	x.mu.Unlock()
	if e.Kind == "cancel" {
		if e.C%3 > 0 {
			answers = nil
		}
		x.cancel(p, c, token, answers, e)
		return
	}
	for i := range 1 + e.B%7/5 { // some at once
		x.resume(x.servers[(e.A+i)%len(x.servers)], c, token, answers, e)
	}
}

// answers to what a token is asked: yes mostly.
func (c *customer) answers(token string, n int) []steps.Answer {
	asked := c.waits[token]
	switch n % 8 {
	case 0:
		return []steps.Answer{say(asked, false)}
	case 1:
		return []steps.Answer{{StepID: asked, Result: []byte(`{"action":"decline"}`)}}
	case 2: // which is none
		return []steps.Answer{{StepID: asked, Result: []byte(`{}`)}}
	}
	return []steps.Answer{say(asked, true)}
}

// request is what every message of a client says.
func (c *customer) request(p *process, token string, answers []steps.Answer) Request {
	q := Request{Policy: c.policy, Principal: "ann", Client: steps.AllFeatures(), Token: token, Answers: answers}
	if token == "" || c.policy.Resent {
		q.Arguments, _ = json.Marshal(c.args)
	}
	if token == "" {
		q.Program, q.IdempotencyKey = p.Registry.Find(engine.KindTool, "model"), c.key
	}
	return q
}

// waiting is how long a client waits for its response.
func (x *played) waiting(p *process, e event) (context.Context, context.CancelFunc) {
	ctx := context.WithValue(context.Background(), processKey{}, p)
	if e.C%11 != 0 {
		return context.WithCancel(ctx)
	}
	x.disturbed() // a turn that is given up may be taken again
	return context.WithTimeout(ctx, []time.Duration{3 * time.Millisecond, 20 * time.Millisecond, 3 * time.Second}[e.A%3])
}

func (x *played) call(p *process, c *customer, e event) {
	x.mu.Lock()
	c.asked[""] = append(c.asked[""], ask{})
	x.notes("saga %s at %d: call %+v key %q %s", c.name, p.slot, c.args, c.key, c.policy.Purpose)
	x.mu.Unlock()
	ctx, cancel := x.waiting(p, e)
	x.clients.Go(func() {
		defer cancel()
		end, err := p.Call(ctx, c.request(p, "", nil))
		x.learns(ctx, p, c, "", "", end, err)
	})
}

func (x *played) resume(p *process, c *customer, token string, answers []steps.Answer, e event) {
	digest, known := x.sends(c, token, answers), x.knowsEnd(p, c, token)
	ctx, cancel := x.waiting(p, e)
	x.note("saga %s at %d: resume …%s %s", c.name, p.slot, tail(token), answers)
	x.clients.Go(func() {
		defer cancel()
		end, err := p.Resume(ctx, c.request(p, token, answers))
		if known && ctx.Err() == nil {
			x.mustTell(p, c, token, err)
		}
		x.learns(ctx, p, c, token, digest, end, err)
	})
}

// sends notes that a request is sent.
func (x *played) sends(c *customer, token string, answers []steps.Answer) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	c.went = true
	digest := string(digestAnswers([]string{"a", "b"}, answers))
	if !slices.ContainsFunc(c.asked[token], func(a ask) bool { return a.digest == digest }) {
		c.asked[token] = append(c.asked[token], ask{answers, digest})
	}
	return digest
}

func (x *played) cancel(p *process, c *customer, token string, answers []steps.Answer, e event) {
	x.mu.Lock()
	c.went, c.forced = true, true
	x.notes("saga %s at %d: cancel …%s %s", c.name, p.slot, tail(token), answers)
	x.mu.Unlock()
	known := x.knowsEnd(p, c, token)
	ctx, cancel := x.waiting(p, e)
	x.clients.Go(func() {
		defer cancel()
		end, err := p.Cancel(ctx, c.request(p, token, answers), Resent, Carried)
		if known && ctx.Err() == nil {
			x.mustTell(p, c, token, err)
		}
		if !x.answered(ctx, p, c, err) {
			return
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		x.notes("saga %s: cancelled: %s", c.name, end.Result.Content.Text())
		if text := end.Result.Content.Text(); strings.Contains(text, " final.") && !strings.Contains(text, "The saga has ended") {
			return // it is too late, and the saga is as it was
		}
		x.ends(c, end)
	})
}

func tail(token string) string { return token[max(0, len(token)-6):] }

// undoNow is an operator's.
func (x *played) undoNow(e event) {
	registry, sealer := modelShared()
	_ = registry
	book := records.New(x.store, sealer.Keyset, "here", 0)
	var list []records.Waiting
	for w, err := range book.List(context.Background()) {
		if err != nil {
			return
		}
		list = append(list, w)
	}
	if len(list) == 0 {
		return
	}
	x.mu.Lock()
	// A claim that is being renewed at this moment is renewed only a beat later. Where all takes
	// long that may be too late, and then somebody takes the turn again.
	x.calm = x.calm && !x.slow
	for _, c := range x.customers { // whose it is cannot be told
		c.went, c.forced = true, true
	}
	x.mu.Unlock()
	_ = book.UndoNow(context.Background(), list[e.B%len(list)].Key)
}

// answered reports whether a request had a response that somebody reads, and looks at the error
// if that is one.
func (x *played) answered(ctx context.Context, p *process, c *customer, err error) bool {
	if p.dead() || ctx.Err() != nil {
		return false
	}
	if err == nil {
		return true
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.notes("saga %s at %d: failed: %v", c.name, p.slot, err)
	if !x.calm && (errors.Is(err, errTooSlow) || strings.Contains(err.Error(), `effect "`)) {
		return false // it took too long, and is told what its effects say of that
	}
	allowed := []string{string(tokens.ReasonSpent), string(tokens.ReasonExpired), "answer"}
	if !x.calm {
		allowed = append(allowed, "ledger", "timeout", "client_gone", "unsettled", "under_way", "not_yet_valid")
	}
	if why := classify(err); !slices.Contains(allowed, why.reason) {
		x.breaksLocked("saga %s: a request failed (%s): %v", c.name, why.reason, err)
	}
	return false
}

// learns compares a response with what is known.
func (x *played) learns(ctx context.Context, p *process, c *customer, token, digest string, end End, err error) {
	if !x.answered(ctx, p, c, err) {
		return
	}
	raw, err := encodeResponse(&end, nil)
	must(err)
	text := end.Token + string(raw)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.notes("saga %s at %d: …%s was answered …%s %s", c.name, p.slot, tail(token), tail(end.Token), raw)
	switch first, before := c.told[token]; {
	case end.Gone != "":
		if c.report != "" && c.report != text {
			x.breaksLocked("saga %s is reported undone in two ways: %s and %s", c.name, c.report, text)
		}
		c.report = text
	case before && token == "" && c.went: // it leads to where the saga is
	case before && first.digest != digest && !(first.text == text && time.Now().After(c.late[token])):
		x.breaksLocked("saga %s is forked: two requests with one token got %s and %s", c.name, first.text, text)
	case before && first.text != text:
		x.breaksLocked("saga %s: a turn has two responses: %s and %s", c.name, first.text, text)
	case !before:
		c.told[token] = outcomeOf{digest, text}
	}
	if end.Token != "" && !slices.Contains(c.known, end.Token) {
		c.known = append(c.known, end.Token)
		c.waits[end.Token] = end.Steps[0].ID
		c.late[end.Token] = time.Now().Add(modelTTL - 15*time.Second)
	}
	x.ends(c, end)
}

// ends notes how a saga ended, which it does once. The lock is held.
func (x *played) ends(c *customer, end End) {
	if end.Token != "" {
		return
	}
	text := end.Result.Content.Text()
	how := "badly"
	if i := strings.Index(text, "booked:"); i >= 0 {
		how, text = "well", text[i:]
	} else if strings.Contains(text, " final.") {
		how = "at what is final"
	}
	if c.end != "" && c.end != how || how == "well" && c.text != "" && c.text != text {
		x.breaksLocked("saga %s ended twice: %s (%s), and now %s: %s", c.name, c.end, c.text, how, text)
	}
	if c.end = how; how == "well" {
		c.text = text
	}
	c.outstanding = nil
	if report := UndoReport(end.Result); report != nil {
		c.outstanding = report.Outstanding
	}
}

// acts and unacts are told when the world behind changes. After a bad end something may still be
// done if its undo has failed, so that the request for it, which was under way, is still welcome.
func (x *played) acts(who, what string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.notes("%s is done", what)
	for _, c := range x.customers {
		if c.name == who && c.end != "" && !slices.Contains(c.outstanding, strings.TrimPrefix(what, who+" ")) {
			x.breaksLocked("%s is done after the saga has ended %s", what, c.end)
		}
	}
}

func (x *played) unacts(who, what string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.notes("%s is undone", what)
	for _, c := range x.customers {
		if c.name == who && c.end == "well" {
			x.breaksLocked("%s is undone though the saga has ended well", what)
		}
	}
}

// heal ends all disturbances, and waits for the clients that are there.
func (x *played) heal() {
	x.mu.Lock()
	x.out, x.long = time.Time{}, false
	x.mu.Unlock()
	x.behind.mu.Lock()
	x.behind.unwilling, x.behind.flaky, x.behind.refuses, x.behind.unreached = time.Time{}, time.Time{}, 0, 0
	x.behind.mu.Unlock()
	for _, p := range x.servers {
		p.mu.Lock()
		p.dieAt, p.pauseAt, p.paused = 0, 0, time.Time{}
		p.mu.Unlock()
	}
	x.servers = append(x.servers, x.start(len(x.servers), 0))
	x.late.Wait()
	x.clients.Wait()
}

// finish has every client go on with what it knows, as if nothing had happened: what its saga
// was about to do, it does.
func (x *played) finish() {
	p := x.servers[len(x.servers)-1]
	ctx := context.WithValue(context.Background(), processKey{}, p)
	for i, c := range x.customers {
		if len(c.known) == 0 || c.end != "" || i%3 == 2 {
			continue // or it never comes back
		}
		token, o := x.newest(ctx, p, c)
		if token == "" || !time.Now().Before(o.expires) {
			continue
		}
		for range 4 {
			answers, sure := c.answers(token, 3), !c.forced
			if sent := c.asked[token]; len(sent) > 0 {
				answers, sure = sent[0].answers, sure && len(sent) == 1
			}
			digest := x.sends(c, token, answers)
			end, err := p.Resume(ctx, c.request(p, token, answers))
			for tries := 0; tries < 20 && (errors.Is(err, ErrLedger) || errors.As(err, new(*engine.UnsettledError))); tries++ {
				time.Sleep(time.Second)
				end, err = p.Resume(ctx, c.request(p, token, answers))
			}
			if err != nil && errors.As(err, new(*engine.AnswerError)) {
				c.asked[token] = nil
				continue
			}
			if err != nil {
				if sure {
					x.breaks("saga %s does not go on from its newest token, though nobody else went on from there: %v", c.name, err)
				}
				break
			}
			x.learns(ctx, p, c, token, digest, end, err)
			if token = end.Token; token == "" {
				break
			}
		}
	}
}

// newest is the newest token that the client knows.
func (x *played) newest(ctx context.Context, p *process, c *customer) (token string, o *opened) {
	for _, known := range c.known {
		q := c.request(p, known, nil)
		q.own = true
		if found, err := p.open(ctx, &q, true); err == nil && (o == nil || found.pos.Turn > o.pos.Turn) {
			token, o = known, found
		}
	}
	return token, o
}

// settle waits until all that clients can come back with is over, and looks at what is there.
func (x *played) settle(memory ledger.Store) {
	time.Sleep(modelTTL + modelSkew + 30*time.Minute/2)
	p := x.servers[len(x.servers)-1]
	ctx := context.WithValue(context.Background(), processKey{}, p)
	for _, c := range x.customers {
		there := x.there(c)
		switch {
		case c.end == "well" && there != strings.TrimPrefix(c.text, "booked:"):
			x.breaks("saga %s ended well (%s), and what is there is%s", c.name, c.text, there)
		case (c.end == "at what is final" || c.end != "well" && there != "") && (c.end == "badly" || !slices.Contains([]string{" hold seat " + c.args.Pay, " hold " + c.args.Pay, " " + c.args.Pay}, there)):
			x.breaks("saga %s has ended %s, and what is there is%s", c.name, c.end, there)
		}
		if x.calm {
			x.checkCalls(c)
		}
		if token, _ := x.newest(ctx, p, c); token != "" {
			known := x.knowsEnd(p, c, token)
			end, err := p.Cancel(ctx, c.request(p, token, nil), Resent, Carried)
			if known {
				x.mustTell(p, c, token, err)
			}
			if err == nil {
				x.mu.Lock()
				x.ends(c, end)
				x.mu.Unlock()
			} else if rejected := (*tokens.Rejected)(nil); !errors.As(err, &rejected) || rejected.Reason != tokens.ReasonExpired {
				x.breaks("saga %s: cancelled long after: %v", c.name, err)
			}
		}
		if again := x.there(c); again != there {
			x.breaks("saga %s was over with%s, and then cancelled to%s", c.name, there, again)
		}
	}
	for _, p := range x.servers {
		p.kill()
	}
	x.workers.Wait()
	time.Sleep(25*time.Hour + modelGrace)
	if _, err := memory.Forget(context.Background(), 1e6); err != nil {
		x.breaks("%v", err)
	}
	kept := 0
	for key := range x.keys {
		r, err := memory.Load(context.Background(), key)
		if err == nil && (r.Owner != "" || !bytes.Equal(nil, []byte(r.Queue))) {
			kept++
		}
	}
	if kept > 0 {
		x.breaks("%d records are kept for ever", kept)
	}
}

// there is what a saga has done, in the order in which it does that.
func (x *played) there(c *customer) (list string) {
	for _, effect := range []string{"hold", "seat", c.args.Pay} {
		if x.behind.is(c.name + " " + effect) {
			list += " " + effect
		}
	}
	return list
}

// checkCalls: where nothing was disturbed, effects are called once.
func (x *played) checkCalls(c *customer) {
	for _, effect := range []string{"hold", "seat", c.args.Pay} {
		for _, what := range []string{c.name + " " + effect, c.name + " undo " + effect} {
			if n := x.behind.calls[what]; n > 1 {
				x.breaks("%s was called %d times", what, n)
			}
		}
	}
}
