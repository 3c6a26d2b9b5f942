package turns

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

// cancelOnce ends a saga that is remembered, where it is now. If a turn is under way it
// waits for that.
func (r ledgered) cancelOnce(ctx context.Context, q *Request, o *opened) (End, error) {
	turn := r.begin(ctx)
	defer turn.Cancel()
	digest := digestAnswers(o.pos.PendingIDs(), q.Answers)
	e, err := r.records.Saga(turn, q.Principal, o.id)
	for {
		switch {
		case err != nil:
			return End{}, r.failed(o.identity, err)
		case turn.Err() != nil:
			return End{}, r.failed(o.identity, underWay(turn))
		case o.tooLate() && !e.Exists():
			return End{}, o.gone
		case e.Ended && e.Token == "":
			return r.became(o, e, digest)
		case e.Claim.Alive(r.leaseNow(turn)):
			e, err = r.await(turn, e)
			continue
		}
		end, err2 := r.cancelAt(turn, q, o, e)
		if !errors.Is(err2, errOvertaken) {
			return end, err2
		}
		e, err = r.records.Saga(turn, q.Principal, o.id)
	}
}

// cancelAt ends a saga of which nobody takes a turn.
func (r ledgered) cancelAt(ctx context.Context, q *Request, o *opened, e *records.Entry) (End, error) {
	m, err := r.remember(q, o, &found{entry: e, taken: e.Claim})
	if err != nil {
		return End{}, r.failed(o.identity, err)
	}
	m.how, m.from, m.digest = records.HowCancelled, max(e.At, o.pos.Turn), []byte("cancelled")
	if q.Policy.UndoBroken {
		m.how = records.HowBroken
	}
	gone := tokens.Reason("")
	if o.gone != nil {
		gone = o.gone.Reason
	}
	end, err := m.undo(ctx, o, gone)
	end.Gone = "" // the client has ended it
	if m.lazy = q.Policy.UndoBroken && !e.Exists(); m.lazy && !m.claimed() {
		return end, err // its token goes nowhere
	}
	end, err = m.settleUndo(ctx, gone == "" && !e.Ended, end, err)
	if err == nil && end.Result == nil {
		end = tooLate(o, end)
	}
	return end, err
}

// reopen opens a token that is in a record. If it is refused the error says why, which for
// tokens from outside only the log does.
func (r ledgered) reopen(ctx context.Context, principal string, p Policy, token string) (*opened, error) {
	q := Request{Policy: p, Principal: principal, Token: token, own: true}
	o, err := r.open(ctx, &q, true)
	if rejected := (*tokens.Rejected)(nil); errors.As(err, &rejected) {
		err = fmt.Errorf("%w: %s, %w", err, rejected.Reason, rejected.Detail)
	}
	return o, err
}

// became tells a client that cancels what became of a saga that has ended.
func (r ledgered) became(o *opened, e *records.Entry, digest []byte) (End, error) {
	raw := e.Response
	if e.Report != nil {
		raw = e.Report
	}
	if raw == nil {
		return End{Outcome: engine.Outcome{Result: content.Resultf("The saga has ended before.")}, recorded: true}, nil
	}
	end, failure, err := decodeResponse(raw)
	if err != nil {
		return End{}, r.failed(o.identity, err)
	}
	if failure != nil || end.Result == nil {
		return tooLate(o, end), nil
	}
	report := UndoReport(end.Result)
	lost := e.How == records.HowTurn && e.From == o.pos.Turn && bytes.Equal(e.Digest, digest)
	switch {
	case report == nil && lost: // the response was lost, which is why it is cancelled
	case report == nil || report.Final != "":
		told := &content.Result{IsError: true}
		told.Content = append(content.Resultf("Not cancelled: it is too late. The saga has ended:").Content, end.Result.Content...)
		end.Result = told
	default:
		undone := *end.Result
		undone.IsError = false
		end.Result = &undone
	}
	end.Gone = ""
	return end, nil
}

// tooLate is what a client is told that cancels a prompt or a resource that has ended, whose
// ends are no tool results.
func tooLate(o *opened, end End) End {
	end.Outcome = engine.Outcome{Result: content.Resultf("It was too late to cancel: the %v has ended.", o.program.Kind)}
	return end
}
