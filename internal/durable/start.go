package durable

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// Start implements [tasks.Viewer].
func (c *Core) Start(ctx context.Context, s tasks.Start) (*tasks.Task, error) {
	q := &s.Request
	turn := c.beginning(&s)
	if q.Token != "" {
		opened, err := c.Turns.OpenTask(ctx, *q)
		if err != nil {
			return nil, err
		}
		turn = &opened
	}
	turn.Who = engine.CallerOf(ctx)
	switch err := c.Turns.MayAsk(q, turn.Program); {
	case err != nil:
		return nil, c.report(ctx, q.Method, err)
	case q.Token == "" && s.IsCall():
		return c.call(ctx, &s, turn)
	}
	if !s.AtOnce && !begins(turn) {
		return c.takeBefore(ctx, &s, turn)
	}
	if turn.Position != nil {
		if err := turn.Program.CheckAnswers(turn.Position, turn.Answers); err != nil {
			return nil, c.report(ctx, q.Method, err)
		}
	}
	r, err := c.create(ctx, &s, turn)
	if errors.Is(err, errTaken) {
		return c.takeBefore(ctx, &s, turn)
	}
	if err != nil {
		return nil, c.report(ctx, q.Method, err)
	}
	return c.view(r)
}

// beginning is the turn with which a request without a token begins a saga.
func (c *Core) beginning(s *tasks.Start) *turns.TaskTurn {
	q := &s.Request
	turn := &turns.TaskTurn{
		Call:     engine.Call{Arguments: turns.OrEmpty(q.Arguments), Client: q.Client, Answers: q.Answers},
		Identity: turns.Identity{Program: q.Program, Saga: c.Turns.NewID()}, Caller: q.Caller(), Trace: q.Trace,
	}
	if q.Program != nil && q.Program.Waits() {
		turn.Name = cmp.Or(s.ID, newName())
		turn.Secret = c.newSecret(c.rows.taskID(q.Principal, turn.Name))
	}
	return turn
}

// errTaken: the same request has come from a client that takes no tasks, so its turn is none of a task.
var errTaken = errors.New("the saga's client drives this turn")

// takeBefore takes a turn that comes before the task begins, or that was begun without one: its client drives the saga
// so far. If that is a task by now, as the request came before, it returns the task.
func (c *Core) takeBefore(ctx context.Context, s *tasks.Start, turn *turns.TaskTurn) (*tasks.Task, error) {
	take := c.Turns.Call
	if s.Request.Token != "" {
		take = c.Turns.Resume
	}
	end, err := take(ctx, s.Request)
	if errors.Is(err, turns.ErrTask) {
		if found, err := c.identify(ctx, s, turn, new(row)); found != nil || err != nil {
			return c.viewed(found, err)
		}
	}
	if err != nil {
		return nil, err
	}
	return &tasks.Task{Program: turn.Program, End: &end}, nil
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
	return slices.ContainsFunc(turn.Position.PendingIDs(), func(id string) bool {
		question, _, _ := strings.Cut(id, "~") // and what number it is asked for
		return question == after && hasAnswer(turn.Answers, id)
	})
}

// blankRow is a row for a saga of a principal's, of a program that may be nil, which counts on an account.
func (c *Core) blankRow(principal, account string, p *engine.Program, saga tokens.ID) *row {
	owner := c.rows.owner(principal)
	r := &row{read: time.Now(), Record: store.Record{Audience: c.rows.audience, Owner: owner, Account: owner, Now: c.clock.now()}}
	if r.Saga, r.Principal = saga, principal; account != "" {
		r.Account = c.rows.hashID("account", account)
	}
	if p != nil {
		r.Tool, r.Revision = p.Target, p.Revision
	}
	return r
}

