package turns

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Times of claims.
const (
	// leaseTime is [Config.Lease] unless configured, and that of programs that did not say.
	leaseTime = 10 * time.Second
	// beats is how often a claim is renewed in that time.
	beats = 3
	// recordTime bounds what is written although nobody waits for it any more.
	recordTime = 10 * time.Second
)

// errOvertaken: somebody else has claimed or recorded the turn. What there is to be said is
// in the ledger.
var errOvertaken = errors.New("somebody else has taken the turn")

// claim makes the turn this worker's, and holds it until it is recorded. If it is claimed
// already, it makes sure that it still is.
func (m *remembered) claim(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.nonce != nil && m.now(ctx).Before(m.until) && (m.reached == nil || m.noted) {
		return nil
	}
	if m.reached != nil && !m.noted {
		if err := m.noteBase(ctx); err != nil {
			return err
		}
	}
	return m.put(ctx, m.how, &m.request)
}

// hold is claim for what is not a turn that could be taken.
func (m *remembered) hold(ctx context.Context, how records.How) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.put(ctx, how, &m.request)
}

// undoing has the claim say what is being undone after the turn has run: whoever takes it over then
// goes on with that. The store is asked whatever the clock says, which may have stood still: a
// worker that was paused may have been replaced by one with which the turn goes on.
func (m *remembered) undoing(ctx context.Context, u engine.Undoing) error {
	if u.Behind {
		return nil // it says so already
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	m.mu.Lock()
	defer m.mu.Unlock()
	q := Request{Policy: basePolicy, Principal: m.entry.Principal}
	token, err := m.r.seal(ctx, &q, m.of.program, u.Position)
	if err != nil {
		return err
	}
	request, how := m.request, m.how
	request.Undo = &recordedUndo{Token: token}
	request.Arguments, request.Answers, request.Base = nil, nil, nil
	if how == records.HowTurn {
		// Nobody was told how the turn has ended. If that cannot be recorded, nobody will be.
		if how = records.HowBroken; u.Outcome != nil || u.Err != nil {
			var end End
			if u.Outcome != nil {
				end.Outcome = *u.Outcome
			}
			if raw, err := encodeResponse(&end, u.Err); err == nil {
				how, request.Undo.Response = records.HowFailed, raw
			}
		}
	}
	err = m.put(ctx, how, &request)
	if errors.Is(err, ledger.ErrTooLarge) && request.Undo.Response != nil {
		how, request.Undo.Response = records.HowBroken, nil
		err = m.put(ctx, how, &request)
	}
	return err
}

// put writes the claim, as what it is and with what is needed to take it over.
func (m *remembered) put(ctx context.Context, how records.How, request *request) error {
	raw, err := request.encode()
	if err != nil {
		return err
	}
	nonce := m.nonce
	if nonce == nil {
		if _, err := m.r.records.Identity(ctx); err != nil {
			return err // the next token needs it, which must not fail once the turn has acted
		}
		nonce = make([]byte, 16)
		rand.Read(nonce) // never fails
	}
	for {
		if m.nonce != nil && !m.mine() {
			return errOvertaken
		}
		e := m.base()
		until := m.now(ctx).Add(m.r.Lease)
		e.Claim = &records.Claim{From: m.from, Digest: m.digest, How: how, Nonce: nonce, Until: until, Lease: m.r.Lease, Request: raw}
		e.Wake, e.KeepUntil = m.wake(e), time.Time{}
		switch err := m.r.records.Put(ctx, e); {
		case err == nil:
			m.entry, m.until = e, until
			if m.nonce == nil {
				m.nonce = nonce
				m.beat = time.AfterFunc(m.r.Lease/beats, m.renew)
			}
			return nil
		case !errors.Is(err, records.ErrConflict):
			return err
		}
		if m.nonce == nil {
			return errOvertaken // or a worker has looked at it: the turn begins again
		}
		if err := m.reload(ctx); err != nil {
			return err
		}
	}
}

// now is the time that leases go by.
func (m *remembered) now(ctx context.Context) time.Time { return m.r.leaseNow(ctx) }

// leaseNow is the time that leases go by: that of the store.
func (r ledgered) leaseNow(ctx context.Context) time.Time { return r.records.Now(ctx, r.Now) }

// reload finds out what the record is now.
func (m *remembered) reload(ctx context.Context) error {
	e, err := m.r.records.Saga(ctx, m.entry.Principal, m.of.id)
	if err == nil {
		m.entry = e
	}
	return err
}

// goesOn is called when the turn goes on from pos without its client.
func (m *remembered) goesOn(pos *engine.Position, answers []steps.Answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reached, m.answers, m.noted = pos, answers, false
}

// noteBase has the claim say from where the turn is to be taken again.
func (m *remembered) noteBase(ctx context.Context) error {
	pos := *m.reached
	q := Request{Policy: basePolicy, Principal: m.entry.Principal}
	token, err := m.r.seal(ctx, &q, m.of.program, &pos)
	if err != nil {
		return err
	}
	m.request.Base = &recordedBase{Token: token, Answers: recordAnswers(m.answers), Now: later(m.r.Now(), pos.Wake)}
	m.noted = true
	return nil
}

// base is the record with what does not change about it.
func (m *remembered) base() *records.Entry {
	e := m.entry.Clone()
	if !e.Exists() {
		e.Began = m.r.Now()
		e.At, e.From = m.from, m.from
		e.Token, e.Purpose, e.Effects = m.token, m.request.Purpose, m.effects
	}
	e.Target = records.Target{Name: m.of.program.Target, Revision: m.of.program.Revision}
	e.Expires = later(e.Expires, m.expires)
	e.Undoable = e.Undoable || m.undoable
	e.Keep = later(e.Keep, m.keep)
	e.Page = max(e.Page, m.page)
	return e
}

// wake is when a worker must look at a saga that is claimed. A turn that was cut off may be
// taken again as long as its token is good, but what is being undone, and a first turn that
// nobody can ask for again, are for workers as soon as the lease is over.
func (m *remembered) wake(e *records.Entry) time.Time {
	if due := m.r.due(e); e.Claim.How == records.HowTurn && due.After(e.Claim.Until) {
		return due
	}
	return e.Claim.Until
}

// mine reports whether the record has this worker's claim.
func (m *remembered) mine() bool {
	return m.entry.Claim != nil && bytes.Equal(m.entry.Claim.Nonce, m.nonce)
}

// renew is called now and then while the turn is claimed.
func (m *remembered) renew() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), m.r.Lease/beats)
	defer cancel()
	e := m.entry.Clone()
	claim := *e.Claim
	e.Claim, claim.Until = &claim, m.now(ctx).Add(m.r.Lease)
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
	m.beat.Reset(m.r.Lease / beats)
}

