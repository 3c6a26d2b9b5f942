package durable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
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
	// Page is the number of turns before the last one that was taken with a token of the policy
	// [turns.Paged].
	Page uint32 `cbor:"9,keyasint,omitempty"`
	// Expires is until when a token of the saga is good.
	Expires time.Time `cbor:"10,keyasint,omitzero"`
	// Undoable: it has done something that can be undone.
	Undoable bool `cbor:"11,keyasint,omitempty"`
	// Turn is under way, or was lost with the process that took it; nil if there is none.
	Turn *begunTurn `cbor:"12,keyasint,omitempty"`
	// Effects are the names of those that were begun.
	Effects []string `cbor:"13,keyasint,omitempty"`
}

// begunTurn is a turn that was begun at the row's stand.
type begunTurn struct {
	From    uint32    `cbor:"1,keyasint"`
	Digest  []byte    `cbor:"2,keyasint,omitempty"`
	Purpose string    `cbor:"3,keyasint"`
	Now     time.Time `cbor:"4,keyasint"`
	// Once: it cannot be asked for again, so a worker undoes it as soon as it is lost.
	Once bool `cbor:"5,keyasint,omitempty"`
}

// how says what a turn was.
type how uint8

const (
	// howTurn: an ordinary turn, whose response its client may ask for again.
	howTurn how = iota
	// howAbandoned: the saga was undone, as its token came too late.
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
	case from > 0 && from == c.Page && from < c.At && c.How == howTurn && (over || c.Purpose == turns.Paged.Purpose):
		// The client was asked meanwhile, and has then missed the next part.
		return true
	case over && c.How == howAbandoned:
		return from == 0 || from >= c.From // whatever the answers
	case from == 0: // a first call that is repeated leads to where its saga is
		return (c.At > 0 || over) && c.How != howBroken
	}
	return false
}

// CallOnce implements [turns.Memory].
func (c *Core) CallOnce(ctx context.Context, q *turns.Request, id *tokens.ID) (turns.End, error) {
	saga := c.Turns.NewID()
	*id = saga
	if q.IdempotencyKey == "" {
		t := c.newTurn(q, saga, nil)
		t.begun.Once, t.lazy = true, true
		end, err := t.start(ctx)
		if errors.Is(err, errOvertaken) {
			err = c.Turns.Failed(q.Program, saga, errTooSlow)
		}
		return end, err
	}
	turn := c.Turns.Begin(ctx)
	defer turn.Cancel()
	key, digest := c.rows.hashID("key", q.Principal, q.IdempotencyKey), turns.DigestCall(q, nil)
	for {
		r, err := c.rows.find(turn, key)
		if err != nil {
			return turns.End{}, c.Turns.Failed(q.Program, saga, spent(err))
		}
		if r != nil {
			*id = r.Saga
			switch {
			case r.Client == nil && bytes.Equal(r.Called, digest):
				return turns.End{}, c.Turns.Failed(q.Program, r.Saga, turns.ErrTask)
			case r.Client == nil || !bytes.Equal(r.Digest, digest):
				return turns.End{}, c.Turns.Failed(q.Program, r.Saga, turns.ErrKeyReused)
			}
		}
		if turn.Err() != nil {
			return turns.End{}, c.Turns.Failed(q.Program, *id, context.Cause(turn))
		}
		v, err := judge(r, 0, digest, howTurn)
		held := err == nil && r != nil && q.Policy.UndoBroken && !r.Status.Over() && r.Client.Purpose != turns.Paged.Purpose
		switch {
		case err != nil:
			return turns.End{}, c.Turns.Failed(q.Program, *id, err)
		case held && r.now().Before(r.Client.Expires): // another request takes all turns of the saga, and is at it
			if err := c.await(turn, r, func(now *row) time.Time { return now.Client.Expires }); err != nil {
				return turns.End{}, c.Turns.Failed(q.Program, *id, err)
			}
			continue
		case v == wait:
			if err := c.awaitTurn(turn, r); err != nil {
				return turns.End{}, c.Turns.Failed(q.Program, *id, err)
			}
			continue
		case v == answeredBefore && !held:
			return c.repeat(q, r)
		case v == undone, held:
			if err := c.releaseKey(turn, r); err != nil {
				return turns.End{}, c.Turns.Failed(q.Program, *id, err)
			}
			continue
		}
		if r != nil && r.Undoing != nil {
			if _, err := c.driveHere(turn, r, nil); err != nil && !errors.Is(err, errOvertaken) {
				return turns.End{}, c.Turns.Failed(q.Program, *id, err)
			}
			continue
		}
		end, err := c.takeCall(turn, q, r, saga, key, digest)
		if !errors.Is(err, errOvertaken) {
			return end, err
		}
	}
}

// releaseKey has the key of a call that broke off, or whose server is gone, begin another saga.
func (c *Core) releaseKey(ctx context.Context, r *row) error {
	next := r.clone()
	next.Fence++
	next.Request = store.ID{}
	err := c.rows.write(ctx, next, 0, 0, event{kind: kindRest})
	if errors.Is(err, store.ErrConflict) {
		err = nil // it is looked at again
	}
	return err
}

// takeCall takes the first turn of a call with an idempotency key, or continues one that was lost.
func (c *Core) takeCall(ctx context.Context, q *turns.Request, r *row, saga tokens.ID, key store.ID, digest []byte) (turns.End, error) {
	if r != nil {
		saga = r.Saga
	}
	t := c.newTurn(q, saga, r)
	t.row.Request, t.row.Digest, t.begun.Digest = key, digest, digest
	t.keep = c.clock.now().Add(keepKey)
	if r == nil || r.Client.Turn == nil || len(r.Stand.Position) == 0 {
		return t.start(ctx)
	}
	return t.goOnFromStand(ctx)
}