// newRow is a row, which has no name yet, for a saga that begins, or continues, with a turn.
func (c *Core) newRow(s *tasks.Start, turn *turns.TaskTurn) *row {
	q := &s.Request
	r := c.blankRow(q.Principal, s.Account, turn.Program, turn.Saga)
	r.Mode, r.Status = store.ModeTask, store.Working
	if s.Session != "" {
		r.Owner = c.rows.owner(q.Principal, s.Session)
	}
	if s.IsCall() {
		r.Mode = store.ModeCall
	}
	r.Name, r.Note, r.Times, r.Shown.Updated = s.ID, s.Note, timesOf(s, turn, r.Now), r.Now
	r.Granted, r.Stand.Answers = grantedTo(turn.Who), turn.Answers
	r.Begun = request{Method: q.Method, Dialect: q.Dialect, Client: engine.PackFeatures(q.Client), Arguments: turn.Arguments, Trace: turn.Trace, Secret: turn.Secret}
	r.Stand.Since = cmp.Or(turn.Now, r.Now)
	if turn.Position != nil {
		r.Stand.Answers = answersToIDs(turn.Position.PendingIDs(), turn.Answers)
		r.Stand.Asked = uint64(len(turn.Position.PendingIDs()))
		r.Stand.Position = r.encode(turn.Position)
	}
	return r
}

// timesOf are the times of a task or a call that begins, or continues, now with a turn.
func timesOf(s *tasks.Start, turn *turns.TaskTurn, now time.Time) times {
	set, call := turn.Program.Tasks, s.IsCall()
	ttl := shortest(set.TTL, s.TTL, turn.Program.MaxAge)
	if call && set.Mode == engine.TasksForbidden { // what its program says of tasks is nothing
		ttl = shortest(s.TTL, turn.Program.MaxAge)
	}
	t := times{TTL: ttl, Poll: set.Poll, Retain: max(set.Keep, s.Keep)}
	if ttl > 0 {
		t.Due = now.Add(ttl)
	}
	if call { // nothing is promised of its time to live
		t.TTL, t.Retain = 0, cmp.Or(s.Keep, defaultKeep)
	}
	if s.Patience > 0 {
		t.Wanted = now.Add(s.Patience)
	}
	if p := turn.Position; p != nil && !p.Deadline.IsZero() && (t.Due.IsZero() || p.Deadline.Before(t.Due)) {
		t.Due = p.Deadline
	}
	return t
}

// shortest is the shortest of some times; those that are zero do not count.
func shortest(list ...time.Duration) (least time.Duration) {
	for _, d := range list {
		if d > 0 && (least == 0 || d < least) {
			least = d
		}
	}
	return least
}

// newName returns a name that cannot be guessed, as it ends with 128 random bits.
func newName(begin ...byte) string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(append(begin, b[:]...))
}

// sagaOf returns the saga that begins the name of a task which it has become, and which has its row.
func sagaOf(name string) (saga tokens.ID, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(name)
	if err != nil || len(b) != len(saga)+16 {
		return saga, false
	}
	return tokens.ID(b[:len(saga)]), true
}

// identify names a row, by the name that the client has chosen or a new one. It returns the row that the
// same request has made before, with the same idempotency key or from the same token.
func (c *Core) identify(ctx context.Context, s *tasks.Start, turn *turns.TaskTurn, r *row) (*row, error) {
	q := &s.Request
	chosen := r.Name != ""
	if !chosen {
		r.Name = cmp.Or(turn.Name, newName())
	}
	r.ID = c.rows.taskID(q.Principal, r.Name)
	switch {
	case turn.Position != nil && !chosen:
		r.Name, r.ID = newName(turn.Saga[:]...), c.rows.sagaID(q.Principal, turn.Saga)
		r.Digest = turns.Digest(turn.Position, turn.Answers)
	case turn.Position == nil && q.IdempotencyKey != "":
		r.Request = c.rows.hashID("key", q.Principal, q.IdempotencyKey)
		r.Digest, r.Times.Keep = turns.DigestCall(q), c.clock.now().Add(keepKey)
	default:
		return nil, nil
	}
	found, err := c.same(ctx, r)
	if found != nil && chosen {
		return nil, tasks.ErrExists
	}
	return found, err
}

// same returns the row that the same request has made before, or nil. It fails if it was another request.
func (c *Core) same(ctx context.Context, r *row) (found *row, err error) {
	if len(r.Stand.Position) > 0 {
		found, err = c.rows.load(ctx, r.ID)
	} else {
		found, err = c.rows.find(ctx, r.Request)
	}
	switch {
	case err != nil, found == nil, found.Client != nil && len(r.Stand.Position) > 0:
		return nil, err
	case found.Client == nil && (bytes.Equal(found.Digest, r.Digest) || bytes.Equal(found.Called, r.Digest)):
		return found, nil
	case len(r.Stand.Position) > 0:
		return nil, tokens.Reject(tokens.ReasonSpent, "a task with other answers was begun")
	}
	return nil, turns.ErrKeyReused
}

