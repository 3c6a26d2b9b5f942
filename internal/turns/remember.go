package turns

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Times of claims.
const (
	// leaseTime is how long a turn is its worker's unless it is renewed, and a worker's
	// time to look at what it has taken.
	leaseTime = 10 * time.Second
	// beatTime is how often a claim is renewed.
	beatTime = leaseTime / 3
	// recordTime bounds what is written although nobody waits for it any more.
	recordTime = 10 * time.Second
)

// memory is a turn that is taken of a saga that the ledger remembers. The turn is claimed
// when it is about to act, and recorded when it has ended; both fail, or find another's
// record, if somebody else was first.
type memory struct {
	r  *Runner
	of identity
	// how is what the turn is, from the number of turns before it, and digest identifies
	// what it was asked for.
	how    records.How
	from   uint32
	digest []byte
	// request is what is needed to take it again.
	request request
	// token is what it was taken with, and effects what that tells of; none of a first turn.
	token   string
	effects []string
	// expires is until when the token that it was taken with is good, and undoable whether
	// what that tells of can be undone later. keep is until when the record is needed for
	// other reasons.
	expires, keep time.Time
	undoable      bool
	// lost is the request of a turn that somebody has begun who is gone.
	lost *request
	// reached is where the turn goes on without the client, and with what answers; nil if it
	// does not. noted: the claim says so.
	reached *engine.Position
	answers []steps.Answer
	noted   bool
	// lazy: it is recorded only if it was claimed.
	lazy bool

	mu sync.Mutex
	// entry is the record as it was found or written last.
	entry *records.Entry
	nonce []byte // once it is claimed
	beat  *time.Timer
	until time.Time // of the claim
	over  bool
}

// errOvertaken: somebody else has claimed or recorded the turn. What there is to be said is
// in the ledger.
var errOvertaken = errors.New("somebody else has taken the turn")

// claim makes the turn this worker's, and holds it until it is recorded. If it is claimed
// already, it makes sure that it still is.
func (m *memory) claim(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.nonce != nil && m.r.Now().Before(m.until) && (m.reached == nil || m.noted) {
		return nil
	}
	nonce := m.nonce
	if nonce == nil {
		nonce = make([]byte, 16)
		rand.Read(nonce) // never fails
	}
	if m.reached != nil && !m.noted {
		if err := m.noteBase(ctx); err != nil {
			return err
		}
	}
	request, err := m.request.encode()
	if err != nil {
		return err
	}
	for {
		if m.nonce != nil && !m.mine() {
			return errOvertaken
		}
		e := m.base()
		until := m.r.Now().Add(leaseTime)
		e.Claim = &records.Claim{From: m.from, Digest: m.digest, How: m.how, Nonce: nonce, Until: until, Request: request}
		e.Wake, e.KeepUntil = m.wake(e), time.Time{}
		switch err := m.r.records.Put(ctx, e); {
		case err == nil:
			m.entry, m.until = e, until
			if m.nonce == nil {
				m.nonce = nonce
				m.beat = time.AfterFunc(beatTime, m.renew)
			}
			return nil
		case !errors.Is(err, records.ErrConflict):
			return err
		}
		if m.nonce == nil {
			return errOvertaken // or a worker has looked at it: the turn begins again
		}
		if m.entry, err = m.r.records.Saga(ctx, m.entry.Principal, m.of.id); err != nil {
			return err
		}
	}
}

// goesOn is called when the turn goes on from pos without its client.
func (m *memory) goesOn(pos *engine.Position, answers []steps.Answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reached, m.answers, m.noted = pos, answers, false
}

// noteBase has the claim say from where the turn is to be taken again.
func (m *memory) noteBase(ctx context.Context) error {
	pos := *m.reached
	q := Request{Policy: basePolicy, Principal: m.entry.Principal}
	token, err := m.r.seal(ctx, &q, m.of.program, &pos)
	if err != nil {
		return err
	}
	m.request.Base = &recordedBase{Token: token, Answers: recordAnswers(m.answers), Now: m.r.Now()}
	m.noted = true
	return nil
}

