package turns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/steps"
)

// cancelOnce ends a saga that is remembered, where it is now. If a turn is under way it
// waits for that.
func (r *Runner) cancelOnce(ctx context.Context, q *Request, o *opened) (End, error) {
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
func (r *Runner) cancelAt(ctx context.Context, q *Request, o *opened, e *records.Entry) (End, error) {
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
	end, err := r.undo(ctx, m, o, gone)
	end.Gone = "" // the client has ended it
	if m.lazy = q.Policy.UndoBroken && !e.Exists(); m.lazy && !m.claimed() {
		return end, err // its token goes nowhere
	}
	end, err = r.settleUndo(ctx, m, gone == "" && !e.Ended, end, err)
	if err == nil && end.Result == nil {
		end = tooLate(o, end)
	}
	return end, err
}

// settleUndo is settle for an undo. A cancel that comes too late, as what was done is final, leaves
// the saga as it was if it waits and nobody has begun to undo anything: it can only go on.
func (r *Runner) settleUndo(ctx context.Context, m *memory, waits bool, end End, err error) (End, error) {
	report := undoReport(end.Result)
	stays := err == nil && waits && report != nil && report.Final != "" &&
		len(report.Undone)+len(report.Outstanding) == 0 && (m.lost == nil || m.lost.Undo == nil)
	if !stays {
		return r.settle(ctx, m, end, err)
	}
	err = m.write(ctx, func(e *records.Entry) {
		m.waits(e)
		if m.lost == nil || m.lost.Turn == nil {
			return
		}
		// Nobody knows how the turn has ended that was lost: whoever asks for it takes it again.
		lost := *m.taken
		lost.How, lost.Digest, lost.Until = records.HowTurn, m.lost.Turn, time.Time{}
		e.Claim, e.Wake, e.KeepUntil = &lost, later(m.r.due(e), m.r.Now()), time.Time{}
	})
	if err != nil && !errors.Is(err, errOvertaken) {
		err = r.failed(m.of, err)
	}
	return end, err
}

// undo ends the saga of m and undoes what it did, from the newest position that the ledger
// knows of; base is one that the client has brought, or nil. What a turn did that was begun
// and lost is found and undone as well, unless it ended the saga well. gone is why the saga
// cannot go on, or empty if the client cancels it. m is claimed first if there is anything
// to undo.
func (r *Runner) undo(ctx context.Context, m *memory, base *opened, gone tokens.Reason) (End, error) {
	if m.lost != nil && m.lost.Undo != nil {
		return r.undoRest(ctx, m, gone)
	}
	e, o := m.entry, base
	first := e.Exists() && e.Token == "" && e.At == 0 && base == nil
	if e.Exists() && e.Token != "" && (base == nil || base.pos.Turn <= e.At) {
		own, err := r.reopen(ctx, e.Principal, Policy{Purpose: e.Purpose}, e.Token)
		if err != nil {
			return End{}, r.failed(m.of, fmt.Errorf("the newest token of the saga does not open: %w", err))
		}
		o = own
	}
	if o == nil && !first {
		return End{}, r.failed(m.of, errors.New("the saga's record has no token to undo it from"))
	}
	asked := &m.request
	if m.lost != nil {
		asked = m.lost // its answers count, whatever the client says now
		m.request.Answers, m.request.Arguments, m.request.Turn, m.request.Now = asked.Answers, asked.Arguments, asked.Turn, asked.Now
		m.request.Resent, m.request.Client, m.request.Base = asked.Resent, asked.Client, asked.Base
	} else if e.Exists() {
		asked.Answers = nil // a turn with them would have been recorded
	}
	answers := answersOf(asked.Answers)
	if base := asked.Base; base != nil {
		own, err := r.reopen(ctx, e.Principal, basePolicy, base.Token)
		if err != nil {
			return End{}, r.failed(m.of, fmt.Errorf("where the saga was lost cannot be found: %w", err))
		}
		lost := *asked
		lost.Now, lost.Resent = base.Now, false // that token has the arguments
		asked, o, answers, first = &lost, own, answersOf(base.Answers), false
	}
	if first || o.pos.HasEffects() || asked.Turn != nil || len(asked.Answers) > 0 {
		if err := m.claim(ctx); err != nil {
			return End{}, r.failed(m.of, err)
		}
	}
	turn := r.begin(ctx)
	defer turn.Cancel()
	var out *engine.Outcome
	var err error
	if first {
		out, err = m.of.program.CancelFirst(turn, engine.Call{ID: m.of.id, Now: asked.Now, Client: r.Features(asked.Client), Arguments: asked.Arguments, Undoing: m.undoing})
	} else {
		m.of = o.identity
		res := engine.Resumption{Now: asked.Now, Client: r.Features(asked.Client), Answers: answers, Held: asked.Turn != nil || m.lost != nil && len(answers) > 0, Latest: e.Exists()}
		if res.Held || len(answers) > 0 { // otherwise the token tells all that is to be undone
			res.Undoing = m.undoing
		}
		res.Lost = res.Held
		if asked.Resent && (res.Held || len(res.Answers) > 0) {
			res.Arguments = orEmpty(asked.Arguments)
			ids := o.pos.PendingIDs()
			res.Answers = slices.DeleteFunc(res.Answers, func(a steps.Answer) bool { return !slices.Contains(ids, a.StepID) })
		}
		if gone != "" {
			res.Why = abandonedText(gone)
		}
		out, err = o.program.Cancel(turn, o.pos, res)
		carryEnd(out, o.pos)
	}
	end, err := r.finishUndo(turn, m, out, err, gone, asked.Purpose)
	if err == nil && asked.Turn != nil && end.ofTurn() {
		// The turn was not lost after all.
		m.how, m.digest = records.HowTurn, asked.Turn
	} else if err == nil {
		end.Gone = gone
	}
	return end, err
}

// undoRest goes on with an undo that somebody has begun after the turn had run. If the turn had
// ended the saga, it ends as the turn has, whoever asks now, unless the client cancels it.
func (r *Runner) undoRest(ctx context.Context, m *memory, gone tokens.Reason) (End, error) {
	lost := m.lost
	o, err := r.reopen(ctx, m.entry.Principal, basePolicy, lost.Undo.Token)
	if err != nil {
		return End{}, r.failed(m.of, fmt.Errorf("what is to be undone cannot be read: %w", err))
	}
	m.of, m.request.Undo, m.request.Turn = o.identity, lost.Undo, lost.Turn
	m.request.Arguments, m.request.Answers = nil, nil
	how := m.how
	asTurned := lost.Undo.Response != nil && how != records.HowCancelled
	if asTurned {
		m.how, m.digest, how = records.HowTurn, lost.Turn, records.HowFailed
	}
	if err := m.hold(ctx, how); err != nil {
		return End{}, r.failed(m.of, err)
	}
	turn := r.begin(ctx)
	defer turn.Cancel()
	if !asTurned {
		res := engine.Resumption{Now: r.Now(), Latest: true}
		if gone != "" {
			res.Why = abandonedText(gone)
		}
		out, err := o.program.Cancel(turn, o.pos, res)
		end, err := r.finishUndo(turn, m, out, err, gone, lost.Purpose)
		if err == nil {
			end.Gone = gone
		}
		return end, err
	}
	end, failure, err := decodeResponse(lost.Undo.Response)
	if err != nil {
		return End{}, r.failed(m.of, err)
	}
	u := engine.Undoing{Position: o.pos, Err: failure}
	if failure == nil {
		u.Outcome = &end.Outcome
	}
	out, err := o.program.Undo(turn, u)
	return r.finishUndo(turn, m, out, err, "", lost.Purpose)
}

// finishUndo brings an undo to its end.
func (r *Runner) finishUndo(ctx context.Context, m *memory, out *engine.Outcome, err error, gone tokens.Reason, purpose string) (End, error) {
	if err == nil && gone != "" && undoReportOf(out) != nil {
		result := *out.Result
		result.IsError = true
		out.Result = &result
	}
	q := Request{Policy: Policy{Purpose: purpose}, Principal: m.principal()}
	return r.finish(ctx, &q, m.of, out, err, false, m)
}

func undoReportOf(out *engine.Outcome) *engine.UndoReport {
	if out == nil {
		return nil
	}
	return undoReport(out.Result)
}

// reopen opens a token that is in a record. If it is refused the error says why, which for
// tokens from outside only the log does.
func (r *Runner) reopen(ctx context.Context, principal string, p Policy, token string) (*opened, error) {
	q := Request{Policy: p, Principal: principal, Token: token, own: true}
	o, err := r.open(ctx, &q, true)
	if rejected := (*tokens.Rejected)(nil); errors.As(err, &rejected) {
		err = fmt.Errorf("%w: %s, %w", err, rejected.Reason, rejected.Detail)
	}
	return o, err
}

// became tells a client that cancels what became of a saga that has ended.
func (r *Runner) became(o *opened, e *records.Entry, digest []byte) (End, error) {
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
	report := undoReport(end.Result)
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
