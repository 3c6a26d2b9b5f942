package turns

import (
	"context"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

// A part of a result goes out with a token, with which the client may go on or not (SEP-1003). Clients of the saga proposal
// get the token that they carry anyway, all others one of the policy [Paged]: also where the server holds the token
// otherwise.

// policyOf returns the policy of the token of a turn that has suspended with out.
func (q *Request) policyOf(out *engine.Outcome) Policy {
	switch {
	case out.Yielded != nil && q.Policy.Purpose != Carried.Purpose:
		return Paged
	case q.Asks.Purpose != "":
		return q.Asks
	}
	return q.Policy
}

func (r *Runner) sealNext(ctx context.Context, q *Request, t *engine.Program, end *End) (err error) {
	if end.Policy = q.policyOf(&end.Outcome); end.Policy != q.Policy {
		other := *q
		other.Policy = end.Policy
		q = &other
	}
	if end.Yielded != nil {
		end.Expires = r.Now().Add(r.Codec.Options().TTL)
		if at := end.Position.Deadline; !at.IsZero() && at.Before(end.Expires) {
			end.Expires = at
		}
	}
	end.Token, err = r.Seal(ctx, q, t, end.Position)
	return err
}

// ErrAsked: the saga has gone on by a way of which the client that brings the token knows
// nothing.
var ErrAsked = tokens.Reject(tokens.ReasonSpent, "the saga has gone on from here with a client of another protocol")

// Recorded has end, which was recorded, hold the token that was recorded with it, whose policy had that purpose. It fails
// with [ErrAsked] if that is of no use to the client that asks for it now.
func (q *Request) Recorded(end *End, token, purpose string) error {
	end.Token, end.Policy = token, q.policyOf(&end.Outcome)
	if token != "" && end.Policy.Purpose != purpose {
		return ErrAsked
	}
	return nil
}
