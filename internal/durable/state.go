package durable

import (
	"fmt"
	"slices"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/steps"
)

// summary is what lists show of a saga. It is part of the state, and sealed a second time by itself, so that
// lists need not read the rest. The numbers of fields are never used again.
type summary struct {
	// Name is what its owner calls it, if it is a task. Note is what the dialect that began it wants to know again.
	Saga    tokens.ID `cbor:"1,keyasint"`
	Name    string    `cbor:"3,keyasint,omitempty"`
	Note    []byte    `cbor:"6,keyasint,omitempty"`
	Times   times     `cbor:"7,keyasint"`
	Running running   `cbor:"9,keyasint"`
	Shown   shown     `cbor:"10,keyasint"`
	// Cancelled: a client wants it cancelled.
	Cancelled bool `cbor:"11,keyasint,omitempty"`
	// Effects are what may have to be undone of a saga that its client drives.
	Effects []string `cbor:"18,keyasint,omitempty"`
}

// state is what is remembered of a saga, beside what its record says in the clear. It is sealed as CBOR.
type state struct {
	summary
	// Digest identifies the request that began it, if the same request is to find it again, and Called the first
	// call of a saga that has become a task.
	Principal string  `cbor:"2,keyasint"`
	Digest    []byte  `cbor:"4,keyasint,omitempty"`
	Called    []byte  `cbor:"17,keyasint,omitempty"`
	Begun     request `cbor:"5,keyasint"`
	Stand     stand   `cbor:"8,keyasint"`

	// Final: it cannot be cancelled, as what it did is final; or it has ended, and some of what it did is.
	Final bool `cbor:"12,keyasint,omitempty"`
	// Undoing is set from before the first effect is undone: from then on the saga only ends.
	Undoing *undoing `cbor:"13,keyasint,omitempty"`
	// Again is the position from which what could not be undone is tried again after the end.
	Again []byte `cbor:"14,keyasint,omitempty"`
	// Client is set for a saga that its client drives.
	Client *clientState `cbor:"15,keyasint,omitempty"`
	// UndoNow: an operator wants it undone, though its client could still come back.
	UndoNow bool `cbor:"16,keyasint,omitempty"`
	// Progress is what the tool said last, and End the result, or the failure.
	Progress *progress `cbor:"19,keyasint,omitempty"`
	End      []byte    `cbor:"20,keyasint,omitempty"`
	// Heard are the events that the saga has taken, so that it is known after its end who came in time.
	Heard []heard `cbor:"21,keyasint,omitempty"`
	// Granted is what the last request that began it, or gave an answer, said of its caller.
	Granted *granted `cbor:"22,keyasint,omitempty"`
}

// granted is what a request says of its caller besides who that is.
type granted struct {
	Scopes []string          `cbor:"1,keyasint,omitempty"`
	Claims map[string]string `cbor:"2,keyasint,omitempty"`
}

// grantedTo returns nil for an anonymous caller.
func grantedTo(c *engine.Caller) *granted {
	if c == nil {
		return nil
	}
	return &granted{c.Scopes, c.Claims}
}

// caller is whose saga it is, with what the last request said of that; nil is an anonymous one.
func (s *state) caller() *engine.Caller {
	if s.Principal == "" {
		return nil
	}
	c := engine.CallerOfBinding(s.Principal)
	if s.Granted != nil {
		c.Scopes, c.Claims = s.Granted.Scopes, s.Granted.Claims
	}
	return &c
}

// request is what a saga was begun with.
type request struct {
	Method    string      `cbor:"1,keyasint,omitempty"`
	Dialect   string      `cbor:"2,keyasint,omitempty"`
	Client    uint64      `cbor:"3,keyasint,omitempty"` // engine.PackFeatures
	Arguments []byte      `cbor:"4,keyasint,omitempty"` // nil if the position has them
	Trace     turns.Trace `cbor:"5,keyasint"`
	Secret    []byte      `cbor:"6,keyasint,omitempty"` // as in engine.Call
}

