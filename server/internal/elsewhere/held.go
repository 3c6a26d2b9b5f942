package elsewhere

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/relay"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// For how long a call of the client's is held, whose tool waits or works.
const (
	// recordAfter is after what time a call has a row that has not asked or done anything.
	recordAfter = 2 * time.Second
	// holdBriefly is how long a form in the host's window may take to show that it is there, and holdApp how long the call
	// is held then in all. Clients give up after a minute.
	holdBriefly, holdApp = 3 * time.Second, 45 * time.Second
	// holdQuiet is how long a tool may work whose client hears of no progress.
	holdQuiet = 45 * time.Second
	// holdAll is how long it is held if the tool works on what the form has given; aliveTime is how often the client gets a
	// sign meanwhile.
	holdAll, aliveTime = 50 * time.Second, 10 * time.Second
	// keepResult is how long a result is kept at least.
	keepResult = 5 * time.Minute
)

// patience is for how long a call waits that no client looks at. Then what it did is undone.
func (r *Router) patience() time.Duration { return r.Turns.Codec.Options().TTL }

// view is one look of a client's at a call.
type view struct {
	*Router
	*dialect.Exchange
	call  *Call
	began time.Time
	// refusal says why what was brought was not taken, or is empty.
	refusal string

	task   *tasks.Task // as it is known here
	after  uint64      // the number of the last event that the client has
	apps   uint64      // its note's Apps at first
	quiet  time.Time   // since when the client has heard nothing of the tool
	renews time.Time   // when it is to be shown that the call is wanted
	alive  time.Time   // when the client is to be shown that it is held
	// remembered: forms find the call. cancelled: the client has just wanted it cancelled.
	remembered, cancelled bool
	rests                 atomic.Bool // the task does
}

// answer begins a call, or continues one, and waits for what is to be said of it.
func (v *view) answer(ctx context.Context) (*content.Result, error) {
	v.quiet, v.renews, v.alive = v.began, v.began.Add(v.patience()/3), v.began.Add(aliveTime)
	result, err := v.find(ctx)
	if result != nil || err != nil {
		return result, err
	}
	n := dialect.NoteOf(v.task)
	if v.apps = n.Apps; n.Held != 0 { // it may be held since the client has asked elsewhere
		v.began = time.UnixMilli(n.Held).Add(-holdAll)
		if n.Counted == n.Held {
			v.apps--
		}
	}
	if v.call.Request != nil && (v.call.Found != nil || time.Now().Before(v.holds())) {
		v.call.Request.Held(ctx, v.task)
	}
	result, err = v.follow(ctx)
	if err != nil && ctx.Err() == nil && v.unnamed() && (!v.task.Status.Ended() || v.outlasts(err)) {
		return v.abandon(ctx, err)
	}
	return result, err
}

// find begins the call, or finds it and gives it what was brought. The result is not nil if that is all.
func (v *view) find(ctx context.Context) (result *content.Result, err error) {
	switch {
	case v.call.Found != nil:
		v.task, v.quiet = v.call.Found, v.call.Found.Updated
		v.remembered = v.task.Status == tasks.InputRequired
		return nil, v.Readable(ctx, v.Exchange, v.task)
	case v.call.Token != "":
		return v.goOn(ctx, v.heldUntil())
	}
	if v.task, err = v.begin(ctx); err == nil && v.task.ID == "" {
		result = v.task.End.Result
	}
	return result, err
}