// create makes the row of a task, or finds it, if the same request has made it before. If this process has
// a slot for it, the task begins here.
func (c *Core) create(ctx context.Context, s *tasks.Start, turn *turns.TaskTurn) (*row, error) {
	for {
		r := c.newRow(s, turn)
		if known, err := c.identify(ctx, s, turn, r); known != nil || err != nil {
			return known, err
		}
		made, err := r, error(nil)
		if turn.Position != nil {
			err = c.adopt(ctx, r, turn)
		}
		if err == nil {
			made, err = c.write(ctx, r, 1, true, func(h *hold) error { return c.insert(s, h) })
		}
		if !errors.Is(err, store.ErrConflict) {
			return made, err
		}
		made, err = c.instead(ctx, r)
		if !errors.Is(err, tasks.ErrExists) || turn.Position == nil || s.ID != "" {
			return made, err
		} // else a turn that the saga's client drives was faster
	}
}

// instead returns the row that the same request has made in the place of r, or fails as there is another one.
func (c *Core) instead(ctx context.Context, r *row) (*row, error) {
	if r.Digest != nil {
		if found, err := c.same(ctx, r); found != nil || err != nil {
			return found, err
		}
	}
	return nil, tasks.ErrExists
}

// adopt has a row take the place of that of a saga which its client has driven so far, if there is one: what an operator
// wants undone is undone all the same. It fails with
// [store.ErrConflict] if that is a task already, and with [errTaken] if its client drives this very turn.
func (c *Core) adopt(ctx context.Context, r *row, turn *turns.TaskTurn) error {
	for {
		found, err := c.rows.load(ctx, r.ID)
		if err != nil || found == nil {
			return err
		}
		if found.Client == nil { // it has become a task since it was looked for
			return store.ErrConflict
		}
		if begun := found.Client.Turn; taken(found, turn.Position.Turn, r.Digest) || begun != nil && bytes.Equal(begun.Digest, r.Digest) {
			return errTaken
		}
		v, err := judge(found, turn.Position.Turn, append([]byte("task "), r.Digest...), howTurn)
		switch {
		case err != nil:
			return err
		case v == wait:
			if err := c.awaitTurn(ctx, found); !errors.Is(err, errOvertaken) {
				return err
			}
			continue
		}
		record := r.Record
		r.Record = found.Record
		r.Mode, r.Status, r.Revision, r.Heard = record.Mode, record.Status, record.Revision, found.Heard
		r.Cancelled = found.UndoNow
		if r.Request != (store.ID{}) { // the first call leads to the task
			r.Called, r.Times.Keep = found.Digest, found.Created.Add(keepKey)
		}
		r.read = found.read
		return nil
	}
}

// insert makes the row of a hold, unless its account is full.
func (c *Core) insert(s *tasks.Start, h *hold) error {
	h.most = shareOf(s.Account != "", c.Limit)
	if h.row.Head > 0 && s.Account != "" && !c.apart(h.row) { // all sagas of strangers that look alike are on one account
		h.most = max(0, c.MaxSagas)
	}
	begin := func(*row) []event { return []event{{kind: kindBegun}} }
	if s.Shared && h.most > 0 { // callers who cannot be distinguished: see [Core.looked]
		all := h.most
		h.most = max(1, all/2)
		if err := h.commit(begin); !errors.Is(err, store.ErrFull) {
			return err
		}
		h.most, h.row.Times.Wanted = all, h.row.now().Add(patienceOfCrowd(h.row))
	}
	return full(h.commit(begin))
}

// accountShare is what part of a principal's limit an account has that is no principal's.
const accountShare = 4

// shareOf is how many an account may have of what a principal may have, if it is not the principal's; 0 is any number.
func shareOf(apart bool, limit int) int {
	switch {
	case limit < 0:
		return 0
	case !apart:
		return limit
	}
	return max(1, limit/accountShare)
}

// apart reports whether a row is on another account than its principal's.
func (c *Core) apart(r *row) bool { return r.Account != c.rows.owner(r.Principal) }

func full(err error) error {
	if errors.Is(err, store.ErrFull) {
		return tasks.ErrTooMany
	}
	return err
}
