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
func (m *remembered) record(ctx context.Context, end *End, err error) error {
	kind := m.of.program.Kind
	if err != nil && !EndsWith(kind, err) {
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
func (m *remembered) suspend(e *records.Entry, end *End, raw []byte) {
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

// end records that the saga has ended.
func (m *remembered) end(e *records.Entry, end *End, raw []byte) {
	if e.Ended {
		e.Report = raw // what is to be said of its last turn has been said
	} else {
		e.How, e.Digest, e.Response, e.Report = m.how, m.digest, raw, nil
		e.From, e.At = m.from, max(e.At, m.from)
	}
	m.close(e, UndoReport(end.Result), end.Err)
}

// close records that no turn will be taken, and what is still to be undone.
func (m *remembered) close(e *records.Entry, report *engine.UndoReport, why error) {
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
func (m *remembered) recordBroken(ctx context.Context, err error) error {
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
func (m *remembered) waits(e *records.Entry) {
	e.Wake, e.KeepUntil = time.Time{}, m.r.keep(e)
	if e.Undoable {
		e.Wake, e.KeepUntil = later(m.r.due(e), m.r.Now()), time.Time{}
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
