package durable_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
)

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
	if !x.calm && (strings.Contains(err.Error(), "for longer than its lease") || strings.Contains(err.Error(), `effect "`)) {
		return false // it took too long, and is told what its effects say of that
	}
	allowed := []string{string(tokens.ReasonSpent), string(tokens.ReasonExpired), "answer"}
	if !x.calm {
		allowed = append(allowed, "ledger", "timeout", "client_gone", "unsettled", "under_way", "not_yet_valid")
	}
	if why := reasonOf(err); !slices.Contains(allowed, why) {
		x.breaksLocked("saga %s: a request failed (%s): %v", c.name, why, err)
	}
	return false
}

// learns compares a response with what is known.
func (x *played) learns(ctx context.Context, p *process, c *customer, token, digest string, end turns.End, err error) {
	if !x.answered(ctx, p, c, err) {
		return
	}
	raw, err := turns.EncodeResponse(&end, nil)
	must(err)
	text := end.Token + string(raw)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.notes("saga %s at %d: …%s was answered …%s %s", c.name, p.slot, tail(token), tail(end.Token), raw)
	switch first, before := c.told[token]; {
	case end.Gone != "":
		report := turns.UndoReport(end.Result)
		if report != nil && report.SagaToken != "" { // requests that come at the same time have tokens of their own for it
			text = strings.Replace(text, report.SagaToken, "", 1)
		}
		retried := report != nil && c.undo != nil && len(report.Outstanding) < len(c.undo.Outstanding) // what could not be undone then is now
		if c.report != "" && c.report != text && !retried {
			x.breaksLocked("saga %s is reported undone in two ways: %s and %s", c.name, c.report, text)
		}
		c.report, c.undo = text, report
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
func (x *played) ends(c *customer, end turns.End) {
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
	if report := turns.UndoReport(end.Result); report != nil {
		c.outstanding = report.Outstanding
	}
}

type (
	undoKey   struct{}
	hangUpKey struct{}
)

// begins: where no server dies and the store is there, an undo performs nothing that no turn has begun.
func (x *played) begins(ctx context.Context, key saga.Key, what string) {
	x.behind.mu.Lock()
	begun := x.behind.begun[key]
	x.behind.begun[key] = true
	hangUp, ok := ctx.Value(hangUpKey{}).(context.CancelFunc)
	if ok && x.behind.hangsUp {
		x.behind.hangsUp = false
		x.disturbed() // a turn that is given up may be taken again
		hangUp()
	}
	x.behind.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if undoes := ctx.Value(workerKey{}) != nil || ctx.Value(undoKey{}) != nil; undoes && !begun && x.lives {
		x.breaksLocked("%s is begun in order to be undone", what)
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
		token, expires := x.newest(c)
		if token == "" || !time.Now().Before(expires) {
			continue
		}
		for range 4 {
			answers, sure := c.answers(token, 3), !c.forced
			if sent := c.asked[token]; len(sent) > 0 {
				answers, sure = sent[0].answers, sure && len(sent) == 1
			}
			digest := x.sends(c, token, answers)
			end, err := p.Resume(ctx, c.request(p, token, answers))
			for tries := 0; tries < 20 && (errors.Is(err, turns.ErrLedger) || errors.As(err, new(*engine.UnsettledError))); tries++ {
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

// newest is the newest token that the client knows, and when that is good no longer.
func (x *played) newest(c *customer) (token string, expires time.Time) {
	var newest uint32
	for _, known := range c.known {
		if claims := x.claims(c, known); token == "" || claims.Turn > newest {
			token, newest, expires = known, claims.Turn, claims.ExpiresAt
		}
	}
	return token, expires
}

// settle waits until all that clients can come back with is over, and looks at what is there.
func (x *played) settle(memory store.Store) {
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
		if token, _ := x.newest(c); token != "" {
			known := x.knowsEnd(p, c, token)
			end, err := p.Cancel(ctx, c.request(p, token, nil), turns.Resent, turns.Carried)
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
	all := []store.Status{store.Working, store.Waiting, store.Sleeping, store.Undoing, store.Outstanding, store.Ended}
	kept, err := memory.List(context.Background(), store.Filter{Audience: "here", Statuses: all}, store.Cursor{}, 1000)
	if err != nil || len(kept) > 0 {
		x.breaks("%d records are kept for ever (%v)", len(kept), err)
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

// reasonOf says in a word why a request failed.
func reasonOf(err error) string {
	var rejected *tokens.Rejected
	switch {
	case errors.Is(err, turns.ErrLedger):
		return "ledger"
	case errors.Is(err, turns.ErrUnderWay):
		return "under_way"
	case errors.Is(err, turns.ErrEarly):
		return "not_yet_valid"
	case errors.As(err, &rejected):
		return string(rejected.Reason)
	case errors.As(err, new(*engine.UnsettledError)):
		return "unsettled"
	case errors.As(err, new(*engine.AnswerError)):
		return "answer"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "client_gone"
	}
	return "internal"
}
