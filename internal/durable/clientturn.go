package durable

import (
	"context"
	"errors"
	"slices"
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
	// row is as it was found, or a new one, with what the request says of the saga: all of that is in it before it is first
	// written. begun is what it says while the turn is under way, and stand from where.
	row   *row
	begun begunTurn
	stand stand
	// lazy: it is remembered only if it acts. lost: it was begun before by a process that is gone.
	lazy, lost bool
	// did is what the saga has begun, as far as this turn knows, and earlier what the lost turn says of that; nil if it
	// is not known. events is what the lost turn had heard, which its events may say no more.
	did, earlier *engine.Position
	events       []steps.Answer
	heard        []steps.Answer // what others than the client have answered, for the log

	mutex chan struct{} // held while the turn does what is remembered
	over  bool          // it has ended: code of the tool that was given up does nothing more
	hold  *hold
	noted bool // the row is this process's, and says where the turn continues
	moved bool // that is further on than where it began
}

// newTurn returns the turn of a request, for the row r, or for a new one if that is nil.
func (c *Core) newTurn(ctx context.Context, q *turns.Request, saga tokens.ID, r *row) *clientTurn {
	t := &clientTurn{c: c, q: q, program: q.Program, mutex: make(chan struct{}, 1)}
	t.begun = begunTurn{Purpose: q.Policy.Purpose, Now: c.Turns.Now(), Once: q.Policy.UndoBroken, Digest: turns.Digest(nil, nil)}
	if r == nil {
		r = c.newClientRow(q, q.Program, saga)
	}
	if lost := r.Client.Turn; lost != nil {
		t.lost, t.begun.Now, t.stand = true, lost.Now, r.Stand // a flow sees the same time
		t.earlier, _ = decodePosition(lost.Did, saga)
		t.did, t.events = t.earlier, happenedOf(r.Stand.Answers)
		t.stand.Answers = slices.DeleteFunc(slices.Clone(r.Stand.Answers), isOutside)
	}
	t.row = r.clone()
	t.row.Begun.Client = engine.PackFeatures(q.Client) // the turn may depend on that
	if t.row.Granted = grantedTo(engine.CallerOf(ctx)); q.Program != nil && q.Program.Waits() {
		if t.row.Begun.Secret == nil {
			t.row.Begun.Secret = c.newSecret(r.ID)
		}
		q.Secret = t.row.Begun.Secret
	}
	t.hold = c.holdForClient(ctx, t.row)
	return t
}

// holdForClient returns the hold of a row that a request of its client is to acquire, or to make.
func (c *Core) holdForClient(ctx context.Context, r *row) *hold {
	h := c.newHold(context.WithoutCancel(ctx), r, r.Record.Tries+1)
	h.client, h.hasty = true, true
	if r.Head == 0 { // it is to be counted
		h.most = shareOf(c.apart(r), c.MaxSagas)
	}
	return h
}

func (c *Core) newClientRow(q *turns.Request, p *engine.Program, saga tokens.ID) *row {
	r := c.blankRow(q.Principal, q.Account(), p, saga)
	r.ID, r.Mode, r.Client = c.rows.sagaID(q.Principal, saga), store.ModeClient, new(clientState)
	r.Begun = request{Method: q.Method, Dialect: q.Dialect, Client: engine.PackFeatures(q.Client), Trace: q.Trace}
	return r
}

// take takes the turn after o, or the first one if o is nil. If another process has lost that turn, it is taken again, from
// as far as it had come.
func (t *clientTurn) take(ctx context.Context, o *turns.Opened) (end turns.End, err error) {
	q := t.q
	if o == nil || q.Policy.Resent {
		t.row.Begun.Arguments = turns.OrEmpty(q.Arguments)
	}
	client := t.row.Client
	if o != nil {
		pos := o.Position
		t.program, t.begun.From = o.Program, pos.Turn
		t.row.Tool, t.row.Revision = t.program.Target, t.program.Revision
		client.Expires, client.Undoable = later(client.Expires, o.Expires), client.Undoable || pos.HasEffects()
		if len(t.row.Effects) == 0 {
			t.row.Effects = pos.Effects()
		}
		if q.Policy.Purpose == turns.Paged.Purpose {
			// The client may send this token again after later turns, and after the end.
			t.row.Times.Keep, client.Page = later(t.row.Times.Keep, o.Expires), max(client.Page, pos.Turn)
		}
	}
	if client.Expires.IsZero() && t.row.Request != (store.ID{}) { // a first call with a key may be made again until then
		client.Expires = t.c.clock.now().Add(t.c.Turns.Codec.Options().TTL)
	}
	t.row.Times.Due = t.c.clientDue(client)
	at, err := decodePosition(t.stand.Position, t.row.Saga)
	switch {
	case err != nil:
		return turns.End{}, t.fail(err)
	case at != nil && (o == nil || at.Turn > o.Position.Turn): // the lost turn had come further than the token, without its client
		again := *q
		again.Answers = t.stand.Answers
		q, o = &again, &turns.Opened{Identity: turns.Identity{Program: t.program, Saga: t.row.Saga}, Position: at, Arguments: t.row.Begun.Arguments}
	case o != nil:
		t.stand = stand{Position: t.row.encode(o.Position), Answers: q.Answers, Begun: t.stand.Begun}
	}
	defer t.release()
	if o == nil {
		end, err = t.c.Turns.Start(ctx, q, turns.Identity{Program: q.Program, Saga: t.row.Saga}, t)
	} else {
		end, err = t.c.Turns.Continue(ctx, q, o, t)
	}
	return t.settle(ctx, end, err)
}

