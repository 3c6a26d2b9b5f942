package durable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// A saga that its client drives has a row that says which of its turns were taken, and how the last one was
// answered: the same request gets the same response again, and another one for a turn that was taken is
// refused. The turn acquires the row before it acts, and commits once; a turn that has not acted is
// committed by one write. What the client does not come back for is undone by a worker.

// clientState is what is remembered of the turns of a saga that its client drives.
type clientState struct {
	// How, From and Digest identify the turn that has ended last: the one after From others, asked for with
	// Digest. At is how many turns there were then.
	How    how    `cbor:"1,keyasint"`
	From   uint32 `cbor:"2,keyasint"`
	At     uint32 `cbor:"3,keyasint"`
	Digest []byte `cbor:"4,keyasint,omitempty"`
	// Response is what was answered; nil if it was too large to be kept. With it goes Token, if the saga is not
	// over, of the policy Purpose. Report is what was said last of an undo after the end.
	Response []byte `cbor:"5,keyasint,omitempty"`
	Token    string `cbor:"6,keyasint,omitempty"`
	Purpose  string `cbor:"7,keyasint,omitempty"`
	Report   []byte `cbor:"8,keyasint,omitempty"`
	// Page is the number of turns before the last one that was taken with a token of the policy [turns.Paged].
	Page uint32 `cbor:"9,keyasint,omitempty"`
	// Expires is until when a token of the saga is good.
	Expires time.Time `cbor:"10,keyasint,omitzero"`
	// Undoable: it has done something that can be undone.
	Undoable bool `cbor:"11,keyasint,omitempty"`
	// Turn is under way, or was lost with the process that took it; nil if there is none.
	Turn *begunTurn `cbor:"12,keyasint,omitempty"`
}

// answered notes how the turn after from others has ended.
func (c *clientState) answered(as how, from uint32, digest, response []byte) {
	c.How, c.From, c.Digest, c.Response, c.Report = as, from, digest, response, nil
}

// begunTurn is a turn that was begun at the row's stand.
type begunTurn struct {
	From    uint32    `cbor:"1,keyasint"`
	Digest  []byte    `cbor:"2,keyasint,omitempty"`
	Purpose string    `cbor:"3,keyasint"`
	Now     time.Time `cbor:"4,keyasint"`
	// Once: it cannot be asked for again, so a worker undoes it as soon as it is lost.
	Once bool `cbor:"5,keyasint,omitempty"`
	// Did is a position that knows of all that the saga had begun when the server ended the turn that broke off;
	// nil if that is not known, as the server may have died.
	Did []byte `cbor:"6,keyasint,omitempty"`
}

// how says what a turn was.
type how uint8

const (
	// howTurn: an ordinary turn, whose response its client may ask for again.
	howTurn how = iota
	// howAbandoned: the saga was undone, as its token came too late, or an operator has closed it.
	howAbandoned
	// howCancelled: the client has cancelled the saga.
	howCancelled
	// howBroken: the saga was undone, which its client does not know. The same first call begins another one.
	howBroken
)

// keepKey is how long a first call with an idempotency key is remembered at least.
const keepKey = 24 * time.Hour

// errOvertaken: another process has taken the turn. What there is to be said is in the row.
var errOvertaken = errors.New("another request has taken the turn")

var _ turns.Memory = (*Core)(nil)

// verdict says what is to be done about a turn that is asked for.
type verdict int

const (
	// free: it can be taken. answeredBefore: it was taken, and the row has the response.
	free verdict = iota
	answeredBefore
	// wait: another request takes it, or a worker undoes it.
	wait
	// undone: the first turn broke off and was undone, without a word to the client.
	undone
)

