package dialect

import (
	"encoding/json"
	"math"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// What protocols share that wait for tasks on a stream, or tell of them there.

// RelatedTaskKey is the member of _meta by which a message says to which task it belongs (MCP
// 2025-11-25, basic/utilities/tasks).
const RelatedTaskKey = "io.modelcontextprotocol/related-task"

// CodeLate is the code of the error that stands for an answer which did not come in time.
const CodeLate = -32001

// RelatedTask adds to an object, which may be nil, that it belongs to a task.
func RelatedTask(object json.RawMessage, id string) json.RawMessage {
	mark := wire.AppendString([]byte(`"`+RelatedTaskKey+`":{"taskId":`), id)
	mark = append(mark, '}')
	out := make([]byte, 0, len(object)+len(mark)+16)
	out = append(append(out, `{"_meta":{`...), mark...)
	for name, v := range jsonview.Members(jsonview.Get(object, "_meta")) {
		out = appendMember(out, name, v)
	}
	out = append(out, '}')
	for name, v := range jsonview.Members(object) {
		if string(name) != "_meta" {
			out = appendMember(out, name, v)
		}
	}
	return append(out, '}')
}

func appendMember(b, name, value []byte) []byte {
	b = append(wire.AppendString(append(b, ','), string(name)), ':')
	return append(b, value...)
}

// Rester is a [Way] of a request that can leave its place to others while it waits for what may
// take long. Questions do so by themselves.
type Rester interface {
	// Rest leaves the place; back takes one again, when there is one.
	Rest() (back func())
}

// Rest has a request leave its place where it has one.
func Rest(w Way) (back func()) {
	if r, ok := w.(Rester); ok {
		return r.Rest()
	}
	return func() {}
}

// Leaver is a [Way] of a request that can end without an answer, because its client gets that
// otherwise.
type Leaver interface {
	// Leave ends the request's context with [ErrLeft], and has no answer sent.
	Leave()
}

// ErrLeft says that the answer to a request is to be had by another.
var ErrLeft = error(gone("the request can be resumed"))

// little is by how much progress grows when nothing has happened.
const little = 1e-9

// Alive repeats the last progress, if nothing was sent for so long: clients that wait only for
// a while take it for a sign that they do not wait in vain. As progress must grow, it grows by
// next to nothing, so that whatever the tool says next is more.
func (n *Notifier) Alive(silent time.Duration) {
	n.mu.Lock()
	p, last := n.shown, n.last
	n.mu.Unlock()
	if time.Since(last) < silent {
		return
	}
	p.Done += little * max(1, math.Abs(p.Done))
	if p.Done > p.Total {
		p.Total = 0
	}
	n.Progress(p)
}