func (t *clientTurn) fail(err error) error {
	return t.c.Turns.Failed(turns.Identity{Program: t.program, Saga: t.row.Saga}, err)
}

// Begun implements [turns.Remembered].
func (t *clientTurn) Begun() (now time.Time, lost bool, events []steps.Answer) {
	return t.begun.Now, t.lost, t.events
}

// Unrepeatable implements [turns.Remembered].
func (t *clientTurn) Unrepeatable() bool { return t.lazy }

// Did implements [turns.Remembered].
func (t *clientTurn) Did(pos *engine.Position) { t.did = pos }

// GoesOn implements [turns.Remembered].
func (t *clientTurn) GoesOn(pos *engine.Position, answers []steps.Answer) (now time.Time) {
	t.stand, t.noted, t.moved = stand{Position: t.row.encode(pos), Answers: answers}, false, true
	t.begun.Now = later(t.begun.Now, later(t.c.Turns.Now(), pos.Wake))
	return t.begun.Now
}

// Heard implements [turns.Remembered]. Should this turn be lost, the one that takes it again is to hear the same.
func (t *clientTurn) Heard(p *engine.Program, pos *engine.Position, events []steps.Answer) {
	t.hold.hears(p, pos, events)
	t.stand.Answers = append(slices.Clip(t.stand.Answers), events...)
	t.heard = append(t.heard, events...)
}

// Acting implements [turns.Remembered]: the turn acquires the row.
func (t *clientTurn) Acting(ctx context.Context) error { return t.acts(ctx, t.hold.acting) }

// Final implements [turns.Remembered].
func (t *clientTurn) Final(ctx context.Context, n int) error {
	return t.acts(ctx, func(ctx context.Context) error { return t.hold.final(ctx, n) })
}

// Begins implements [turns.Remembered].
func (t *clientTurn) Begins(ctx context.Context, pos *engine.Position) error {
	return t.acts(ctx, func(ctx context.Context) error { return t.hold.begins(ctx, pos) })
}

func (t *clientTurn) acts(ctx context.Context, may func(context.Context) error) error {
	t.mutex <- struct{}{}
	defer func() { <-t.mutex }()
	if err := t.acquire(ctx, !t.noted); err != nil {
		return err
	}
	return overtaken(may(ctx))
}

// Undoing implements [turns.Remembered].
func (t *clientTurn) Undoing(ctx context.Context, u engine.Undoing) error {
	t.mutex <- struct{}{}
	defer func() { <-t.mutex }()
	if err := t.acquire(ctx, !t.hold.acquired); err != nil {
		return err
	}
	return overtaken(t.hold.undoing(nil)(ctx, u))
}

// overtaken says of a write for a client that another process was faster, or that an account is full.
func overtaken(err error) error {
	switch {
	case errors.Is(err, errLost), errors.Is(err, store.ErrConflict):
		return errOvertaken
	case errors.Is(err, store.ErrFull):
		return turns.ErrLedgerFull
	}
	return err
}

func (t *clientTurn) put(r *row) []event {
	begun := t.begun
	r.Client.Turn = &begun
	r.Stand, r.Status = t.stand, store.Working
	r.Running.Doubt, r.Running.Held = true, true
	if t.moved {
		r.Running.Finals = 1
	}
	r.Wake = r.due()
	if begun.Once {
		r.Wake = dueAt(r.now())
	}
	return []event{{kind: kindBegun}}
}

// acquire makes the row this turn's, if that is necessary, which then says that the turn is under way.
func (t *clientTurn) acquire(ctx context.Context, necessary bool) error {
	switch {
	case t.over: // its code runs on after it was given up
		return errors.New("the turn is over")
	case !necessary:
		return nil
	case !t.hold.acquired:
		if _, err := t.c.Identity(ctx); err != nil {
			return err // the next token needs it, which must not fail once the turn has acted
		}
		t.hold.program, t.hold.served = t.program, true
	}
	err := overtaken(t.hold.commit(t.put))
	t.noted = err == nil
	return err
}

