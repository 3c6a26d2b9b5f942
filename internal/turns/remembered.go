package turns

import (
	"context"
	"errors"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/steps"
)

// remembered is a turn that is taken of a saga that the ledger remembers. The turn is claimed
// when it is about to act, and recorded when it has ended; both fail, or find another's
// record, if somebody else was first.
type remembered struct {
	r  ledgered
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
	// page is from if the turn was taken with a token of the policy Paged.
	page     uint32
	undoable bool
	// lost is the request of a turn that somebody has begun who is gone, and taken the claim.
	lost  *request
	taken *records.Claim
	// reached is where the turn goes on without the client, and with what answers; nil if it
	// does not. noted: the claim says so.
	reached *engine.Position
	answers []steps.Answer
	noted   bool
	// lazy: it is recorded only if it was claimed.
	lazy bool

	mu lock
	// entry is the record as it was found or written last.
	entry *records.Entry
	nonce []byte // once it is claimed
	beat  *time.Timer
	until time.Time // of the claim
	over  bool
}

// principal is whose saga it is. The record that says so may be renewed at this moment.
func (m *remembered) principal() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.entry.Principal
}

// takeTurn takes a turn after an opened token, or goes on with what somebody did who is gone and
// whose claim is taken; nil if there is none.
func (m *remembered) takeTurn(ctx context.Context, q *Request, o *opened, taken *records.Claim) (End, error) {
	switch {
	case taken != nil && taken.How == records.HowFailed:
		return m.undo(ctx, o, "")
	case taken != nil && (m.how != records.HowTurn || taken.How != records.HowTurn):
		// Somebody has begun to undo it, or it is too late for a turn that somebody has begun.
		m.how = records.HowAbandoned
		reason := tokens.ReasonExpired
		if o.gone != nil {
			reason = o.gone.Reason
		}
		return m.undo(ctx, o, reason)
	case m.lost != nil && m.lost.Base != nil:
		return m.goOnFromBase(ctx, q)
	}
	again := *o
	return m.r.goFrom(ctx, q, &again, m)
}

// takeOver has the turn go on from what was found.
func (m *remembered) takeOver(f *found) error {
	m.entry = f.entry
	if f.taken == nil {
		return nil
	}
	lost, err := decodeRequest(f.taken.Request)
	if err != nil {
		return err
	}
	m.lost, m.taken = &lost, f.taken
	m.request.Now = lost.Now // a flow is told the same time
	return nil
}

// goOnFromBase takes a turn that was lost when it had gone on without its client, from there.
func (m *remembered) goOnFromBase(ctx context.Context, q *Request) (End, error) {
	base := m.lost.Base
	m.request.Base, m.request.Now = base, base.Now
	o, err := m.r.reopen(ctx, m.entry.Principal, basePolicy, base.Token)
	if err != nil {
		return End{}, m.r.failed(m.of, err)
	}
	o.gone = nil // it is as old as its turn
	m.of = o.identity
	again := *q
	again.Answers = answersOf(base.Answers)
	return m.r.goFrom(ctx, &again, o, m)
}

// settle records how a turn ended and returns what is to be answered. It fails with
// [errOvertaken] if somebody else has taken the turn, or another worker has looked at it, so
// that it is to be looked up again.
func (m *remembered) settle(ctx context.Context, end End, err error) (End, error) {
	if m.lazy && !m.claimed() {
		return end, err
	}
	recording := m.record(ctx, &end, err)
	switch {
	case errors.Is(err, errOvertaken):
		return End{}, err
	case recording == nil:
		return end, err
	case errors.Is(recording, errOvertaken):
		return End{}, recording
	case err == nil || EndsWith(m.of.program.Kind, err):
		// It is done, but as nobody would remember that, nobody may be told.
		return End{}, m.r.failed(m.of, recording)
	}
	m.r.Log.WarnContext(ctx, "turn not recorded", "tool", m.of.program.Name, "saga", m.of.id.String(), "error", recording)
	return end, err
}

// claimed reports whether the turn was claimed.
func (m *remembered) claimed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.nonce != nil
}

// Begun implements [Remembered], as the methods below do.
func (m *remembered) Begun() (now time.Time, held, lost bool) {
	return m.request.Now, m.lazy, m.lost != nil
}

func (m *remembered) Acting(ctx context.Context) error { return m.claim(ctx) }

func (m *remembered) Undoing(ctx context.Context, u engine.Undoing) error { return m.undoing(ctx, u) }

func (m *remembered) GoesOn(pos *engine.Position, answers []steps.Answer) { m.goesOn(pos, answers) }

func (m *remembered) Abandon(ctx context.Context) error {
	m.how = records.HowAbandoned
	// Who takes this over is to undo it as well, and not to take the turn.
	m.request.Answers, m.request.Turn = nil, nil
	return m.claim(ctx)
}