// base is the record with what does not change about it.
func (m *memory) base() *records.Entry {
	e := m.entry.Clone()
	if !e.Exists() {
		e.Began = m.r.Now()
		e.At, e.From = m.from, m.from
		e.Token, e.Purpose, e.Effects = m.token, m.request.Purpose, m.effects
	}
	e.Target = records.Target{Name: target(m.of.program.Kind, m.of.program.Name), Revision: m.of.program.Revision}
	e.Expires = later(e.Expires, m.expires)
	e.Undoable = e.Undoable || m.undoable
	e.Keep = later(e.Keep, m.keep)
	return e
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// wake is when a worker must look at a saga that is claimed. A turn that was cut off may be
// taken again as long as its token is good, but what is being undone, and a first turn that
// nobody can ask for again, are for workers as soon as the lease is over.
func (m *memory) wake(e *records.Entry) time.Time {
	if due := m.r.due(e); e.Claim.How == records.HowTurn && due.After(e.Claim.Until) {
		return due
	}
	return e.Claim.Until
}

// due is when a saga that waits for its client is abandoned. Zero: it is at once, once no turn
// is under way.
func (r *Runner) due(e *records.Entry) time.Time {
	if e.UndoNow || e.Expires.IsZero() {
		return time.Time{}
	}
	return e.Expires.Add(r.Codec.Options().Skew)
}

// mine reports whether the record has this worker's claim.
func (m *memory) mine() bool {
	return m.entry.Claim != nil && bytes.Equal(m.entry.Claim.Nonce, m.nonce)
}

// renew is called now and then while the turn is claimed.
func (m *memory) renew() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), beatTime)
	defer cancel()
	e := m.entry.Clone()
	claim := *e.Claim
	e.Claim, claim.Until = &claim, m.r.Now().Add(leaseTime)
	e.Wake = m.wake(e)
	err := m.r.records.Put(ctx, e)
	if err == nil {
		m.entry, m.until = e, claim.Until
	} else if errors.Is(err, records.ErrConflict) {
		// A worker may have looked at the record, which changes its revision.
		if found, err := m.r.records.Saga(ctx, e.Principal, m.of.id); err == nil {
			m.entry = found
			if !m.mine() {
				return
			}
		}
	}
	m.beat.Reset(beatTime)
}

// stop ends the renewals. The turn is over.
func (m *memory) stop() {
	if m.over = true; m.beat != nil {
		m.beat.Stop()
	}
}

// write changes the record with change, which gets it as it is now, unless somebody else has
// taken the turn ([errOvertaken]). The claim is then gone.
func (m *memory) write(ctx context.Context, change func(e *records.Entry)) error {
	// What has happened is recorded whether or not anybody waits for it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stop()
	for {
		if m.nonce != nil && !m.mine() {
			return errOvertaken
		}
		e := m.base()
		e.Claim = nil
		change(e)
		err := m.r.records.Put(ctx, e)
		if errors.Is(err, ledger.ErrTooLarge) && len(e.Response)+len(e.Report) > 0 {
			// It is told once, and can be told no more.
			e.Response, e.Report = nil, nil
			err = m.r.records.Put(ctx, e)
		}
		if err == nil {
			m.entry = e
			return nil
		}
		if !errors.Is(err, records.ErrConflict) {
			return err
		}
		if m.entry, err = m.r.records.Saga(ctx, e.Principal, m.of.id); err != nil {
			return err
		}
		if m.nonce == nil {
			return errOvertaken
		}
	}
}

