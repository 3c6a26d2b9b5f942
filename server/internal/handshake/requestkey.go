package handshake

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// With a ledger, any replica continues what another one has begun for a session: a request that waits for a task has a number, by
// which any replica finds the task, and which is part of the ids of its stream's events and questions. That of a call is made of the
// session's random part and the call's id, so that a cancellation finds the call, and a repetition is one.

// A question's id is a number and what question of the task it is: below 2^53, which is the same in all languages.
const (
	numberBits   = 40
	questionBits = 12
)

var _ [0]struct{} = [numberBits + questionBits - 52]struct{}{}

// numberTries is how many remembered calls with the same id are counted. Further ones have numbers at random.
const numberTries = 4

// numberOf returns the number of the nth request that is remembered with that canonical id, apart from other kinds.
func (a *agreed) numberOf(kind, id string, n uint64) uint64 {
	of := binary.BigEndian.AppendUint64(slices.Clip(a.id[:]), n)
	return numberFrom(append(of, kind+"\x00"+id...)) // the kind has none in it
}

func numberFrom(of []byte) uint64 {
	sum := sha256.Sum256(of)
	return max(1, binary.BigEndian.Uint64(sum[:])>>(64-numberBits))
}

// Kinds of numbers: of calls whose task has an id made of it, and of those which an alias leads to their task.
const (
	ofCall  = "call"
	ofAlias = "alias"
)

// questionID is the id of a request that asks a question: the nth of the task.
func questionID(number, n uint64) uint64 {
	return leastQuestion | number<<questionBits | n&(1<<questionBits-1)
}

// splitQuestionID undoes questionID, but for the upper bits of n.
func splitQuestionID(id uint64) (number, n uint64, ok bool) {
	return id &^ leastQuestion >> questionBits, id & (1<<questionBits - 1), id >= leastQuestion && id < 2*leastQuestion
}

// numberOfTask is a number for the requests that a task has one after the other, in any session.
func numberOfTask(t *tasks.Task) uint64 {
	if note := dialect.NoteOf(t); note.Number != 0 {
		return note.Number
	}
	return numberFrom([]byte("number of task " + t.ID))
}

// taskID is the id of the task of the call with that number, secret as the session's random part.
func (a *agreed) taskID(number uint64) string {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(string(a.id[:])+"task of call "), number))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// reading is what a request waits for.
type reading struct {
	task   *tasks.Task
	number uint64
	alias
}

// alias is what is remembered of a request whose task has an id of its own, as long as its session lasts.
type alias struct {
	TaskID string `cbor:"1,keyasint"`
	// ID, Method and Token are those of the request.
	ID     jsontext.Value `cbor:"2,keyasint"`
	Method string         `cbor:"3,keyasint"`
	Token  jsontext.Value `cbor:"4,keyasint,omitempty"`
	// Alone: one request at a time waits for the task.
	Alone bool `cbor:"6,keyasint,omitempty"`
}

func (d *handshake) aliasName(a *agreed, number uint64) durable.Name {
	return d.Core.DocumentName("call", string(a.id[:]), strconv.FormatUint(number, 36))
}

// findReading returns the reading with a number; nil if there is none.
func (d *handshake) findReading(ctx context.Context, a *agreed, principal string, number uint64) (*reading, error) {
	r := &reading{number: number}
	var err error
	if r.task, err = d.Tasks.Get(ctx, principal, a.taskID(number)); err == nil {
		note := dialect.NoteOf(r.task)
		if note.Number == 0 {
			return nil, nil // not one of ours
		}
		r.alias = alias{TaskID: r.task.ID, ID: note.ID, Method: callMethod, Token: note.Progress, Alone: true}
		return r, nil
	} else if !errors.Is(err, tasks.ErrNotFound) {
		return nil, err
	}
	found, err := durable.ReadDocument[alias](ctx, d.Core, d.aliasName(a, number))
	if err != nil || !found.Exists() {
		return nil, err
	}
	r.alias = found.Value
	if r.task, err = d.Tasks.Get(ctx, principal, r.TaskID); errors.Is(err, tasks.ErrNotFound) {
		return nil, nil
	}
	return r, err
}

