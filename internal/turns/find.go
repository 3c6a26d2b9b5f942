package turns

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

// found is what the ledger knows of a turn that is asked for.
type found struct {
	// entry is the saga's record. If known is set, nothing is to be done but to say what
	// was recorded; else the turn can be taken.
	entry *records.Entry
	known bool
	// taken is the claim of somebody who is gone; nil if there is none.
	taken *records.Claim
}

// find finds out whether a turn can be taken, and waits for it if somebody else does. The turn
// comes after from others and is identified by digest, unless it is only to undo.
func (r ledgered) find(ctx context.Context, principal string, of identity, from uint32, digest []byte, how records.How) (f found, err error) {
	e, err := r.records.Saga(ctx, principal, of.id)
	for err == nil {
		f.entry, f.taken = e, nil
		claim := e.Claim
		switch {
		case ctx.Err() != nil && claim == nil:
			return f, context.Cause(ctx)
		case ctx.Err() != nil:
			return f, underWay(ctx)
		case !e.Exists():
			return f, nil
		case answered(e, from, digest):
			f.known = true
			return f, nil
		case e.Ended && from == 0: // it broke off, and nobody was told of it
			return f, nil
		case e.Ended:
			return f, tokens.Reject(tokens.ReasonSpent, "the saga has ended")
		case from < e.At:
			return f, tokens.Reject(tokens.ReasonSpent, "the saga has gone on from here with other answers")
		case claim == nil:
			return f, nil
		case from == 0 && !claim.OfTurn(): // a first call that is repeated
			if !claim.Alive(r.leaseNow(ctx)) {
				return f, fmt.Errorf("%w: the saga is being undone", ErrLedger)
			}
		case claim.How == records.HowCancelled, claim.How == records.HowBroken:
			return f, tokens.Reject(tokens.ReasonSpent, "the saga is being undone")
		case claim.OfTurn() && how == records.HowTurn && !bytes.Equal(digest, claim.Digest):
			return f, tokens.Reject(tokens.ReasonSpent, "a turn with other answers was begun")
		case !claim.Alive(r.leaseNow(ctx)):
			f.taken = claim
			return f, nil
		}
		e, err = r.await(ctx, e)
	}
	return f, err
}

// underWay is why a turn that somebody else takes is not waited for any longer.
func underWay(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ErrUnderWay
	}
	return fmt.Errorf("while another request takes the turn: %w", context.Cause(ctx))
}

// answered reports whether what is recorded of a saga is the answer to a request.
func answered(e *records.Entry, from uint32, digest []byte) bool {
	switch {
	case e.How == records.HowTurn && bytes.Equal(digest, e.Digest) && from == e.From:
		return e.Ended || e.At > e.From
	case from > 0 && from == e.Page && from < e.At && e.How == records.HowTurn && (e.Ended || e.Purpose == Paged.Purpose):
		// The client was asked meanwhile, by whoever then missed the next part.
		return true
	case e.Ended && e.How == records.HowAbandoned:
		return from == 0 || from >= e.From // whatever the answers
	case from == 0: // a first call that is repeated leads to where its saga is
		return (e.At > 0 || e.Ended) && e.How != records.HowBroken
	}
	return false
}

// await waits until a record that is claimed changes, or its claim is over: at the latest when it
// was not renewed for as long as the lease of who has claimed it.
func (r ledgered) await(ctx context.Context, e *records.Entry) (*records.Entry, error) {
	left := max(e.Claim.Until.Sub(r.leaseNow(ctx)), time.Millisecond)
	waiting, cancel := context.WithTimeout(ctx, min(left, cmp.Or(e.Claim.Lease, leaseTime)))
	defer cancel()
	next, err := r.records.Wait(waiting, e)
	if ctx.Err() != nil {
		return next, underWay(ctx)
	}
	if err == nil || waiting.Err() == nil {
		return next, err
	}
	claim := *e.Claim
	claim.Until = time.Time{}
	same := e.Clone()
	same.Claim = &claim
	return same, nil
}
