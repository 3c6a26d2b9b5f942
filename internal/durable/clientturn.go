package durable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/steps"
)

// clientTurn is a turn that a client has asked for. It implements [turns.Remembered].
type clientTurn struct {
	c       *Core
	q       *turns.Request
	program *engine.Program
	saga    tokens.ID
	// row is as it was found, or a new one. begun is what it says while the turn is under way, and stand
	// from where.
	row   *row
	begun begunTurn
	stand stand
	// lazy: it is remembered only if it acts. lost: it was begun before by a process that is gone.
	lazy, lost bool
	// keep is until when it is remembered at least.
	keep time.Time
	// tokenExpires is until when the token that it was taken with is good, and undoable whether the saga has
	// done something by then.
	tokenExpires time.Time
	undoable     bool
	effects      []string
	page         uint32

	mutex chan struct{} // held while the turn does what is remembered
	over  bool          // it has ended: code of the tool that was given up does nothing more
	hold  *hold         // once it has acquired the row
	noted bool          // the row says where it continues
}

// newTurn returns the turn of a request, for the row r, or for a new one if that is nil.
func (c *Core) newTurn(q *turns.Request, saga tokens.ID, r *row) *clientTurn {
	t := &clientTurn{c: c, q: q, program: q.Program, saga: saga, noted: true, mutex: make(chan struct{}, 1)}
	t.begun = begunTurn{Purpose: q.Policy.Purpose, Now: c.Turns.Now(), Once: q.Policy.UndoBroken, Digest: turns.Digest(nil, nil)}
	if r != nil {
		if t.row = r.clone(); r.Client.Turn != nil {
			t.lost, t.begun.Now, t.stand = true, r.Client.Turn.Now, r.Stand // a flow sees the same time
		}
		return t
	}
	t.row = c.newClientRow(q, q.Program, saga)
	return t
}

// newClientRow is the row of a saga of which there is none yet.
func (c *Core) newClientRow(q *turns.Request, p *engine.Program, saga tokens.ID) *row {
	r := &row{read: time.Now()}
	owner := c.rows.owner(q.Principal)
	r.Record = store.Record{ID: c.rows.sagaID(q.Principal, saga), Audience: c.rows.audience, Owner: owner, Account: owner, Mode: store.ModeClient, Now: c.clock.now()}
	if p != nil {
		r.Tool, r.Revision = p.Target, p.Revision
	}
	r.state = state{Saga: saga, Principal: q.Principal, Client: new(clientState)}
	r.Begun = request{Method: q.Method, Dialect: q.Dialect, Client: engine.PackFeatures(q.Client), Trace: q.Trace}
	return r
}

// start takes a first turn.
func (t *clientTurn) start(ctx context.Context) (turns.End, error) {
	t.row.Begun.Arguments = orEmpty(t.q.Arguments)
	defer t.release()
	end, err := t.c.Turns.StartRemembered(ctx, t.q, t.saga, t)
	return t.settle(ctx, end, err)
}

// resume takes the turn after an opened token, or continues where it was lost.
func (t *clientTurn) resume(ctx context.Context, o *turns.Opened) (turns.End, error) {
	pos := o.Position()
	t.program, t.begun.From, t.tokenExpires, t.undoable, t.effects = o.Program(), pos.Turn, o.Expires(), pos.HasEffects(), pos.Effects()
	t.row.Tool, t.row.Revision = t.program.Target, t.program.Revision
	if t.q.Policy.Purpose == turns.Paged.Purpose {
		// Whatever takes the saga to its end: the client may come with this token again.
		t.keep, t.page = o.Expires(), pos.Turn
	}
	if t.q.Policy.Resent {
		t.row.Begun.Arguments = orEmpty(t.q.Arguments)
	}
	if t.lost && len(t.stand.Position) > 0 {
		if at, err := decodePosition(t.stand.Position, t.saga); err != nil || at.Turn > pos.Turn {
			return t.goOnFromStand(ctx)
		}
	}
	raw, err := encodePosition(pos, t.row.Begun.Arguments == nil)
	if err != nil {
		return turns.End{}, t.fail(err)
	}
	t.stand = stand{Position: raw, Answers: keptAnswers(t.q.Answers)}
	defer t.release()
	end, err := t.c.Turns.ResumeRemembered(ctx, t.q, o, t)
	return t.settle(ctx, end, err)
}

// goOnFromStand takes a turn that was lost when it had gone on without its client, from there.
func (t *clientTurn) goOnFromStand(ctx context.Context) (turns.End, error) {
	pos, err := decodePosition(t.stand.Position, t.saga)
	if err != nil {
		return turns.End{}, t.fail(err)
	}
	again := *t.q
	again.Answers = answersOf(t.stand.Answers)
	defer t.release()
	end, err := t.c.Turns.ResumeRemembered(ctx, &again, turns.Open(t.program, pos, t.row.Begun.Arguments), t)
	return t.settle(ctx, end, err)
}

func (t *clientTurn) fail(err error) error { return t.c.Turns.Failed(t.program, t.saga, err) }