// begin begins a call.
func (v *view) begin(ctx context.Context) (*tasks.Task, error) {
	note := dialect.Note{Elsewhere: true, Call: v.digest()}
	if v.showsForm(v.call.Program, v.Caller) {
		note.Held = v.heldUntil().UnixMilli()
	}
	q := v.Turn(turns.Policy{Purpose: "elsewhere"})
	q.Program, q.Arguments, q.Client, q.Elsewhere = v.call.Program, json.RawMessage(v.call.Arguments), asked, true
	var rerr *wire.Error
	if q.IdempotencyKey, rerr = v.IdempotencyKey(v.Exchange); rerr != nil {
		return nil, rerr
	}
	start := tasks.Start{
		Request: q, Account: v.LedgerAccount(v.Caller.Session), AtOnce: true, Delay: recordAfter,
		Patience: v.patience(), Keep: max(keepResult, v.patience()),
	}
	if v.call.Request != nil && q.IdempotencyKey == "" { // else the key leads to it
		return v.call.Request.Start(ctx, &start, &note)
	}
	start.Note, _ = wire.Marshal(note) // strings and bytes always encode
	return v.Tasks.Start(ctx, start)
}

// asked are what a user can be asked elsewhere.
var asked = steps.Features{Forms: true, Links: true}

func (v *view) digest() []byte {
	return dialect.DigestCall(v.call.Program.Name, json.RawMessage(v.call.Arguments))
}

// goOn finds the call that the token names, which is held until then, and gives it the answers. The result is not nil if that
// is all.
func (v *view) goOn(ctx context.Context, held time.Time) (*content.Result, error) {
	if !dialect.OwnTaskID(v.call.Token) {
		return nil, tasks.ErrNotFound
	}
	t, err := v.Tasks.Renew(ctx, v.Principal, v.call.Token, v.patience(), v.hold(held))
	if err != nil {
		return nil, err
	}
	n := dialect.NoteOf(t)
	if !n.Elsewhere {
		return nil, tasks.ErrNotFound
	}
	if err := v.Readable(ctx, v.Exchange, t); err != nil {
		return nil, err
	}
	if t.Program.Target != v.call.Program.Target {
		return nil, tasks.ErrNotFound
	}
	if v.task = t; len(v.call.Arguments) > len("{}") && !bytes.Equal(n.Call, v.digest()) {
		return dialect.Stopped(nil, otherArguments), nil
	}
	if v.call.Answers == nil || t.Status.Ended() {
		return nil, nil
	}
	list, cancel, refusal := v.readAnswers(t.Questions)
	if v.refusal = refusal; refusal != "" {
		return nil, nil
	}
	if v.cancelled = cancel; cancel {
		v.task, err = v.Tasks.Cancel(ctx, v.Principal, t.ID)
		return nil, err
	}
	return nil, v.give(ctx, list)
}

// Readable fails with [turns.ErrNewer] if a call is of a newer revision than this server has: it waits, and is answered at
// a newer one, or here later.
func (r *Router) Readable(ctx context.Context, x *dialect.Exchange, t *tasks.Task) error {
	if t.Program != nil {
		return nil
	}
	return r.Turns.Report(ctx, x.Message.Method, turns.ErrNewer)
}

// outlasts reports whether the wait continues: the ledger has failed, and the client could only do all of it twice.
func (v *view) outlasts(err error) bool { return errors.Is(err, turns.ErrLedger) && v.unnamed() }

// follow waits until the call has ended, or the client is to learn that it waits.
func (v *view) follow(ctx context.Context) (*content.Result, error) {
	defer v.Pause(true)()
	served, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	leave := func() {
		if why := context.Cause(v.Closing); why != nil && (v.rests.Load() || !errors.Is(why, dialect.ErrSessionEnded)) {
			stop(why)
		}
	}
	defer context.AfterFunc(v.Closing, leave)()
	if v.after = v.call.After; v.call.Found == nil {
		v.after = v.task.Events
	}
	for over := false; ; {
		result, err := v.look(ctx, served, leave)
		if over || !v.outlasts(err) {
			return result, err
		}
		over = served.Err() != nil // then it looks once more, and is let go
		select {
		case <-time.After(time.Second + rand.N(2*time.Second)): // not all of them at once
		case <-served.Done():
		}
	}
}

