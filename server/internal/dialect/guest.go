package dialect

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Guest is a Dialect of which clients make use within the rules of other revisions: these check
// what they must, and say in [Exchange.Caller] who the client is. It makes itself [Host.Guest] when
// it is made.
type Guest interface {
	Dialect
	// Capability is the experimental capability by which clients declare it.
	Capability() string
	// Listed returns what a list has of a tool besides, as members of an object that each
	// begin with a comma, and whether the list has it at all.
	Listed(t *engine.Program, c *Caller) (members string, listed bool)
	// Refuse says why a client is not to call a tool in the ordinary way; nil if it may.
	Refuse(t *engine.Program, c *Caller) *wire.Error
	// Answered takes the client's answer to a question of [Poster]'s; about is what was said
	// to [Asked.Add], or empty if this process does not know. It reports false if it knows
	// nothing of such a question either.
	Answered(ctx context.Context, x *Exchange, id uint64, about string, a steps.Answer) (taken bool, rerr *wire.Error)
	// Cancelled hears that the client wants the request cancelled that the message names. It
	// may be any request.
	Cancelled(ctx context.Context, x *Exchange) *wire.Error
}

// Caller is what a dialect knows of a client, by a handshake or by what its request says.
type Caller struct {
	// Features are what it can be asked for.
	Features steps.Features
	// Tasks: its calls may be tasks, by the rules of its own revision.
	Tasks bool
	// Apps: it shows forms of the server's in its window (MCP Apps). Trusted: these may give consents; see
	// [Questions.Trusts].
	Apps, Trusted bool
	// Session names its session, as no one can guess; empty where there is none.
	Session string
	// Declared: it has declared the capability of the guest. What follows is for the guest alone.
	Declared bool
	// Asked are the questions of the guest that wait in the session; nil where there is none.
	Asked *Asked
	// Posted are those of them that were sent with this message.
	Posted []uint64
	// Question is the request that asks for a step in the session, and Result a tool's result, as its revision
	// has them; nil is a result as it is.
	Question func(steps.Step) (method string, params json.RawMessage, err error)
	Result   func(*content.Result) ([]byte, error)
}

// DeclaresGuest reports whether an object of experimental capabilities declares the guest.
func (h *Host) DeclaresGuest(object jsontext.Value) bool {
	return h.Guest != nil && declares(object, h.Guest.Capability())
}

// ForGuest reports whether a message is for the guest.
func (h *Host) ForGuest(m *wire.Message) bool { return h.Guest != nil && h.Guest.Match(m, nil) }

// GuestTools returns a list of all tools as a client is to see it.
func (h *Host) GuestTools(items []Entry, c *Caller) (list []Entry) {
	if h.Guest == nil {
		return items
	}
	for _, e := range items {
		members, listed := h.Guest.Listed(e.Program, c)
		if members != "" {
			e.JSON = append(append(bytes.Clone(e.JSON[:len(e.JSON)-1]), members...), '}')
		}
		if listed {
			list = append(list, e)
		}
	}
	return list
}

// GuestAnswered has the guest take a response of the client that no request waits for. taken is
// false if it is none of its own.
func (h *Host) GuestAnswered(ctx context.Context, x *Exchange) (taken bool, rerr *wire.Error) {
	id, a := ReadAnswer(x.Message.Reply)
	if h.Guest == nil || id < LeastQuestion || id >= 2*LeastQuestion {
		return false, nil
	}
	about := ""
	if x.Caller != nil && x.Caller.Asked != nil {
		about = x.Caller.Asked.find(id)
		defer x.Caller.Asked.Remove(id)
	}
	if taken, rerr = h.Guest.Answered(ctx, x, id, about, a); rerr != nil && rerr.Status == 0 {
		rerr.Status = http.StatusBadRequest
	}
	return taken || rerr != nil, rerr
}

// GuestCancelled has the guest hear of a request that the client wants cancelled.
func (h *Host) GuestCancelled(ctx context.Context, x *Exchange) *wire.Error {
	if h.Guest == nil || Cancelled(x.Message) == nil {
		return nil
	}
	return h.Guest.Cancelled(ctx, x)
}

// LeastQuestion is the least id of a question that other replicas may know nothing of, and half
// of what the greatest is less than: numbers up to 2^53 are the same in all languages, and no
// client counts its own requests from there.
const LeastQuestion = 1 << 52

// Poster is a [Way] on which a question can be asked that outlives the request: the answer
// comes by itself, and goes to [Host.GuestAnswered].
type Poster interface {
	// Post sends a request of the server's own, with an id from [LeastQuestion] on. It reports
	// false if that cannot be.
	Post(id uint64, method string, params json.RawMessage) bool
}

// Asked are questions that a client was asked in a session and has not answered. The zero
// value is none. It is safe for concurrent use.
type Asked struct {
	mu    sync.Mutex
	about map[uint64]string
}

// maxAsked is how many questions of the guest wait in one session. More are asked when there
// is room.
const maxAsked = 64

// Add has a question wait, unless it does already or there are too many.
func (a *Asked) Add(id uint64, about string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, waits := a.about[id]; waits || len(a.about) >= maxAsked {
		return false
	}
	if a.about == nil {
		a.about = make(map[uint64]string)
	}
	a.about[id] = about
	return true
}

// Remove has a question wait no more, so that it can be asked again.
func (a *Asked) Remove(ids ...uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		delete(a.about, id)
	}
}

// Empty reports whether no question waits.
func (a *Asked) Empty() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.about) == 0
}

func (a *Asked) find(id uint64) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.about[id]
}

// About returns the questions that wait about something, by their ids.
func (a *Asked) About(about string) (ids []uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, of := range a.about {
		if of == about {
			ids = append(ids, id)
		}
	}
	return ids
}