// stop ends the renewals. The turn is over.
func (m *remembered) stop() {
	if m.over = true; m.beat != nil {
		m.beat.Stop()
	}
}

// write changes the record with change, which gets it as it is now, unless somebody else has
// taken the turn ([errOvertaken]). The claim is then gone.
func (m *remembered) write(ctx context.Context, change func(e *records.Entry)) error {
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
		if err := m.reload(ctx); err != nil {
			return err
		}
		if m.nonce == nil {
			return errOvertaken
		}
	}
}

// give gives a claim up: whoever comes next can take the turn at once.
func (m *remembered) give(ctx context.Context, change func(e *records.Entry)) {
	if m.nonce == nil {
		return
	}
	err := m.write(ctx, func(e *records.Entry) {
		mine := *m.entry.Claim
		mine.Until = time.Time{}
		e.Claim = &mine
		e.Wake, e.KeepUntil = later(m.r.due(e), m.r.Now()), time.Time{}
		if mine.How != records.HowTurn {
			e.Wake = m.now(ctx)
		}
		if change != nil {
			change(e)
		}
	})
	if err != nil && !errors.Is(err, errOvertaken) {
		m.r.Log.WarnContext(ctx, "a turn that broke off is locked until its lease is over", "tool", m.of.program.Name, "saga", m.of.id.String(), "error", err)
	}
}