// Begun implements [turns.Remembered].
func (t *clientTurn) Begun() (now time.Time, held, lost bool) { return t.begun.Now, t.lazy, t.lost }

// GoesOn implements [turns.Remembered].
func (t *clientTurn) GoesOn(pos *engine.Position, answers []steps.Answer) {
	raw, err := encodePosition(pos, t.row.Begun.Arguments == nil)
	if err != nil {
		return // the turn begins again at its beginning
	}
	t.stand, t.noted = stand{Position: raw, Answers: keptAnswers(answers)}, false
	t.begun.Now = later(t.begun.Now, later(t.c.Turns.Now(), pos.Wake))
}

// Abandon implements [turns.Remembered].
func (t *clientTurn) Abandon(ctx context.Context) error { return t.Acting(ctx) }

// errTurnOver is the error that code of a tool gets which runs on after its turn was given up.
var errTurnOver = errors.New("the turn is over")

// Acting implements [turns.Remembered]: the turn acquires the row.
func (t *clientTurn) Acting(ctx context.Context) error {
	t.mutex <- struct{}{}
	defer func() { <-t.mutex }()
	if t.over {
		return errTurnOver
	}
	if t.hold == nil {
		return t.acquire(ctx)
	}
	if !t.noted {
		if err := t.hold.commit(t.put); err != nil {
			return t.overtaken(err)
		}
		t.noted = true
	}
	return t.overtaken(t.hold.acting(ctx))
}

// Undoing implements [turns.Remembered].
func (t *clientTurn) Undoing(ctx context.Context, u engine.Undoing) error {
	t.mutex <- struct{}{}
	defer func() { <-t.mutex }()
	if t.over {
		return errTurnOver
	}
	if t.hold == nil {
		if err := t.acquire(ctx); err != nil {
			return err
		}
	}
	return t.overtaken(t.hold.undoing(nil)(ctx, u))
}

func (t *clientTurn) overtaken(err error) error {
	if errors.Is(err, errLost) {
		return errOvertaken
	}
	return err
}

// put notes in the row that the turn is under way.
func (t *clientTurn) put(r *row) []event {
	c := *r.Client
	begun := t.begun
	c.Turn = &begun
	t.note(r, &c)
	r.Client, r.Stand, r.Status = &c, t.stand, store.Working
	r.Running.Doubt, r.Running.Held = true, true
	r.Wake = r.due()
	if begun.Once {
		r.Wake = dueAt(r.now())
	}
	return []event{{kind: kindBegun}}
}

// note notes in the row what does not change during a turn.
func (t *clientTurn) note(r *row, c *clientState) {
	c.Expires = later(c.Expires, t.tokenExpires)
	if t.keep.After(c.Expires) && t.row.Request != (store.ID{}) && c.Expires.IsZero() {
		c.Expires = t.c.clock.now().Add(t.c.Turns.Codec.Options().TTL)
	}
	c.Undoable = c.Undoable || t.undoable
	c.Page = max(c.Page, t.page)
	if len(c.Effects) == 0 {
		c.Effects = t.effects
	}
	r.Times.Keep = later(r.Times.Keep, t.keep)
	r.Times.Due = t.c.clientDue(c)
	r.Tool, r.Revision, r.Begun = t.row.Tool, t.row.Revision, t.row.Begun
}

// acquire makes the row this turn's.
func (t *clientTurn) acquire(ctx context.Context) error {
	if _, err := t.c.Identity(ctx); err != nil {
		return err // the next token needs it, which must not fail once the turn has acted
	}
	ctx = context.WithoutCancel(ctx)
	writing, cancel := writing(ctx)
	defer cancel()
	next := t.row.clone()
	if next.Head > 0 {
		next.Fence++
	}
	events := t.put(next)
	next.Running.Tries = t.row.Running.Tries + 1
	next.Keep = time.Time{}
	term := t.c.term()
	if err := t.c.rows.write(writing, next, term.takes, max(0, t.c.MaxSagas), events...); err != nil {
		if errors.Is(err, store.ErrConflict) {
			return errOvertaken
		}
		return fullLedger(err)
	}
	t.c.clock.hear(next.Now)
	t.hold, t.noted = t.c.newHold(ctx, next, term), true
	t.hold.program, t.hold.served, t.hold.client = t.program, true, true
	t.c.worker.enter(t.hold)
	return nil
}

// release has the row no longer be driven here: it was put to rest, or its lease ends by itself, as that of a turn
// whose code has ended its goroutine.
func (t *clientTurn) release() {
	t.mutex <- struct{}{}
	defer func() { <-t.mutex }()
	if t.over = true; t.hold != nil {
		t.c.worker.release(t.hold)
	}
}

// settle commits how the turn has ended, and returns what is to be answered. It fails with
// [errOvertaken] if another process has taken the turn.
func (t *clientTurn) settle(ctx context.Context, end turns.End, err error) (turns.End, error) {
	t.mutex <- struct{}{}
	t.over = true
	<-t.mutex
	if errors.Is(err, errOvertaken) {
		return turns.End{}, errOvertaken
	}
	end, err = t.recorded(ctx, end, err)
	if effect := t.program.Irreversible(); effect != "" && t.begun.Once && t.hold != nil && errors.Is(err, turns.ErrLedger) {
		// The same request would be another saga, and what this one has done may be final.
		err = t.fail(&engine.UnsettledError{Tool: t.program.Name, Effect: effect, Err: err})
	}
	return end, err
}