// enroll gives a request a number, if it has none, that leads to its task. alone: one request at a time waits for that. Without
// room for the number this replica alone serves the request.
func (r *reader) enroll(ctx context.Context, task string, alone bool) {
	a := r.post.agreed
	if r.number == 0 {
		id, _ := wire.CanonicalID(r.Message.ID) // which is valid
		r.number = a.numberOf(ofAlias, id+"\x00"+task, 0)
	}
	err := durable.SetDocument(ctx, r.Core, r.Principal, r.aliasName(a, r.number), a.expires, alias{
		TaskID: task, ID: r.Message.ID, Method: r.Message.Method, Token: r.Notifier.Token, Alone: alone,
	})
	if err == nil && r.Message.Method == callMethod {
		err = r.RememberRequest(ctx, r.Principal, a.session(), r.Message.ID, task)
	}
	if err == nil {
		return
	}
	if r.number = 0; !errors.Is(err, turns.ErrLedgerFull) { // else it is for the caller to end some
		r.Log.WarnContext(ctx, "other replicas cannot continue a request", "error", err)
	}
}

// cancelInLedger cancels a call of the session that another replica may have begun. settled is false if the other replicas are
// to hear of the cancellation: the ledger knows of no such call that is under way, or package elsewhere asks its questions.
func (d *handshake) cancelInLedger(ctx context.Context, a *agreed, principal string, request jsontext.Value) (settled bool, err error) {
	id, ok := wire.CanonicalID(request)
	if !ok {
		return true, nil // no request can have such an id
	}
	ctx = turns.ToCancel(ctx)
	task, err := d.taskOfCall(ctx, a, principal, request, id)
	switch {
	case errors.Is(err, tasks.ErrNotFound), err == nil && (task == nil || task.Status.Ended()):
		return false, nil
	case err != nil:
		return false, err
	case dialect.NoteOf(task).Operation != "":
		return true, nil // it is an operation, which the guest cancels after this: see notified
	case askedElsewhere(task): // the replica that holds it decides, as it may have been answered
		return false, nil
	}
	// Without a Number others may wait for the task as well: they learn of its end.
	_, err = d.Tasks.Renew(ctx, principal, task.ID, callWait, dialect.ChangeNote(func(n *dialect.Note) { n.Dropped = n.Number != 0 }))
	if err == nil {
		_, err = d.Tasks.Cancel(ctx, principal, task.ID)
	}
	if errors.Is(err, tasks.ErrNotFound) {
		err = nil
	}
	return true, err
}

// taskOfCall returns the task that the request with an id, which has that canonical form, has begun; nil if the ledger knows of none.
func (d *handshake) taskOfCall(ctx context.Context, a *agreed, principal string, request jsontext.Value, id string) (*tasks.Task, error) {
	for n := range uint64(numberTries) { // an earlier call with the id may be forgotten, and a later one not
		r, err := d.findReading(ctx, a, principal, a.numberOf(ofCall, id, n))
		if err != nil {
			return nil, err
		}
		if r != nil && !r.task.Status.Ended() {
			if found, _ := wire.CanonicalID(r.ID); found == id {
				return r.task, nil
			}
		}
	}
	task, err := d.TaskOfRequest(ctx, a.session(), request) // its number may not be made of its id
	if task == "" || err != nil {
		return nil, err
	}
	return d.Tasks.Get(ctx, principal, task)
}

// cancelled ends requests whose cancellation has reached another replica, and which the ledger does not know: those that have
// just begun, and those without a task. A client that uses an id again at once may find that cancelled: it must not.
func (d *handshake) cancelled(list []dialect.GivenUp) {
	given := make(map[dialect.SessionID][]string)
	for _, one := range list {
		given[one.Session] = append(given[one.Session], one.Request)
	}
	for _, s := range d.sessions.inMemory(slices.Collect(maps.Keys(given))) {
		s.stop(func(c *sessionCall) bool { return slices.Contains(given[s.agreed.id], requestText(c.message.ID)) })
	}
}

// requestText is what a request of a session is called in the news.
func requestText(id jsontext.Value) string {
	canonical, _ := wire.CanonicalID(id)
	sum := sha256.Sum256([]byte("cancelled " + canonical))
	return base64.RawURLEncoding.EncodeToString(sum[:8])
}