// look is follow for as long as the ledger does not fail.
func (v *view) look(ctx, served context.Context, leave func()) (result *content.Result, failed error) {
	for news, err := range v.Tasks.Follow(served, v.Principal, v.task.ID, v.after, v.next) {
		switch {
		case err != nil && ctx.Err() != nil:
			return v.gone(ctx)
		case err != nil && errors.Is(context.Cause(served), dialect.ErrStopping): // the client finds the rest at another server
			return v.waiting(ctx)
		case err != nil && served.Err() != nil:
			return v.gone(served)
		case err != nil && !v.outlasts(err):
			return nil, err
		case err != nil:
			failed = err
		case news.Event != nil:
			v.after = news.Event.N
			if v.call.Request != nil {
				v.call.Request.Passed(news.Event.N)
			}
			if v.Notifier.Pass(news.Event) {
				v.quiet = time.Now()
			}
		case news.Task != nil:
			if news.Task.Status != v.task.Status {
				v.quiet = time.Now()
			}
			v.task, v.after = news.Task, max(v.after, news.Task.Events)
			if v.task.Status.Ended() {
				return v.ended(ctx)
			}
			v.rests.Store(v.task.Rests)
			if !v.remembered && v.Caller.Apps && v.task.Status == tasks.InputRequired {
				v.remember(ctx)
			}
		}
		v.show(ctx)
		if !time.Now().Before(v.holds()) {
			return v.waiting(ctx)
		}
		leave()
	}
	return nil, failed
}

// show shows the core that the call is wanted, and the client that it is held, when it is time for that.
func (v *view) show(ctx context.Context) {
	now := time.Now()
	if !now.Before(v.alive) {
		if v.alive = now.Add(aliveTime); v.Notifier != nil && v.Notifier.Token != nil {
			v.Notifier.Alive(aliveTime / 2)
		}
	}
	if now.Before(v.renews) {
		return
	}
	v.renews = now.Add(v.patience() / 3)
	if _, err := v.Tasks.Renew(ctx, v.Principal, v.task.ID, v.patience(), nil); err != nil {
		v.renews = now.Add(min(v.patience()/3, time.Minute))
	}
}

// next is when there is something to do although nothing has changed.
func (v *view) next() time.Time {
	next := v.renews
	for _, at := range []time.Time{v.holds(), v.alive} {
		if at.Before(next) {
			next = at
		}
	}
	return next
}

// heldUntil is until when a call is held at most for a form.
func (v *view) heldUntil() time.Time { return v.began.Add(holdAll) }

// holds is until when the client's call is held.
func (v *view) holds() time.Time {
	n := dialect.NoteOf(v.task)
	if v.task.Status != tasks.InputRequired {
		if at := v.quiet.Add(holdQuiet); n.Apps == v.apps || at.Before(v.heldUntil()) {
			return at
		}
		return v.heldUntil()
	}
	noForm := func(q steps.Step) bool { return v.Routes(v.program().Routing(q.ID), v.Caller)&steps.RouteApp == 0 }
	switch {
	case slices.ContainsFunc(v.task.Questions, noForm) || v.refusal != "" || v.cancelled:
		return v.began
	case n.Apps > v.apps:
		return v.began.Add(holdApp)
	}
	return v.began.Add(holdBriefly)
}

// program is the call's, in the revision that asks, as long as it is served.
func (v *view) program() *engine.Program { return cmp.Or(v.task.Program, v.call.Program) }

// gone is how a call ends whose client has left. It is cancelled if the client wants that, or has no token by which to
// come back, unless it has sent its request again.
func (v *view) gone(ctx context.Context) (*content.Result, error) {
	why := context.Cause(ctx)
	if n := dialect.NoteOf(v.task); n.Task || !errors.Is(why, dialect.ErrCancelled) && (!v.unnamed() || errors.Is(why, dialect.ErrLeft)) {
		return nil, why
	}
	return v.abandon(ctx, why)
}