// judge finds out what is to be done about a turn that comes after from others and is identified by
// digest, unless it is only to undo.
func judge(r *row, from uint32, digest []byte, as how) (verdict, error) {
	if r == nil {
		return free, nil
	}
	if r.Client == nil && bytes.Equal(digest, r.Digest) {
		return free, turns.ErrTask
	}
	if r.Client == nil {
		return free, tokens.Reject(tokens.ReasonSpent, "the saga goes on as a task")
	}
	c, alive := r.Client, r.Until.After(r.now())
	undoing := r.Undoing != nil || r.Cancelled || c.Turn == nil && alive
	if u := r.Undoing; u != nil && u.Why == whyTurn && u.Response != nil {
		undoing = false // it ends as its turn has
	}
	// A client that comes while its saga hears of that; one that has cancelled it, or whose turn broke
	// off, has no business here.
	cancelled := r.Cancelled || r.Undoing != nil && r.Undoing.Why != whyGone
	switch {
	case taken(r, from, digest):
		return answeredBefore, nil
	case r.Status.Over() && from == 0:
		return undone, nil
	case r.Status.Over():
		return free, tokens.Reject(tokens.ReasonSpent, "the saga has ended")
	case from < c.At:
		return free, tokens.Reject(tokens.ReasonSpent, "the saga has gone on from here with other answers")
	case from == 0 && undoing && !alive:
		return free, fmt.Errorf("%w: the saga is being undone", ErrUnavailable)
	case from == 0 && undoing:
		return wait, nil
	case undoing && cancelled && as == howTurn:
		return free, tokens.Reject(tokens.ReasonSpent, "the saga is being undone")
	case as == howTurn && c.Turn != nil && !bytes.Equal(digest, c.Turn.Digest):
		return free, tokens.Reject(tokens.ReasonSpent, "a turn with other answers was begun")
	case alive:
		return wait, nil
	}
	return free, nil
}

// taken reports whether the row has the response to a request.
func taken(r *row, from uint32, digest []byte) bool {
	c, over := r.Client, r.Status.Over()
	switch {
	case c.How == howTurn && bytes.Equal(digest, c.Digest) && from == c.From:
		return over || c.At > c.From
	case from > 0 && from == c.Page && from < c.At && (c.How == howTurn || over && c.How == howAbandoned):
		// The client was asked meanwhile, and has then missed the next question, part or end.
		return true
	case over && c.How == howAbandoned:
		return from == 0 || from >= c.From // whatever the answers
	case from == 0: // a first call that is repeated leads to where its saga is
		return (c.At > 0 || over) && c.How != howBroken
	}
	return false
}

// attend does what a request asks for of the saga: act is called with its row, or nil if there is none, and again
// whenever another process was faster.
func (c *Core) attend(ctx context.Context, p *engine.Program, saga *tokens.ID, find func(context.Context) (*row, error), act func(context.Context, *row) (turns.End, error)) (turns.End, error) {
	turn := c.Turns.Begin(ctx)
	defer turn.Cancel()
	for {
		var end turns.End
		r, err := find(turn)
		if err == nil && turn.Err() != nil {
			err = context.Cause(turn)
		}
		if err == nil {
			end, err = act(turn, r)
		}
		switch {
		case errors.Is(err, errOvertaken):
			continue
		case errors.Is(err, ErrUnreadable): // the saga is forgotten
			err = tokens.Reject(tokens.ReasonSpent, "%w", err)
		}
		if err != nil && !errors.As(err, new(*turns.Error)) {
			err = c.Turns.Failed(turns.Identity{Program: p, Saga: *saga}, err)
		}
		return end, err
	}
}

func (c *Core) attendOpened(ctx context.Context, q *turns.Request, o *turns.Opened, act func(context.Context, *row) (turns.End, error)) (turns.End, error) {
	saga := o.Saga
	find := func(ctx context.Context) (*row, error) { return c.rows.load(ctx, c.rows.sagaID(q.Principal, saga)) }
	return c.attend(ctx, o.Program, &saga, find, act)
}