// release has the row no longer be driven here: it was put to rest, or its lease ends by itself, as that of a turn
// whose code has ended its goroutine.
func (t *clientTurn) release() {
	t.mutex <- struct{}{}
	defer func() { <-t.mutex }()
	t.over = true
	t.c.worker.release(t.hold)
}

// settle commits how the turn has ended, and returns what is to be answered. It fails with
// [errOvertaken] if another process has taken the turn.
func (t *clientTurn) settle(ctx context.Context, end turns.End, err error) (turns.End, error) {
	t.mutex <- struct{}{}
	t.over = true
	<-t.mutex
	switch {
	case errors.Is(err, errOvertaken):
		return turns.End{}, errOvertaken
	case t.lazy && !t.hold.acquired:
		return end, err
	}
	ends := err == nil || turns.EndsWith(t.program.Kind, err)
	recording := t.record(&end, err, ends)
	switch {
	case recording == nil:
	case errors.Is(recording, errOvertaken):
		return turns.End{}, recording
	case ends:
		// It is done, but as that would not be remembered, the client must not learn of it.
		end, err = turns.End{}, t.fail(recording)
	default:
		t.c.Turns.Log.WarnContext(ctx, "turn not recorded", "tool", t.program.Name, "saga", t.row.Saga.String(), "error", recording)
	}
	if effect := t.program.Irreversible(); effect != "" && t.begun.Once && t.hold.acquired && errors.Is(err, turns.ErrLedger) {
		// The same request would be another saga, and what this one has done may be final.
		err = t.fail(&engine.UnsettledError{Tool: t.program.Name, Effect: effect, Err: err})
	}
	return end, err
}

func (t *clientTurn) record(end *turns.End, err error, ends bool) error {
	if !ends {
		return t.recordBroken(err)
	}
	raw, encoding := turns.EncodeResponse(end, err)
	if encoding != nil {
		t.giveUp()
		return encoding
	}
	change := func(r *row) (events []event) {
		defer func() { events[0].Answers = t.heard }()
		r.Client.Turn = nil
		r.Client.answered(howTurn, t.begun.From, t.begun.Digest, raw)
		if end.Token != "" {
			return t.c.suspendClient(r, end, t.row.encode(end.Position))
		}
		report := turns.UndoReport(end.Result)
		events = t.c.endClient(r, end, report)
		if did := t.did; did != nil && did.HasEffects() && report == nil {
			events = slices.Insert(events, 0, event{kind: kindTurn, body: body{Effects: did.Begun(t.earlier).Effects()}})
		}
		if t.begun.Once && r.Request == (store.ID{}) && r.Client.Page == 0 && len(r.Again) == 0 {
			r.Times.Keep = t.c.Turns.Now().Add(time.Minute) // no client has a token or a key of it
		}
		return events
	}
	err = overtaken(t.hold.commit(change))
	if errors.Is(err, store.ErrTooLarge) && raw != nil {
		raw = nil // it is sent once, and cannot be repeated
		err = overtaken(t.hold.commit(change))
	}
	return err
}

// recordBroken records a turn that broke off. Mostly it can be taken again. If not it was
// undone, or is left to a worker.
func (t *clientTurn) recordBroken(err error) error {
	undone, _ := turns.BrokeOff(err)
	switch {
	case !t.hold.acquired:
		return nil
	case undone == nil || errors.As(err, new(*engine.UnsettledError)):
		t.giveUp()
		return nil
	}
	return overtaken(t.hold.commit(func(r *row) []event {
		r.Client.answered(howBroken, t.begun.From, t.begun.Digest, nil)
		r.Running.LastError = clip(undone.Error())
		return t.c.endClient(r, new(turns.End), undone.Report)
	}))
}

// giveUp gives the row up: the same request can take the turn again at once. The row says what the turn has begun,
// so that an undo begins nothing else.
func (t *clientTurn) giveUp() {
	if !t.hold.acquired {
		return
	}
	var all *engine.Position
	if t.did != nil && (t.earlier != nil || !t.lost) {
		all = t.did.Begun(t.earlier)
	}
	err := t.hold.commit(func(r *row) []event {
		r.Client.Turn.Did = nil
		if all != nil {
			r.Client.Turn.Did, r.Effects = encodePosition(all), all.Effects()
		}
		wake := r.due()
		if t.begun.Once || r.Undoing != nil {
			wake = dueAt(r.now())
		}
		r.Running.Doubt = true
		return t.hold.rest(r, store.Working, wake)
	})
	if err != nil && !errors.Is(err, errLost) {
		t.c.Turns.Log.Warn("a turn that broke off is locked until its lease is over", "tool", t.program.Name, "saga", t.row.Saga.String(), "error", err)
	}
}
