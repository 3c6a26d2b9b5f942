package turns

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/steps"
)

// settleUndo is settle for an undo. A cancel that comes too late, as what was done is final, leaves
// the saga as it was if it waits and nobody has begun to undo anything: it can only go on.
func (m *remembered) settleUndo(ctx context.Context, waits bool, end End, err error) (End, error) {
	report := UndoReport(end.Result)
	stays := err == nil && waits && report != nil && report.Final != "" &&
		len(report.Undone)+len(report.Outstanding) == 0 && (m.lost == nil || m.lost.Undo == nil)
	if !stays {
		return m.settle(ctx, end, err)
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
		err = m.r.failed(m.of, err)
	}
	return end, err
}

// undo ends the saga of m and undoes what it did, from the newest position that the ledger
// knows of; base is one that the client has brought, or nil. What a turn did that was begun
// and lost is found and undone as well, unless it ended the saga well. gone is why the saga
// cannot go on, or empty if the client cancels it. m is claimed first if there is anything
// to undo.
func (m *remembered) undo(ctx context.Context, base *opened, gone tokens.Reason) (End, error) {
	if m.lost != nil && m.lost.Undo != nil {
		return m.undoRest(ctx, gone)
	}
	e, o := m.entry, base
	first := e.Exists() && e.Token == "" && e.At == 0 && base == nil
	if e.Exists() && e.Token != "" && (base == nil || base.pos.Turn <= e.At) {
		own, err := m.r.reopen(ctx, e.Principal, Policy{Purpose: e.Purpose}, e.Token)
		if err != nil {
			return End{}, m.r.failed(m.of, fmt.Errorf("the newest token of the saga does not open: %w", err))
		}
		o = own
	}
	if o == nil && !first {
		return End{}, m.r.failed(m.of, errors.New("the saga's record has no token to undo it from"))
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
		own, err := m.r.reopen(ctx, e.Principal, basePolicy, base.Token)
		if err != nil {
			return End{}, m.r.failed(m.of, fmt.Errorf("where the saga was lost cannot be found: %w", err))
		}
		lost := *asked
		lost.Now, lost.Resent = base.Now, false // that token has the arguments
		asked, o, answers, first = &lost, own, answersOf(base.Answers), false
	}
	if first || o.pos.HasEffects() || asked.Turn != nil || len(asked.Answers) > 0 {
		if err := m.claim(ctx); err != nil {
			return End{}, m.r.failed(m.of, err)
		}
	}
	turn := m.r.begin(ctx)
	defer turn.Cancel()
	var out *engine.Outcome
	var err error
	if first {
		out, err = m.of.program.CancelFirst(turn, engine.Call{ID: m.of.id, Now: asked.Now, Client: m.r.Features(asked.Client), Arguments: asked.Arguments, Undoing: m.undoing})
	} else {
		m.of = o.identity
		res := engine.Resumption{Now: asked.Now, Client: m.r.Features(asked.Client), Answers: answers, Held: asked.Turn != nil || m.lost != nil && len(answers) > 0, Latest: e.Exists()}
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
	end, err := m.finishUndo(turn, out, err, gone, asked.Purpose)
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
func (m *remembered) undoRest(ctx context.Context, gone tokens.Reason) (End, error) {
	lost := m.lost
	o, err := m.r.reopen(ctx, m.entry.Principal, basePolicy, lost.Undo.Token)
	if err != nil {
		return End{}, m.r.failed(m.of, fmt.Errorf("what is to be undone cannot be read: %w", err))
	}
	m.of, m.request.Undo, m.request.Turn = o.identity, lost.Undo, lost.Turn
	m.request.Arguments, m.request.Answers = nil, nil
	how := m.how
	asTurned := lost.Undo.Response != nil && how != records.HowCancelled
	if asTurned {
		m.how, m.digest, how = records.HowTurn, lost.Turn, records.HowFailed
	}
	if err := m.hold(ctx, how); err != nil {
		return End{}, m.r.failed(m.of, err)
	}
	turn := m.r.begin(ctx)
	defer turn.Cancel()
	if !asTurned {
		res := engine.Resumption{Now: m.r.Now(), Latest: true}
		if gone != "" {
			res.Why = abandonedText(gone)
		}
		out, err := o.program.Cancel(turn, o.pos, res)
		end, err := m.finishUndo(turn, out, err, gone, lost.Purpose)
		if err == nil {
			end.Gone = gone
		}
		return end, err
	}
	end, failure, err := decodeResponse(lost.Undo.Response)
	if err != nil {
		return End{}, m.r.failed(m.of, err)
	}
	u := engine.Undoing{Position: o.pos, Err: failure}
	if failure == nil {
		u.Outcome = &end.Outcome
	}
	out, err := o.program.Undo(turn, u)
	return m.finishUndo(turn, out, err, "", lost.Purpose)
}

// finishUndo brings an undo to its end.
func (m *remembered) finishUndo(ctx context.Context, out *engine.Outcome, err error, gone tokens.Reason, purpose string) (End, error) {
	if err == nil && gone != "" && undoReportOf(out) != nil {
		result := *out.Result
		result.IsError = true
		out.Result = &result
	}
	q := Request{Policy: Policy{Purpose: purpose}, Principal: m.principal()}
	return m.r.finish(ctx, &q, m.of, out, err, false, m)
}

func undoReportOf(out *engine.Outcome) *engine.UndoReport {
	if out == nil {
		return nil
	}
	return UndoReport(out.Result)
}
