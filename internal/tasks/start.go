package tasks

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Start implements [Viewer]. If this process has room, the task is taken as it is made, and may
// have begun before: see [Manager.beginAhead].
func (m *Manager) Start(ctx context.Context, s Start) (*Task, error) {
	q := &s.Request
	if s.Delay > 0 && q.Token == "" {
		return m.call(ctx, &s)
	}
	m.sync(ctx)
	turn := turns.TaskTurn{Program: q.Program, Arguments: orEmpty(q.Arguments), Client: q.Client, Answers: q.Answers, Trace: q.Trace}
	if q.Token != "" {
		opened, err := m.Turns.OpenTask(ctx, *q)
		if err != nil {
			return nil, err
		}
		turn = opened
	}
	if !s.AtOnce && !begins(&turn) {
		take := m.Turns.Call
		if q.Token != "" {
			take = m.Turns.Resume
		}
		end, err := take(ctx, *q)
		if err != nil {
			return nil, err
		}
		return &Task{Program: turn.Program, End: &end}, nil
	}
	if turn.Position != nil {
		if err := turn.Program.CheckAnswers(turn.Position, turn.Answers); err != nil {
			return nil, m.report(ctx, q.Method, err)
		}
		if err := m.Turns.Claim(ctx, *q, &turn); err != nil {
			return nil, err
		}
	} else {
		turn.Saga = m.Turns.NewID()
		if err := m.Turns.ClaimKey(ctx, q); err != nil {
			return nil, m.report(ctx, q.Method, err)
		}
	}
	e, err := m.create(ctx, &s, &turn)
	if err != nil {
		turn.Drop(ctx)
		return nil, m.report(ctx, q.Method, err)
	}
	turn.Begun(ctx)
	return m.view(e)
}

// begins reports whether a turn is the one that the task begins with.
func begins(turn *turns.TaskTurn) bool {
	after := turn.Program.Tasks.After
	if after == "" {
		return true
	}
	if turn.Position == nil {
		return false
	}
	answered := func(id string) bool {
		return slices.ContainsFunc(turn.Answers, func(a steps.Answer) bool { return a.StepID == id })
	}
	return slices.ContainsFunc(turn.Position.PendingIDs(), func(id string) bool {
		question, _, _ := strings.Cut(id, "~") // and what number it is asked for
		return question == after && answered(id)
	})
}

func orEmpty(args json.RawMessage) json.RawMessage {
	if len(args) == 0 {
		return json.RawMessage("{}")
	}
	return args
}

// newTask is what is remembered of a task that begins with a turn.
func (m *Manager) newTask(s *Start, turn *turns.TaskTurn) records.Task {
	q := &s.Request
	now := m.now()
	set := turn.Program.Tasks
	var t records.Task
	t.TaskIdentity = records.TaskIdentity{
		Target: records.Target{Name: turn.Program.Target, Revision: turn.Program.Revision},
		ID:     s.ID, Principal: q.Principal, Account: s.Account, Saga: turn.Saga, Note: s.Note,
	}
	t.TaskTimes = records.TaskTimes{Created: now, Updated: now, TTL: set.TTL, Poll: set.Poll, Retain: max(set.Keep, s.Keep)}
	if s.Delay > 0 && !offers(turn.Program) {
		t.TTL = 0 // what its program says of tasks is nothing
	}
	if s.TTL > 0 && (t.TTL <= 0 || s.TTL < t.TTL) {
		t.TTL = s.TTL
	}
	if t.TTL > 0 {
		t.Due = now.Add(t.TTL)
	}
	if s.Delay > 0 {
		t.Call, t.TTL, t.Retain = true, 0, cmp.Or(s.Keep, defaultKeep)
	}
	if turn.Program.MaxAge > 0 && (t.Due.IsZero() || now.Add(turn.Program.MaxAge).Before(t.Due)) {
		t.Due = now.Add(turn.Program.MaxAge)
	}
	if s.Patience > 0 {
		t.Wanted = now.Add(s.Patience)
	}
	asked := request{method: q.Method, dialect: q.Dialect, client: q.Client, arguments: turn.Arguments, trace: turn.Trace}
	if turn.Adopted != nil {
		asked.adopted, asked.after = turn.Adopted, turn.Position.Turn
	}
	t.Request = asked.encode()
	t.Answers = encodeAnswers(turn.Answers)
	if turn.Position != nil {
		if !turn.Position.Deadline.IsZero() && turn.Position.Deadline.Before(t.Due) {
			t.Due = turn.Position.Deadline
		}
		t.Position = encodePosition(turn.Position, asked.arguments == nil)
	}
	return t
}