// times say when a saga does what, by the store's clock. Zero is never.
type times struct {
	// Due is when it is to have ended, and Wanted until when it lives though no client has shown that
	// it is still wanted. Asleep is until when it sleeps.
	Due    time.Time `cbor:"1,keyasint,omitzero"`
	Wanted time.Time `cbor:"2,keyasint,omitzero"`
	Asleep time.Time `cbor:"3,keyasint,omitzero"`
	// Keep is until when the result is kept at least, and Retain how long after the end.
	Keep   time.Time     `cbor:"4,keyasint,omitzero"`
	Retain time.Duration `cbor:"5,keyasint,omitempty"`
	// TTL and Poll are what clients were promised.
	TTL  time.Duration `cbor:"6,keyasint,omitempty"`
	Poll time.Duration `cbor:"7,keyasint,omitempty"`
}

// over is when the saga is to be ended if it has not by then; zero: never.
func (t *times) over() time.Time {
	if t.Due.IsZero() || !t.Wanted.IsZero() && t.Wanted.Before(t.Due) {
		return t.Wanted
	}
	return t.Due
}

// stand is where a saga stands between two turns.
type stand struct {
	// Position is nil before the first turn. Questions are open there, and Answers have come, also
	// such that were sent ahead. Asked counts the questions so far, with those.
	Position  []byte         `cbor:"1,keyasint,omitempty"`
	Questions []steps.Step   `cbor:"2,keyasint,omitempty"`
	Answers   []steps.Answer `cbor:"3,keyasint,omitempty"`
	Asked     uint64         `cbor:"4,keyasint,omitempty"`
	// Given are the last answers that were taken, to know them when they come again.
	Given []tasks.Given `cbor:"5,keyasint,omitempty"`
	// Events are waited for besides.
	Events []tasks.Awaited `cbor:"6,keyasint,omitempty"`
	// Since is when it came there, or the last answer did: the time of the next turn, whichever process takes it, and
	// however often. Older programs leave it zero.
	Since time.Time `cbor:"7,keyasint,omitzero"`
	// Begun is a position that knows of the effects that were begun from there, if the saga was taken over there.
	Begun []byte `cbor:"8,keyasint,omitempty"`
}

// running says what has become of the attempts to go on from where the saga stands.
type running struct {
	// Held: the process that wrote this drives it further. If another one takes the saga, it is in doubt.
	Held bool `cbor:"1,keyasint,omitempty"`
	// Doubt: an attempt may have done more than is known.
	Doubt bool `cbor:"2,keyasint,omitempty"`
	// Tries counts the attempts before the present one, Failures those that have failed with an error,
	// LastError the last of them.
	Tries     int    `cbor:"3,keyasint,omitempty"`
	Failures  int    `cbor:"4,keyasint,omitempty"`
	LastError string `cbor:"5,keyasint,omitempty"`
	// Failing is since when its undo fails.
	Failing time.Time `cbor:"6,keyasint,omitzero"`
	// Finals is one more than how many effects were begun that are irreversible and have no Undo; zero if that is not known.
	Finals int `cbor:"7,keyasint,omitempty"`
}

// shown is what clients see of a saga.
type shown struct {
	// Message is for people.
	Message string `cbor:"1,keyasint,omitempty"`
	// Changes counts what a client can see, and Updated is when that was last.
	Changes uint64    `cbor:"3,keyasint,omitempty"`
	Updated time.Time `cbor:"4,keyasint,omitzero"`
	// Told counts the items of progress and log, and Bytes is how large partial results and questions are.
	Told  uint64 `cbor:"5,keyasint,omitempty"`
	Bytes uint64 `cbor:"6,keyasint,omitempty"`
	// Half is the number of the item at which Told was Halved: see maxTold.
	Half   uint64 `cbor:"10,keyasint,omitempty"`
	Halved uint64 `cbor:"11,keyasint,omitempty"`
	// Newest is the number of the newest item that is an event as clients see it.
	Newest uint64 `cbor:"12,keyasint,omitempty"`
	// Ending is how it has ended, Bad that its result says that the tool has failed.
	Ending ending `cbor:"7,keyasint,omitempty"`
	Bad    bool   `cbor:"8,keyasint,omitempty"`
	// Outside: it waits, but not for its client.
	Outside bool `cbor:"9,keyasint,omitempty"`
}