// give gives a claim up: whoever comes next can take the turn at once.
func (m *memory) give(ctx context.Context, change func(e *records.Entry)) {
	if m.nonce == nil {
		return
	}
	err := m.write(ctx, func(e *records.Entry) {
		mine := *m.entry.Claim
		mine.Until = time.Time{}
		e.Claim = &mine
		e.Wake, e.KeepUntil = later(m.r.due(e), m.r.Now()), time.Time{}
		if mine.How != records.HowTurn {
			e.Wake = m.r.Now()
		}
		if change != nil {
			change(e)
		}
	})
	if err != nil && !errors.Is(err, errOvertaken) {
		m.r.Log.WarnContext(ctx, "a turn that broke off is locked until its lease is over", "tool", m.of.program.Name, "saga", m.of.id.String(), "error", err)
	}
}

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
	e.From, e.At, e.Token, e.Purpose, e.Effects = m.from, pos.Turn, end.Token, m.request.Purpose, pos.Effects()
	expires := m.r.Now().Add(m.r.Codec.Options().TTL)
	if !pos.Deadline.IsZero() && pos.Deadline.Before(expires) {
		expires = pos.Deadline
	}
	e.Expires = later(e.Expires, expires)
	if pos.HasEffects() {
		e.Undoable = true
		e.Wake, e.KeepUntil = later(m.r.due(e), m.r.Now()), time.Time{}
		return
	}
	e.Wake, e.KeepUntil = time.Time{}, m.r.keep(e)
}

// keep is until when a saga is remembered of which nothing is to be undone.
func (r *Runner) keep(e *records.Entry) time.Time {
	until := e.Expires.Add(r.Codec.Options().Skew)
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
	case undone == nil || errors.As(err, new(*engine.UnsettledError)):
		m.give(ctx, func(e *records.Entry) {
			switch {
			case m.how != records.HowTurn && ctx.Err() == nil:
				m.r.tryLater(e, err)
			case undone != nil: // but not as far as it could be
				e.Expires, e.Wake = time.Time{}, m.r.Now()
			}
		})
		return nil
	}
	report := undone.Report
	if report != nil && report.Again != nil {
		q := Request{Policy: Carried, Principal: m.entry.Principal}
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
	pause := lastPause
	if e.Attempts < 12 {
		pause = min(lastPause, firstPause<<(e.Attempts-1))
	}
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
		return text[:most] + "…"
	}
	return text
}

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
func (r *Runner) find(ctx context.Context, principal string, of identity, from uint32, digest []byte, how records.How) (f found, err error) {
	e, err := r.records.Saga(ctx, principal, of.id)
	for err == nil {
		f.entry, f.taken = e, nil
		claim := e.Claim
		switch {
		case ctx.Err() != nil:
			return f, ctx.Err()
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
		case from == 0 && claim.How != records.HowTurn: // a first call that is repeated
			if !claim.Alive(r.Now()) {
				return f, fmt.Errorf("%w: the saga is being undone", ErrLedger)
			}
		case claim.How == records.HowCancelled, claim.How == records.HowBroken:
			return f, tokens.Reject(tokens.ReasonSpent, "the saga is being undone")
		case claim.How == records.HowTurn && how == records.HowTurn && !bytes.Equal(digest, claim.Digest):
			return f, tokens.Reject(tokens.ReasonSpent, "a turn with other answers was begun")
		case !claim.Alive(r.Now()):
			f.taken = claim
			return f, nil
		}
		e, err = r.await(ctx, e)
	}
	return f, err
}

// answered reports whether what is recorded of a saga is the answer to a request.
func answered(e *records.Entry, from uint32, digest []byte) bool {
	switch {
	case e.How == records.HowTurn && bytes.Equal(digest, e.Digest) && from == e.From:
		return e.Ended || e.At > e.From
	case e.Ended && e.How == records.HowAbandoned:
		return from >= e.From // whatever the answers
	case from == 0: // a first call that is repeated leads to where its saga is
		return (e.At > 0 || e.Ended) && e.How != records.HowBroken
	}
	return false
}

// await waits until a record that is claimed changes, or its claim is over. If the clock of
// whoever claimed it is ahead, that is when it was not renewed for as long as a lease.
func (r *Runner) await(ctx context.Context, e *records.Entry) (*records.Entry, error) {
	lease := min(max(e.Claim.Until.Sub(r.Now()), time.Millisecond), leaseTime)
	waiting, cancel := context.WithTimeout(ctx, lease)
	defer cancel()
	next, err := r.records.Wait(waiting, e)
	if err == nil || ctx.Err() != nil || waiting.Err() == nil {
		return next, err
	}
	claim := *e.Claim
	claim.Until = time.Time{}
	same := e.Clone()
	same.Claim = &claim
	return same, nil
}