// create makes the record of a task, or finds it, if the same call has made it before.
func (m *Manager) create(ctx context.Context, s *Start, turn *turns.TaskTurn) (*records.TaskEntry, error) {
	q := &s.Request
	t := m.newTask(s, turn)
	known, err := m.identify(ctx, s, turn, &t)
	if known != nil || err != nil {
		return known, err
	}
	if m.Limit >= 0 {
		switch crowded, err := m.book.Room(ctx, q.Principal, s.Account, m.Limit); {
		case errors.Is(err, records.ErrFull):
			if t.Digest != nil { // it may be one of those that there are
				if found, err := m.book.Task(ctx, q.Principal, t.ID); found != nil || err != nil {
					return same(found, &t, err)
				}
			}
			if !s.Shared || !m.displace(ctx, q.Principal, s.Account) {
				return nil, ErrTooMany
			}
			t.Wanted = m.now().Add(crowdPatience)
		case err != nil:
			return nil, err
		case crowded && s.Shared:
			t.Wanted = m.now().Add(crowdPatience)
		}
	}
	e, err := m.book.NewTask(ctx, t, s.ID != "")
	if err == nil {
		e, err = m.put(ctx, e, s.ID == "" && t.Digest == nil)
	}
	if errors.Is(err, records.ErrConflict) {
		if t.Digest != nil {
			found, err := m.findSame(ctx, q.Principal, &t)
			if found != nil || err != nil {
				return found, err
			}
		}
		return nil, ErrExists
	}
	return e, err
}

// findSame returns the task that the same call has made before, or nil.
func (m *Manager) findSame(ctx context.Context, principal string, t *records.Task) (*records.TaskEntry, error) {
	found, err := m.book.Task(ctx, principal, t.ID)
	if found != nil || err != nil {
		return same(found, t, err)
	}
	return nil, nil
}

// identify gives the task its id, if the client has not. It finds the task if it was made
// before by the same call: with the same idempotency key, or from the same token.
func (m *Manager) identify(ctx context.Context, s *Start, turn *turns.TaskTurn, t *records.Task) (*records.TaskEntry, error) {
	q := &s.Request
	if t.ID != "" {
		return nil, nil
	}
	var from string
	switch {
	case turn.Position != nil:
		from = fmt.Sprintf("token %x %d", turn.Saga, turn.Position.Turn)
		t.Digest = turns.DigestAnswers(turn)
	case q.IdempotencyKey != "":
		from = "key " + q.IdempotencyKey
		t.Digest = turns.DigestCall(q, nil)
	default:
		t.ID = newID(m.now())
		return nil, nil
	}
	ids, err := m.book.TaskID(q.Principal, from)
	if err != nil {
		return nil, err
	}
	t.ID = ids[0][:22] // 128 bits suffice
	for _, id := range ids[1:] {
		if found, err := m.book.Task(ctx, q.Principal, id[:22]); found != nil || err != nil {
			return same(found, t, err)
		}
	}
	return nil, nil
}

// newID returns an id that nobody can guess: 98 bits are random. Those made at about the same time
// begin with the same characters, five of them, so that their records are found close together.
func newID(now time.Time) string {
	var id [16]byte
	rand.Read(id[:]) // never fails
	binary.BigEndian.PutUint32(id[:], uint32(now.UnixMilli()>>4)<<2|uint32(id[3]&3))
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// same returns a task that was found, unless it is of another call.
func same(found *records.TaskEntry, t *records.Task, err error) (*records.TaskEntry, error) {
	switch {
	case err != nil:
		return nil, err
	case bytes.Equal(found.Digest, t.Digest):
		return found, nil
	case t.Position != nil:
		return nil, tokens.Reject(tokens.ReasonSpent, "a task with other answers was begun")
	}
	return nil, turns.ErrKeyReused
}

// put writes a task that is to run now, and returns its record: it is taken if there is a place here, or
// if it needs none, and otherwise whoever has one takes it. If ahead is true, nobody can have made it before.
func (m *Manager) put(ctx context.Context, e *records.TaskEntry, ahead bool) (*records.TaskEntry, error) {
	now := m.now()
	tool := e.Target.Name
	reserve, release := func() (context.Context, bool) { return m.crew.reserve(e.Principal, tool) }, func() { m.crew.release(e.Principal, tool) }
	if e.Call {
		reserve, release = m.crew.answered, m.crew.unanswered
	}
	var live context.Context
	here := false
	if program, _ := m.Turns.ProgramOf(tool, e.Target.Revision); program != nil { // else only newer servers go on with it
		live, here = reserve()
	}
	e.State = records.TaskQueued
	e.Base = e.Epoch()
	e.Rest, e.Wake = time.Time{}, now.Add(m.lease())
	if !here {
		e.Rest = m.due()
		e.Wake = e.Rest
	}
	e.KeepUntil = keepUntil(&e.Task)
	if here && ahead {
		return m.beginAhead(ctx, live, e)
	}
	epoch, err := m.book.PutTask(ctx, e, here)
	if !here {
		return e, err
	}
	if err != nil {
		release()
		return nil, err
	}
	r := m.newRun(live, e, epoch)
	r.call, r.counted = e.Call, e.Call
	m.crew.hold(r)
	return e, nil
}
