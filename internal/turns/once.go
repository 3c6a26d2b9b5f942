package turns

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

// Errors of runners with a ledger.
var (
	// ErrLedger: the ledger cannot be used at present. The same request may succeed later.
	ErrLedger = records.ErrUnavailable
	// ErrUnderWay: the turn was asked for before, and did not end in the time that this request
	// may wait. The same request may succeed later.
	ErrUnderWay = errors.New("the turn is still under way")
	// ErrLedgerFull: the principal has as many records in the ledger as it may have.
	ErrLedgerFull = records.ErrFull
	// ErrKeyReused: a first call came with the idempotency key of another one.
	ErrKeyReused = errors.New("the idempotency key was used before, for a call of another tool, with other arguments, by another protocol, or as a task: repeat a call as it was made first, and use a new key for each other one")
)

// ledgered takes the turns of sagas that the ledger remembers: each turn once.
type ledgered struct{ *Runner }

// keepCall is how long a first call with an idempotency key is remembered at least.
const keepCall = 24 * time.Hour

// callOnce takes the first turn of a saga that is remembered. id is told whose turn it was.
func (r ledgered) callOnce(ctx context.Context, q *Request, of identity, id *tokens.ID) (End, error) {
	*id = of.id
	if q.IdempotencyKey == "" {
		return r.callWithoutKey(ctx, q, of)
	}
	turn := r.begin(ctx)
	defer turn.Cancel()
	for {
		c, err := r.findCall(turn, q, of)
		if err != nil {
			return End{}, r.failed(of, err)
		}
		of.id = tokens.ID(c.ID)
		*id = of.id
		switch c.state {
		case callAnswered:
			return r.known(q, of, c.entry)
		case callDriven:
			if _, err := r.records.Wait(turn, c.entry); err != nil {
				if turn.Err() != nil {
					err = underWay(turn)
				}
				return End{}, r.failed(of, err)
			}
		case callOver:
			of.id = r.NewID()
			next := *c.Call
			next.ID, next.Digest = of.id[:], DigestCall(q, of.id[:])
			if err := r.records.PutCall(turn, &next); err != nil && !errors.Is(err, records.ErrConflict) {
				return End{}, r.failed(of, err)
			}
		case callOpen:
			end, err := r.takeCall(turn, q, of, c)
			if !errors.Is(err, errOvertaken) {
				return end, err
			}
		}
	}
}

// callWithoutKey takes a first turn that nobody can ask for again. It leaves a record only if it
// acts: then others can undo it.
func (r ledgered) callWithoutKey(ctx context.Context, q *Request, of identity) (End, error) {
	m := &remembered{r: r, of: of, request: r.requestOf(q), digest: digestAnswers(nil, nil), lazy: true}
	m.request.Turn, m.entry = m.digest, r.records.Fresh(q.Principal, of.id)
	end, err := r.start(ctx, q, of, m)
	end, err = m.settle(ctx, end, err)
	switch {
	case errors.Is(err, errOvertaken):
		err = r.failed(of, errTooSlow)
	case err == nil && end.Token != "" && !m.claimed() && !end.Policy.UndoBroken:
		r.records.Unrecorded(m.entry)
	}
	return end, err
}

// callState is what has become of a first call that came with an idempotency key.
type callState int

const (
	// callOpen: its turn can be taken.
	callOpen callState = iota
	// callAnswered: its turn was taken. What is to be said is recorded.
	callAnswered
	// callDriven: another request takes all turns of its saga, and is at it.
	callDriven
	// callOver: its saga broke off and was undone, and nobody has had an answer. It begins
	// another one.
	callOver
)

// foundCall is what the ledger knows of a first call that came with an idempotency key.
type foundCall struct {
	*records.Call
	found
	state callState
}

// findCall finds out what has become of a first call, and remembers it as one of the saga of if it
// is new. If somebody takes its turn it waits for that.
func (r ledgered) findCall(ctx context.Context, q *Request, of identity) (c foundCall, err error) {
	now := r.Now()
	first := records.Call{ID: of.id[:], Digest: DigestCall(q, of.id[:]), Keep: now.Add(keepCall)}
	if c.Call, _, err = r.records.Call(ctx, q.Principal, q.IdempotencyKey, first); err != nil {
		return c, err
	}
	if len(c.ID) != len(of.id) || !bytes.Equal(c.Digest, DigestCall(q, c.ID)) {
		return c, ErrKeyReused
	}
	of.id = tokens.ID(c.ID)
	if c.found, err = r.find(ctx, q.Principal, of, 0, c.Digest, records.HowTurn); err != nil {
		return c, err
	}
	switch held := q.Policy.UndoBroken && c.entry.Exists() && !c.entry.Ended && c.entry.Purpose != Paged.Purpose; {
	case held && now.Before(c.entry.Expires):
		c.state = callDriven
	case held:
		c.state = callOver
	case c.known:
		c.state = callAnswered
	case c.entry.Ended:
		c.state = callOver
	}
	return c, nil
}

// takeCall takes the turn of a first call with an idempotency key, or goes on with what somebody
// did who is gone. It fails with [errOvertaken] if somebody else is faster.
func (r ledgered) takeCall(ctx context.Context, q *Request, of identity, c foundCall) (end End, err error) {
	m := &remembered{r: r, of: of, request: r.requestOf(q), digest: c.Digest, keep: c.Keep}
	m.expires = r.Now().Add(r.Codec.Options().TTL)
	m.request.Turn = m.digest
	if err := m.takeOver(&c.found); err != nil {
		return End{}, r.failed(of, err)
	}
	switch {
	case m.lost == nil:
		end, err = r.start(ctx, q, of, m)
	case m.lost.Undo != nil:
		end, err = m.undo(ctx, nil, "")
	case m.lost.Base != nil:
		end, err = m.goOnFromBase(ctx, q)
	default:
		end, err = r.start(ctx, q, of, m)
	}
	return m.settle(ctx, end, err)
}

