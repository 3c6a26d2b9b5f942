package turns

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/records"
)

// record writes down how a turn ended. If it has not ended, the claim is given up. It returns
// [errOvertaken] if somebody else was first.
func (m *memory) record(ctx context.Context, end *End, err error) error {
	kind := m.of.program.Kind
	if err != nil && !ended(kind, err) {
		return m.recordBroken(ctx, err)
	}
	raw, encoding := encodeResponse(end, err)
	if encoding != nil {
		m.give(ctx, nil)
		return encoding
	}
	return m.write(ctx, func(e *records.Entry) {
		if end.Token != "" {
			m.suspend(e, end, raw)
		} else {
			m.end(e, end, raw)
		}
	})
}

// suspend records that the saga waits for its client.
func (m *memory) suspend(e *records.Entry, end *End, raw []byte) {
	pos := end.Position
	e.How, e.Digest, e.Response, e.Report = m.how, m.digest, raw, nil
	e.From, e.At, e.Token, e.Purpose, e.Effects = m.from, pos.Turn, end.Token, end.Policy.Purpose, pos.Effects()
	expires := m.r.Now().Add(m.r.Codec.Options().TTL)
	if !pos.Deadline.IsZero() && pos.Deadline.Before(expires) {
		expires = pos.Deadline
	}
	if e.Expires = later(e.Expires, expires); !pos.Wake.IsZero() {
		e.Expires = later(e.Expires, m.r.expires(pos))
	}
	if pos.HasEffects() {
		e.Undoable = true
		e.Wake, e.KeepUntil = later(m.r.due(e), m.r.Now()), time.Time{}
		return
	}
	e.Wake, e.KeepUntil = time.Time{}, m.r.keep(e)
}

// keep is until when a saga is remembered of which nothing is to be undone.
func (r *Runner) keep(e *records.Entry) time.Time {
	// The store forgets by its clock, and a server that takes the token for as long as clocks may
	// differ may be behind that by as much again.
	until := e.Expires.Add(2 * r.Codec.Options().Skew)
	if e.Undoable {
		until = until.Add(max(r.UndoGrace, 0))
	}
	// Long enough, too, for those who wait for this turn.
	return later(later(until, e.Keep), r.Now().Add(time.Minute))
}

// end records that the saga has ended.
func (m *memory) end(e *records.Entry, end *End, raw []byte) {
	if e.Ended {
		e.Report = raw // what is to be said of its last turn has been said
	} else {
		e.How, e.Digest, e.Response, e.Report = m.how, m.digest, raw, nil
		e.From, e.At = m.from, max(e.At, m.from)
	}
	m.close(e, undoReport(end.Result), end.Err)
}

// close records that no turn will be taken, and what is still to be undone.
func (m *memory) close(e *records.Entry, report *engine.UndoReport, why error) {
	e.Ended, e.UndoNow = true, false
	if report == nil || report.SagaToken == "" {
		e.Token, e.Purpose, e.Effects = "", "", nil
		e.Attempts, e.Failing, e.LastError, e.GivenUp = 0, time.Time{}, "", false
		if m.request.UndoBroken && e.Keep.IsZero() {
			// Nobody has a token, nor any other way to ask.
			e.Expires, e.Response = time.Time{}, nil
		}
		e.Wake, e.KeepUntil = time.Time{}, m.r.keep(e)
		return
	}
	e.Token, e.Purpose, e.Effects = report.SagaToken, Carried.Purpose, report.Outstanding
	e.Expires, e.Undoable = later(e.Expires, m.r.Now().Add(m.r.Codec.Options().TTL)), true
	m.r.tryLater(e, why)
}

// recordBroken records a turn that broke off. Mostly it can be taken again. If not it was
// undone, or is left to a worker.
func (m *memory) recordBroken(ctx context.Context, err error) error {
	undone, _ := brokeOff(err)
	switch {
	case m.nonce == nil:
		return nil
	case m.how != records.HowTurn && m.lost == nil && errors.As(err, new(*engine.AnswerError)):
		// The client cancelled with what is no answer. Nothing was done: the saga waits as before.
		return m.write(ctx, m.waits)
	case undone == nil || errors.As(err, new(*engine.UnsettledError)):
		m.give(ctx, func(e *records.Entry) {
			switch {
			case e.Claim.How != records.HowTurn && ctx.Err() == nil:
				m.r.tryLater(e, err)
			case undone != nil: // but not as far as it could be
				e.Expires, e.Wake = time.Time{}, m.r.Now()
			}
		})
		return nil
	}
	report := undone.Report
	if report != nil && report.Again != nil {
		q := Request{Policy: Carried, Principal: m.principal()}
		if report.SagaToken, err = m.r.seal(ctx, &q, m.of.program, report.Again); err != nil {
			m.give(ctx, nil)
			return fmt.Errorf("what could not be undone cannot be recorded: %w", err)
		}
	}
	return m.write(ctx, func(e *records.Entry) {
		e.How, e.Digest, e.Response, e.Report = records.HowBroken, m.digest, nil, nil
		e.From, e.At = m.from, max(e.At, m.from)
		m.close(e, report, undone)
	})
}

// waits has the saga wait for its client as before.
func (m *memory) waits(e *records.Entry) {
	e.Wake, e.KeepUntil = time.Time{}, m.r.keep(e)
	if e.Undoable {
		e.Wake, e.KeepUntil = later(m.r.due(e), m.r.Now()), time.Time{}
	}
}

// Pauses between attempts to undo, and for how long there are any.
const (
	firstPause = time.Minute
	lastPause  = 6 * time.Hour
	tryFor     = 14 * 24 * time.Hour
	keepFailed = 30 * 24 * time.Hour
)

// tryLater records that an undo has failed.
func (r *Runner) tryLater(e *records.Entry, why error) {
	now := r.Now()
	if e.Attempts++; e.Attempts == 1 {
		e.Failing = now
	}
	if why != nil {
		e.LastError = clip(why.Error())
	}
	// As long again as it has failed by now: the pauses double, and who cancels again and again
	// meanwhile does not make them longer.
	pause := min(max(now.Sub(e.Failing), firstPause), lastPause)
	e.Wake, e.KeepUntil = now.Add(pause), time.Time{}
	if now.Sub(e.Failing) >= tryFor {
		// It is shown to operators until it is forgotten.
		e.GivenUp, e.KeepUntil = true, later(r.keep(e), now.Add(keepFailed))
		e.Wake = e.KeepUntil
	}
}

// clip bounds what is kept of an error.
func clip(text string) string {
	const most = 2000
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.ToValidUTF8(text, "")
}
