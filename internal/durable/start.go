package durable

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Start implements [tasks.Viewer].
func (c *Core) Start(ctx context.Context, s tasks.Start) (*tasks.Task, error) {
	q := &s.Request
	if s.Delay > 0 && q.Token == "" {
		return c.call(ctx, &s)
	}
	turn := turns.TaskTurn{Caller: q.Caller(), Program: q.Program, Arguments: orEmpty(q.Arguments), Client: q.Client, Answers: q.Answers, Trace: q.Trace}
	if q.Token != "" {
		opened, err := c.Turns.OpenTask(ctx, *q)
		if err != nil {
			return nil, err
		}
		turn = opened
	}
	if !s.AtOnce && !begins(&turn) {
		take := c.Turns.Call
		if q.Token != "" {
			take = c.Turns.Resume
		}
		end, err := take(ctx, *q)
		if errors.Is(err, turns.ErrTask) { // by now
			if found, err := c.identify(ctx, &s, &turn, &row{state: state{Principal: q.Principal}}); found != nil || err != nil {
				return c.viewed(found, err)
			}
		}
		if err != nil {
			return nil, err
		}
		return &tasks.Task{Program: turn.Program, End: &end}, nil
	}
	if turn.Position == nil {
		turn.Saga = c.Turns.NewID()
	} else if err := turn.Program.CheckAnswers(turn.Position, turn.Answers); err != nil {
		return nil, c.report(ctx, q.Method, err)
	}
	r, err := c.create(ctx, &s, &turn)
	if err != nil {
		return nil, c.report(ctx, q.Method, err)
	}
	return c.view(r)
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

// newRow is a row for a saga that begins, or continues, with a turn.
func (c *Core) newRow(s *tasks.Start, turn *turns.TaskTurn) (*row, error) {
	q, set, now := &s.Request, turn.Program.Tasks, c.clock.now()
	r := &row{read: time.Now()}
	r.Record = store.Record{
		Audience: c.rows.audience, Owner: c.rows.owner(q.Principal), Account: c.rows.account(s.Account, q.Principal),
		Tool: turn.Program.Target, Revision: turn.Program.Revision, Mode: store.ModeTask, Status: store.Working, Now: now,
	}
	r.state = state{Saga: turn.Saga, Principal: q.Principal, Name: s.ID, Note: s.Note, Stand: stand{Answers: keptAnswers(turn.Answers)}}
	r.Begun = request{Method: q.Method, Dialect: q.Dialect, Client: engine.PackFeatures(q.Client), Arguments: turn.Arguments, Trace: turn.Trace}
	r.Shown.Updated = now
	t := times{TTL: set.TTL, Poll: set.Poll, Retain: max(set.Keep, s.Keep)}
	if s.Delay > 0 && set.Mode == engine.TasksForbidden {
		t.TTL = 0 // what its program says of tasks is nothing
	}
	if s.TTL > 0 && (t.TTL <= 0 || s.TTL < t.TTL) {
		t.TTL = s.TTL
	}
	if t.TTL > 0 {
		t.Due = now.Add(t.TTL)
	}
	if s.Delay > 0 {
		r.Mode, t.TTL, t.Retain = store.ModeCall, 0, cmp.Or(s.Keep, defaultKeep)
	}
	if age := turn.Program.MaxAge; age > 0 && (t.Due.IsZero() || now.Add(age).Before(t.Due)) {
		t.Due = now.Add(age)
	}
	if s.Patience > 0 {
		t.Wanted = now.Add(s.Patience)
	}
	if turn.Position != nil {
		if at := turn.Position.Deadline; !at.IsZero() && (t.Due.IsZero() || at.Before(t.Due)) {
			t.Due = at
		}
		var err error
		if r.Stand.Position, err = encodePosition(turn.Position, r.Begun.Arguments == nil); err != nil {
			return nil, err
		}
		r.Stand.Asked = uint64(len(turn.Position.PendingIDs()))
	}
	r.Times = t
	return r, nil
}

// newName returns a name that cannot be guessed: 128 random bits.
func newName() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// nameOf returns a name of the task that a saga becomes. The row has its own name already, which the task's
// says; what is added cannot be guessed.
func nameOf(saga tokens.ID) string {
	b := append(saga[:], make([]byte, 16)...)
	rand.Read(b[len(saga):]) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// sagaOf returns the saga in a name that nameOf has made.
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
		r.Name = newName()
	}
	r.ID = c.rows.taskID(q.Principal, r.Name)
	switch {
	case turn.Position != nil && !chosen:
		r.Name, r.ID = nameOf(turn.Saga), c.rows.sagaID(q.Principal, turn.Saga)
		r.Digest = turns.Digest(turn.Position, turn.Answers)
	case turn.Position == nil && q.IdempotencyKey != "":
		r.Request = c.rows.hashID("key", q.Principal, q.IdempotencyKey)
		r.Digest = turns.DigestCall(q, nil)
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
	r, err := c.newRow(s, turn)
	if err != nil {
		return nil, err
	}
	if known, err := c.identify(ctx, s, turn, r); known != nil || err != nil {
		return known, err
	}
	if turn.Position != nil {
		if err := c.adopt(ctx, r, turn); err != nil {
			return nil, err
		}
	}
	slot := &share{r.Principal, r.Tool}
	live, here := c.worker.serves()
	here = here && c.worker.slots.reserve(slot)
	r.Wake = dueAt(r.Now)
	t := c.term()
	if here {
		r.Running = running{Held: true, Tries: 1}
	} else {
		t.takes = 0
	}
	err = c.insert(ctx, s, r, t.takes)
	if err == nil && here {
		h := c.newHold(live, r.clone(), t)
		h.doubt, h.tries, h.share = false, 1, slot
		if c.worker.enter(h) {
			go h.run()
			return r, nil
		}
	}
	if here {
		c.worker.slots.release(slot)
	}
	if errors.Is(err, store.ErrConflict) {
		if r.Digest != nil {
			if found, err := c.same(ctx, r); found != nil || err != nil {
				return found, err
			}
		}
		return nil, tasks.ErrExists
	}
	return r, err
}

// adopt has a row take the place of that of a saga which its client has driven so far, if there is one.
func (c *Core) adopt(ctx context.Context, r *row, turn *turns.TaskTurn) error {
	for {
		found, err := c.rows.load(ctx, r.ID)
		if err != nil || found == nil {
			return err
		}
		v, err := judge(found, turn.Position.Turn, append([]byte("task "), r.Digest...), howTurn)
		switch {
		case err != nil:
			return err
		case v == answeredBefore:
			return tokens.Reject(tokens.ReasonSpent, "the saga has gone on from here otherwise")
		case v == wait:
			if err := c.awaitTurn(ctx, found); err != nil {
				return err
			}
			continue
		}
		record := r.Record
		r.Record = found.Record
		r.Mode, r.Status, r.Revision = record.Mode, record.Status, record.Revision
		if r.Request != (store.ID{}) { // the first call leads to the task
			r.Called, r.Times.Keep = found.Digest, found.Created.Add(keepKey)
		}
		r.read = found.read
		r.Fence++
		return nil
	}
}

// insert makes a row, unless its account is full.
func (c *Core) insert(ctx context.Context, s *tasks.Start, r *row, lease time.Duration) error {
	most := c.Limit
	if r.Mode == store.ModeCall {
		most = c.MaxCalls
	}
	most = shareOf(s.Account, most)
	write := func(most int) error {
		r.Keep = keepUntil(r)
		err := c.rows.write(ctx, r, lease, most, event{kind: kindBegun})
		if err == nil {
			c.clock.hear(r.Now)
		}
		return err
	}
	if !s.Shared || most == 0 {
		return full(write(most))
	}
	// Callers who cannot be distinguished: see crowd.go.
	if err := write(max(1, most/2)); !errors.Is(err, store.ErrFull) {
		return err
	}
	r.Times.Wanted = r.Now.Add(crowdPatience)
	err := write(most)
	if errors.Is(err, store.ErrFull) && c.displace(ctx, r) {
		err = write(most)
	}
	return full(err)
}

// accountShare is what part of a principal's limit an account has that is no principal's.
const accountShare = 4

// shareOf is how many an account may have of what a principal may have; 0 is any number.
func shareOf(account string, limit int) int {
	switch {
	case limit < 0:
		return 0
	case account == "":
		return limit
	}
	return max(1, limit/accountShare)
}

// full says in words of a dialect that an account is full.
func full(err error) error {
	if errors.Is(err, store.ErrFull) {
		return tasks.ErrTooMany
	}
	return err
}