// ending is how a saga has ended.
type ending uint8

const (
	completed ending = iota + 1
	failed
	cancelled
)

// undoing says what is being undone, and why.
type undoing struct {
	// Why is one of the reasons below, Text what the client reads of it. For the end of a turn it is Response.
	Why      why    `cbor:"1,keyasint"`
	Text     string `cbor:"2,keyasint,omitempty"`
	Response []byte `cbor:"3,keyasint,omitempty"`
	// Position knows of all that is to be undone; nil if the saga's own does.
	Position []byte `cbor:"4,keyasint,omitempty"`
	// Behind: something may be undone that was done before what could not be undone; see [engine.Undoing].
	Behind bool `cbor:"5,keyasint"`
}

// why is a reason to undo a saga.
type why uint8

const (
	whyTurn why = iota
	whyCancelled
	whyOver
	whyFailed
	// whyGone: its client came too late, or not at all, or an operator wanted it undone. Text is the [tokens.Reason].
	whyGone
)

// asked are questions as they are kept: what is to be asked instead is settled by then.
func asked(list []steps.Step) []steps.Step {
	list = slices.Clone(list)
	for i := range list {
		list[i].Varied, list[i].Otherwise = false, nil
	}
	return list
}

// position is an [engine.Position] but for the saga's id, which the state has.
type position struct {
	Turn     uint32    `cbor:"1,keyasint"`
	Tool     string    `cbor:"2,keyasint"`
	Revision uint32    `cbor:"3,keyasint"`
	Deadline time.Time `cbor:"4,keyasint,omitzero"`
	Body     []byte    `cbor:"5,keyasint"`
	State    []byte    `cbor:"6,keyasint,omitempty"`
	Effects  []byte    `cbor:"7,keyasint,omitempty"`
	Secrets  []byte    `cbor:"8,keyasint,omitempty"`
}

func encodePosition(p *engine.Position) []byte {
	e := p.Encode()
	raw, err := cbor.Marshal(position{p.Turn, p.Tool, p.Revision, p.Deadline, e.Body, e.State, e.Effects, e.Secrets})
	if err != nil {
		panic(err) // numbers and bytes can always be encoded
	}
	return raw
}

// encode encodes a position as it is kept in a row, which has the arguments itself unless the saga has become a task by
// a token.
func (r *row) encode(p *engine.Position) []byte {
	own := *p
	if r.Begun.Arguments != nil {
		own.DropArguments()
	}
	return encodePosition(&own)
}

// encodeAgain encodes from where what could not be undone is tried again; nil if all was undone.
func encodeAgain(report *engine.UndoReport) []byte {
	if report == nil || report.Again == nil {
		return nil
	}
	return encodePosition(report.Again)
}

func decodePosition(b []byte, saga tokens.ID) (*engine.Position, error) {
	if len(b) == 0 {
		return nil, nil
	}
	var kept position
	err := decoder.Unmarshal(b, &kept)
	p := &engine.Position{ID: saga, Turn: kept.Turn, Tool: kept.Tool, Revision: kept.Revision, Deadline: kept.Deadline}
	if err == nil {
		err = p.Restore(engine.Encoded{Body: kept.Body, State: kept.State, Effects: kept.Effects, Secrets: kept.Secrets})
	}
	if err != nil {
		return nil, fmt.Errorf("%w: where the saga stands does not decode: %w", ErrUnreadable, err)
	}
	return p, nil
}