// CallOnce implements [turns.Memory]. Without a key, each call begins the saga id. With one, it looks at the row that has the
// key, and does what that asks for, until the call is answered or fails.
func (c *Core) CallOnce(ctx context.Context, q *turns.Request, id *tokens.ID) (turns.End, error) {
	saga := *id
	if q.IdempotencyKey == "" {
		t := c.newTurn(ctx, q, saga, nil)
		t.begun.Once, t.lazy = true, true
		end, err := t.take(ctx, nil)
		if errors.Is(err, errOvertaken) {
			tooSlow := errors.New("the first turn was not heard of for longer than its lease, so a worker undoes it")
			err = c.Turns.Failed(turns.Identity{Program: q.Program, Saga: saga}, tooSlow)
		}
		return end, err
	}
	key, digest := c.rows.hashID("key", q.Principal, q.IdempotencyKey), turns.DigestCall(q)
	find := func(ctx context.Context) (*row, error) { return c.rows.find(ctx, key) }
	take := func(r *row) (turns.End, error) {
		t := c.newTurn(ctx, q, *id, r)
		t.row.Request, t.row.Digest, t.begun.Digest = key, digest, digest
		t.row.Times.Keep = later(t.row.Times.Keep, c.clock.now().Add(keepKey))
		return t.take(ctx, nil)
	}
	return c.attend(ctx, q.Program, id, find, func(turn context.Context, r *row) (turns.End, error) {
		if r == nil {
			*id = saga
			return take(nil)
		}
		*id = r.Saga
		return c.callAgain(turn, q, r, digest, take)
	})
}

// callAgain answers a call whose key has a row, with what the same call before was answered once that is known. If the
// turn of that was lost, it is taken again.
func (c *Core) callAgain(ctx context.Context, q *turns.Request, r *row, digest []byte, take func(*row) (turns.End, error)) (turns.End, error) {
	switch {
	case r.Client == nil && bytes.Equal(r.Called, digest):
		return turns.End{}, turns.ErrTask
	case r.Client == nil || !bytes.Equal(r.Digest, digest):
		return turns.End{}, turns.ErrKeyReused
	}
	v, err := judge(r, 0, digest, howTurn)
	// With this policy, the earlier request takes all turns of its saga, and only it has the token.
	bound := q.Policy.UndoBroken && !r.Status.Over() && r.Client.Purpose != turns.Paged.Purpose
	switch {
	case err != nil:
		return turns.End{}, err
	case bound && r.now().Before(r.Client.Expires): // which may still take them
		return turns.End{}, c.await(ctx, r, func(now *row) time.Time { return now.Client.Expires })
	case v == wait, (bound || v == undone) && r.Until.After(r.now()): // a worker undoes it
		return turns.End{}, c.awaitTurn(ctx, r)
	case bound, v == undone: // it broke off
		return turns.End{}, c.releaseKey(ctx, r)
	case v == answeredBefore:
		return c.repeat(q, r)
	case r.Undoing != nil:
		if _, err = c.driveHere(ctx, r, q, nil, nil); err == nil {
			err = errOvertaken // the row is another one now
		}
		return turns.End{}, err
	}
	return take(r)
}

// releaseKey has the key of a call that broke off, or whose server is gone, begin another saga. It fails with
// [errOvertaken], as the row is another one then.
func (c *Core) releaseKey(ctx context.Context, r *row) error {
	next := r.clone()
	next.Request = store.ID{}
	if err := c.rows.write(ctx, next, 0, event{kind: kindRest}); err != nil {
		return overtaken(err)
	}
	return errOvertaken
}

// ResumeOnce implements [turns.Memory].
func (c *Core) ResumeOnce(ctx context.Context, q *turns.Request, o *turns.Opened) (turns.End, error) {
	as, digest := howTurn, turns.Digest(o.Position, q.Answers)
	var why error
	if o.Gone != nil {
		as, why = howAbandoned, &goneError{o.Gone.Reason}
	}
	return c.attendOpened(ctx, q, o, func(turn context.Context, r *row) (turns.End, error) {
		if isOlder(r, o) {
			c.Turns.Log.WarnContext(ctx, "the ledger is older than a token: it was restored from a backup", "tool", o.Program.Name, "saga", o.Saga.String())
		}
		v, err := judge(r, o.Position.Turn, digest, as)
		switch {
		case err != nil:
			return turns.End{}, err
		case v == answeredBefore:
			return c.repeat(q, r)
		case v == wait:
			return turns.End{}, c.awaitTurn(turn, r)
		case o.TooLate() && (r == nil || r.Client.Turn == nil):
			return turns.End{}, o.Gone // there is nothing to undo, nor to tell
		case as == howAbandoned || r != nil && r.Undoing != nil:
			return c.driveHere(turn, r, q, o, why)
		}
		t := c.newTurn(turn, q, o.Saga, r)
		t.begun.Digest = digest
		t.lazy = r == nil && q.Policy.UndoBroken && !o.Position.HasEffects() && q.IdempotencyKey == ""
		return t.take(turn, o)
	})
}