// recorded commits how the turn has ended.
func (t *clientTurn) recorded(ctx context.Context, end turns.End, err error) (turns.End, error) {
	if t.lazy && t.hold == nil {
		return end, err
	}
	ends := err == nil || turns.EndsWith(t.program.Kind, err)
	recording := t.record(ctx, &end, err, ends)
	switch {
	case recording == nil:
		return end, err
	case errors.Is(recording, errOvertaken):
		return turns.End{}, recording
	case ends:
		// It is done, but as that would not be remembered, the client must not learn of it.
		return turns.End{}, t.fail(recording)
	}
	t.c.Turns.Log.WarnContext(ctx, "turn not recorded", "tool", t.program.Name, "saga", t.saga.String(), "error", recording)
	return end, err
}

func (t *clientTurn) record(ctx context.Context, end *turns.End, err error, ends bool) error {
	if !ends {
		return t.recordBroken(err)
	}
	raw, encoding := turns.EncodeResponse(end, err)
	var position []byte
	if encoding == nil && end.Token != "" {
		position, encoding = encodePosition(end.Position, t.row.Begun.Arguments == nil)
	}
	var again []byte
	if report := turns.UndoReport(end.Result); encoding == nil && report != nil && report.Again != nil {
		again, encoding = encodePosition(report.Again, true)
	}
	if encoding != nil {
		t.giveUp()
		return encoding
	}
	change := func(r *row) []event {
		c := *r.Client
		t.note(r, &c)
		c.Turn = nil
		c.How, c.From, c.Digest, c.Response, c.Report = howTurn, t.begun.From, t.begun.Digest, raw, nil
		if r.Client = &c; end.Token != "" {
			return t.c.suspendClient(r, end, position)
		}
		events := t.c.endClient(r, end, again)
		if t.begun.Once && r.Request == (store.ID{}) && r.Client.Page == 0 && len(again) == 0 {
			r.Times.Keep = t.c.Turns.Now().Add(time.Minute) // no client has a token or a key of it
		}
		return events
	}
	err = t.write(ctx, change)
	if errors.Is(err, store.ErrTooLarge) && raw != nil {
		raw = nil // it is sent once, and cannot be repeated
		err = t.write(ctx, change)
	}
	return err
}

// write commits a change that gives the row up.
func (t *clientTurn) write(ctx context.Context, change func(r *row) []event) error {
	if t.hold != nil {
		return t.overtaken(t.hold.commit(change))
	}
	next := t.row.clone()
	if next.Head > 0 {
		next.Fence++
	}
	events := change(next)
	next.Keep = keepUntil(next)
	// What has happened is recorded whether or not the client waits for it.
	ctx, cancel := writing(context.WithoutCancel(ctx))
	defer cancel()
	err := t.c.rows.write(ctx, next, 0, max(0, t.c.MaxSagas), events...)
	if errors.Is(err, store.ErrConflict) {
		return errOvertaken
	}
	return fullLedger(err)
}

// recordBroken records a turn that broke off. Mostly it can be taken again. If not it was
// undone, or is left to a worker.
func (t *clientTurn) recordBroken(err error) error {
	undone, _ := turns.BrokeOff(err)
	switch {
	case t.hold == nil:
		return nil
	case undone == nil || errors.As(err, new(*engine.UnsettledError)):
		t.giveUp()
		return nil
	}
	var again []byte
	end := turns.End{}
	if report := undone.Report; report != nil && report.Again != nil {
		var encoding error
		if again, encoding = encodePosition(report.Again, true); encoding != nil {
			t.giveUp()
			return fmt.Errorf("what could not be undone cannot be recorded: %w", encoding)
		}
	}
	return t.overtaken(t.hold.commit(func(r *row) []event {
		c := *r.Client
		t.note(r, &c)
		c.How, c.From, c.Digest, c.Response, c.Report = howBroken, t.begun.From, t.begun.Digest, nil, nil
		r.Client = &c
		r.Running.LastError = clip(undone.Error())
		return t.c.endClient(r, &end, again)
	}))
}

// giveUp gives the row up: the same request can take the turn again at once.
func (t *clientTurn) giveUp() {
	if t.hold == nil {
		return
	}
	err := t.hold.commit(func(r *row) []event {
		wake := r.due()
		if t.begun.Once || r.Undoing != nil {
			wake = dueAt(r.now())
		}
		t.hold.rest(r, store.Working, wake)
		r.Running.Doubt = true
		return []event{{kind: kindRest}}
	})
	if err != nil && !errors.Is(err, errLost) {
		t.c.Turns.Log.Warn("a turn that broke off is locked until its lease is over", "tool", t.program.Name, "saga", t.saga.String(), "error", err)
	}
}