// errTooSlow: there is nothing more to say, as the turn cannot be asked for again.
var errTooSlow = errors.New("the first turn was not heard of for longer than its lease, so a worker undoes it")

// ResumeOnce implements [turns.Memory].
func (c *Core) ResumeOnce(ctx context.Context, q *turns.Request, o *turns.Opened) (turns.End, error) {
	turn := c.Turns.Begin(ctx)
	defer turn.Cancel()
	fail := func(err error) (turns.End, error) {
		return turns.End{}, c.Turns.Failed(o.Program(), o.Saga(), spent(err))
	}
	as, digest := howTurn, turns.Digest(o.Position(), q.Answers)
	if o.Gone() != nil {
		as = howAbandoned
	}
	for {
		r, err := c.rows.load(turn, c.rows.sagaID(q.Principal, o.Saga()))
		if err != nil {
			return fail(err)
		}
		v, err := judge(r, o.Position().Turn, digest, as)
		switch {
		case turn.Err() != nil:
			return fail(context.Cause(turn))
		case err != nil:
			return fail(err)
		case v == answeredBefore:
			return c.repeat(q, r)
		case v == wait:
			if err := c.awaitTurn(turn, r); err != nil {
				return fail(err)
			}
			continue
		case o.TooLate() && (r == nil || r.Client.Turn == nil):
			return turns.End{}, o.Gone() // there is nothing to undo, nor to tell
		}
		if as == howAbandoned || r != nil && r.Undoing != nil {
			end, err := c.driveHere(turn, r, &undoRequest{q: q, o: o, why: goneWhy(o)})
			switch {
			case errors.Is(err, errOvertaken):
				continue
			case err != nil:
				return fail(err)
			}
			return *end, nil
		}
		t := c.newTurn(q, o.Saga(), r)
		t.begun.Digest = digest
		t.lazy = q.Policy.UndoBroken && !o.Position().HasEffects() && q.IdempotencyKey == ""
		end, err := t.resume(turn, o)
		if !errors.Is(err, errOvertaken) {
			return end, err
		}
	}
}

// spent refuses a request whose saga is forgotten.
func spent(err error) error {
	if errors.Is(err, ErrUnreadable) {
		return tokens.Reject(tokens.ReasonSpent, "%w", err)
	}
	return err
}

// awaitTurn waits until a row has changed that another process holds, or its lease is over.
func (c *Core) awaitTurn(ctx context.Context, r *row) error {
	return c.await(ctx, r, func(now *row) time.Time { return now.Until })
}

// await waits until a row has changed, or the time has come that until says.
func (c *Core) await(ctx context.Context, r *row, until func(now *row) time.Time) error {
	changed, stop := c.hub.wait(r.ID)
	defer stop()
	for { // changes before it was listened for do not ring, and not every ring is a change
		now, err := c.rows.load(ctx, r.ID)
		if err != nil || now == nil || now.Head != r.Head || !until(now).After(now.now()) {
			return err
		}
		timer := time.NewTimer(min(c.Poll, max(until(now).Sub(now.now()), time.Millisecond)))
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return turns.UnderWay(ctx)
		}
	}
}

var errResponse = errors.New("the turn was taken before, and its response was too large to be kept")

// repeat is what a turn was answered before.
func (c *Core) repeat(q *turns.Request, r *row) (turns.End, error) {
	program, _ := c.Turns.ProgramOf(r.Tool, r.Revision)
	fail := func(err error) (turns.End, error) { return turns.End{}, c.Turns.Failed(program, r.Saga, err) }
	if program == nil {
		return turns.End{}, turns.ErrNewer
	}
	if r.Client.Response == nil {
		return fail(errResponse)
	}
	end, failure, err := turns.DecodeResponse(r.Client.Response)
	switch {
	case err != nil:
		return fail(err)
	case failure != nil:
		return turns.End{}, turns.Repeated(program, r.Saga, failure)
	case !r.Status.Over():
		end.Token, end.Policy = r.Client.Token, turns.PolicyNamed(r.Client.Purpose)
		if !q.KnownTo(&end) {
			return turns.End{}, turns.ErrAsked
		}
	}
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

// PutBlob implements [turns.Memory].
func (c *Core) PutBlob(ctx context.Context, principal string, id [16]byte, data []byte, until time.Time) error {
	r := &row{read: time.Now(), state: state{Stand: stand{Position: data}}}
	r.Record = store.Record{
		ID: c.rows.hashID("blob", principal, string(id[:])), Audience: c.rows.audience, Account: c.rows.owner(principal),
		Tool: blobTool, Mode: store.ModeClient, Status: store.Waiting, Keep: until,
	}
	return fullLedger(c.rows.write(ctx, r, 0, max(0, c.MaxSagas), event{kind: kindBegun}))
}

// blobTool is in place of the name of a tool, none of which has parentheses.
const blobTool = "(blob)"

// Blob implements [turns.Memory].
func (o *Operator) Blob(ctx context.Context, principal string, id [16]byte) ([]byte, error) {
	r, err := o.rows.load(ctx, o.rows.hashID("blob", principal, string(id[:])))
	if errors.Is(err, ErrUnreadable) {
		return nil, nil // it is forgotten
	}
	if r == nil || err != nil {
		return nil, err
	}
	return r.Stand.Position, nil
}

// fullLedger says in words of package turns that an account is full.
func fullLedger(err error) error {
	if errors.Is(err, store.ErrFull) {
		return turns.ErrLedgerFull
	}
	return err
}