// isOlder reports whether a row, or that there is none, is from before a token was sealed.
func isOlder(r *row, o *turns.Opened) bool {
	if r == nil {
		return o.Gone == nil && len(o.Position.Ledger) > 0 // it has acted
	}
	return r.Client != nil && r.Client.Turn == nil && !r.Status.Over() && o.Position.Turn > r.Client.At
}

// awaitTurn waits until a row that another process holds has changed, or its lease is over. It fails with
// [errOvertaken] then, as the row is to be looked at again.
func (c *Core) awaitTurn(ctx context.Context, r *row) error {
	return c.await(ctx, r, func(now *row) time.Time { return now.Until })
}

// await is awaitTurn for another time than the end of the lease.
func (c *Core) await(ctx context.Context, r *row, until func(now *row) time.Time) error {
	last := r
	wake := func() time.Time { return time.Now().Add(until(last).Sub(last.now())) }
	for now, err := range c.follow(ctx, r.ID, wake, c.loading(ctx, r.ID)) {
		switch {
		case ctx.Err() != nil:
			return turns.UnderWay(ctx)
		case err != nil && !errors.Is(err, tasks.ErrNotFound):
			return err
		case err != nil, now == nil, now.Head != r.Head, !until(now).After(now.now()):
			return errOvertaken
		}
		last = now
	}
	return turns.UnderWay(ctx)
}

func (c *Core) repeat(q *turns.Request, r *row) (turns.End, error) {
	program, _ := c.Turns.ProgramOf(r.Tool, r.Revision)
	fail := func(err error) (turns.End, error) {
		return turns.End{}, c.Turns.Failed(turns.Identity{Program: program, Saga: r.Saga}, err)
	}
	if program == nil {
		return turns.End{}, turns.ErrNewer
	}
	if r.Client.Response == nil {
		return fail(turns.ErrNotKept)
	}
	end, failure, err := turns.DecodeResponse(r.Client.Response)
	switch {
	case err != nil:
		return fail(err)
	case failure != nil:
		return turns.End{}, turns.Repeated(program, r.Saga, failure)
	case !r.Status.Over():
		if err := q.Recorded(&end, r.Client.Token, r.Client.Purpose); err != nil {
			return turns.End{}, err
		}
	case r.Client.How == howAbandoned && r.Client.Report != nil:
		if end, err = undoneSince(end, r.Client.Report); err != nil {
			return fail(err)
		}
	}
	return end, nil
}

// undoneSince is the end of an abandoned saga, which is no turn's response, with the last report of its undo.
func undoneSince(end turns.End, last []byte) (turns.End, error) {
	now, _, err := turns.DecodeResponse(last)
	first, report := turns.UndoReport(end.Result), turns.UndoReport(now.Result)
	if err != nil || first == nil || report == nil {
		return end, err
	}
	undone := slices.Clone(first.Undone)
	for _, name := range first.Outstanding {
		if !slices.Contains(report.Outstanding, name) {
			undone = append(undone, name)
		}
	}
	report.Undone = undone
	end.Outcome = *engine.UndoneWith(report, turns.GoneText(end.Gone), true)
	return end, nil
}

// Identity implements [turns.Memory].
func (c *Core) Identity(ctx context.Context) ([]byte, error) {
	id := c.identity.Load()
	if id == nil {
		found, err := insist(ctx, &c.rows.reads, func() (store.ID, error) { return c.rows.store.Identity(ctx) })
		if err != nil {
			return nil, err
		}
		id = &found
		c.identity.Store(id)
	}
	return id[:8], nil // enough that no two have the same
}