// DigestCall identifies what a first call asks for, whatever its spelling. The id of its saga may be in it.
func DigestCall(q *Request, id []byte) []byte {
	h := sha256.New()
	fmt.Fprintf(h, "mcpsaga call 1 %q %q ", q.Program.Target, q.Policy.Purpose)
	h.Write(id)
	h.Write([]byte(canonical(orEmpty(q.Arguments))))
	return h.Sum(nil)
}

// ClaimKey has the idempotency key of a first call be that of a task, if there is one. It fails with
// [ErrKeyReused] if the key is that of another call, or of the same one that was no task or came by
// another protocol. A task is found by its key, so the record names no saga.
func (r *Runner) ClaimKey(ctx context.Context, q *Request) error {
	if q.IdempotencyKey == "" || !q.Program.Remembered() {
		return nil
	}
	digest := DigestCall(q, nil)
	c, _, err := r.records.Call(ctx, q.Principal, q.IdempotencyKey, records.Call{Digest: digest, Keep: r.Now().Add(keepCall)})
	if err == nil && !bytes.Equal(c.Digest, digest) {
		return ErrKeyReused
	}
	return err
}

// resumeOnce takes a later turn of a saga that is remembered: once.
func (r ledgered) resumeOnce(ctx context.Context, q *Request, o *opened) (End, error) {
	turn := r.begin(ctx)
	defer turn.Cancel()
	how := records.HowTurn
	if o.gone != nil {
		how = records.HowAbandoned
	}
	digest := digestAnswers(o.pos.PendingIDs(), q.Answers)
	// Nobody but this request can take the turns of a saga whose token stays here, so there
	// is nothing to remember before it acts.
	lazy := q.Policy.UndoBroken && !o.pos.HasEffects() && q.IdempotencyKey == ""
	for try := 0; ; try++ {
		var f found
		if try == 0 {
			f.entry = r.recent(q, o, how)
		}
		if f.entry == nil && lazy && try == 0 {
			f.entry = r.records.Fresh(q.Principal, o.id)
		}
		if f.entry == nil {
			var err error
			if f, err = r.find(turn, q.Principal, o.identity, o.pos.Turn, digest, how); err != nil {
				return End{}, r.failed(o.identity, err)
			}
		}
		switch {
		case f.known:
			return r.known(q, o.identity, f.entry)
		case f.taken == nil && o.tooLate(): // and there is nothing to undo, nor to tell
			return End{}, o.gone
		}
		m, err := r.remember(q, o, &f)
		if err != nil {
			return End{}, r.failed(o.identity, err)
		}
		m.how, m.digest, m.lazy = how, digest, lazy
		if how == records.HowTurn {
			m.request.Turn = digest
		}
		end, err := m.takeTurn(turn, q, o, f.taken)
		end, err = m.settle(turn, end, err)
		if !errors.Is(err, errOvertaken) {
			return end, err
		}
	}
}

// recent returns the record of a saga if it is known, without asking the store, that the turn could
// be taken a moment ago. If it cannot be any more, it can be neither claimed nor recorded, and is looked
// up then.
func (r ledgered) recent(q *Request, o *opened, how records.How) *records.Entry {
	if how != records.HowTurn {
		return nil
	}
	e := r.records.Recent(q.Principal, o.id)
	if e == nil || e.Exists() && e.At != o.pos.Turn || !e.Exists() && o.pos.Turn != 1 {
		return nil
	}
	return e
}

// remember returns what is to be remembered of a turn that comes after an opened token.
func (r ledgered) remember(q *Request, o *opened, f *found) (*remembered, error) {
	m := &remembered{
		r: r, of: o.identity, request: r.requestOf(q), from: o.pos.Turn,
		token: q.Token, effects: o.pos.Effects(), expires: o.expires, undoable: o.pos.HasEffects(),
	}
	if q.Policy.Purpose == Paged.Purpose {
		// Whoever takes the saga to its end: the client may come with this token again.
		m.keep, m.page = o.expires, o.pos.Turn
	}
	return m, m.takeOver(f)
}

// errTooSlow: there is nothing more to say, as nobody can ask for the turn again.
var errTooSlow = errors.New("the first turn was not heard of for longer than its lease, so another worker undoes it")

var errResponse = errors.New("the turn was taken before, and its response was too large to be kept")

// known is what was recorded of a turn.
func (r ledgered) known(q *Request, of identity, e *records.Entry) (End, error) {
	if e.Response == nil {
		return End{}, r.failed(of, errResponse)
	}
	end, failure, err := decodeResponse(e.Response)
	if err != nil {
		return End{}, r.failed(of, err)
	}
	if failure != nil {
		return End{}, &Error{program: of.program.Name, kind: of.program.Kind, saga: of.id, recorded: true, Err: failure}
	}
	if !e.Ended {
		end.Token, end.Policy = e.Token, policyNamed(e.Purpose)
		if !q.knownTo(&end) {
			return End{}, errAsked
		}
	}
	return end, nil
}

// ofTurn reports whether this is the end of a turn, rather than of what undid it.
func (end *End) ofTurn() bool {
	return end.Messages != nil || end.Contents != nil || end.Result != nil && UndoReport(end.Result) == nil
}