// abandon cancels the call, as its wait has failed with why, and returns what the client is to read of that.
func (v *view) abandon(ctx context.Context, why error) (*content.Result, error) {
	t, err := v.CancelCall(ctx, v.Principal, v.task.ID, why)
	if t == nil {
		return nil, err
	}
	v.task = t
	result, err := v.ended(context.WithoutCancel(ctx))
	if errors.Is(err, turns.ErrLedger) {
		err = dialect.ErrUnknown
	}
	return result, err
}

// unnamed reports whether the client has neither the token of the call nor a key to make it again.
func (v *view) unnamed() bool {
	key, _ := v.IdempotencyKey(v.Exchange)
	return v.call.Token == "" && key == ""
}

// waiting is the result of a call whose tool waits, or works for long. If the tool asks what no user can be asked, the call
// is cancelled.
func (v *view) waiting(ctx context.Context) (*content.Result, error) {
	v.release(ctx)
	if v.cancelled && v.task.Final {
		v.refusal = relay.TooLate
	}
	n := dialect.NoteOf(v.task)
	w := relay.Words{Program: v.call.Program, Token: v.task.ID, Refusal: v.refusal, Task: n.Task, Working: v.task.Status != tasks.InputRequired}
	if w.Working {
		return w.Result(), nil
	}
	routes := make([]steps.Routes, len(v.task.Questions))
	for i, q := range v.task.Questions {
		if routes[i] = v.Routes(v.program().Routing(q.ID), v.Caller); routes[i] == 0 {
			return v.giveUp(ctx, q.ID)
		}
	}
	if err := v.say(ctx, v.Principal, v.task.ID, &w, v.task.Questions, routes); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// say adds questions to what is said of a call, each with its routes, and the link to their page. Without a link they are
// asked by their other routes; it fails if there are none.
func (r *Router) say(ctx context.Context, principal, task string, w *relay.Words, questions []steps.Step, routes []steps.Routes) error {
	pages, others := steps.Routes(0), true
	for _, by := range routes {
		pages, others = pages|by&steps.RoutePage, others && by&^steps.RoutePage != 0
	}
	if pages != 0 {
		var err error
		if w.URL, err = r.Questions.Pages.Link(ctx, principal, task, r.Turns.Now().Add(r.patience())); err != nil {
			if !others {
				return err
			}
			r.Log.WarnContext(ctx, "no link to a page: the questions are asked by other routes", "error", err)
			w.URL, pages = "", 0
		}
	}
	for i, q := range questions {
		w.Ask(q, routes[i]&(pages|^steps.RoutePage))
	}
	return nil
}

// giveUp cancels a call that asks what no user can be asked, and returns what has become of it.
func (v *view) giveUp(ctx context.Context, question string) (*content.Result, error) {
	if _, err := v.Tasks.Cancel(ctx, v.Principal, v.task.ID); err != nil {
		return nil, err
	}
	for news, err := range v.Tasks.Follow(ctx, v.Principal, v.task.ID, tasks.NoEvents, nil) {
		if err != nil {
			return nil, err
		}
		if v.task = news.Task; v.task.Final && v.task.Status == tasks.InputRequired {
			return relay.Stuck(v.call.Program, question), nil
		}
	}
	result, err := v.ended(ctx)
	if err == nil && v.task.Status == tasks.Cancelled {
		result = relay.NoWay(v.call.Program, question, result)
	}
	return result, err
}

// ended is the result of a call that has ended.
func (v *view) ended(ctx context.Context) (*content.Result, error) {
	t := v.task
	if t.Status == tasks.Failed {
		if failed, ok := errors.AsType[*tasks.FailedError](t.Err); ok {
			return dialect.Stopped(nil, failed.Text), nil
		}
		return nil, v.TaskFailure(ctx, t)
	}
	result, err := v.TaskResult(ctx, v.Principal, t)
	if err != nil {
		return nil, err
	}
	result.IsError = result.IsError || t.Status == tasks.Cancelled
	if v.refusal != "" {
		result.Content = append(content.Blocks{content.Text{Text: v.refusal}}, result.Content...)
	}
	return result, nil
}
