package handshake

import (
	"encoding/json"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// taskNote is what is kept with a task for the requests that look at it.
type taskNote struct {
	// Token is the progressToken of the call, which holds as long as the task does.
	Token jsontext.Value `json:"progressToken,omitzero"`
	// Call is there if the task's id is made of that of a session's call.
	Call *callNote `json:"call,omitzero"`
	// Resumption is there if one request at a time waits for the task.
	Resumption *resumption `json:"resumption,omitzero"`
	// Accepted are the pages that the user has agreed to open.
	Accepted []string `json:"accepted,omitzero"`
}

// callNote is what is kept of a session's call.
type callNote struct {
	// ID is its id, Session the session, and Digest identifies what was called.
	ID              jsontext.Value `json:"id"`
	Session, Digest []byte
	Number          uint64
	// URI is what is read, if it is a resource.
	URI string `json:",omitzero"`
	// Dropped: its client wants no response any more.
	Dropped bool `json:",omitzero"`
}

// resumption is what is kept with a task for which one request at a time waits.
type resumption struct {
	// Reader names who passes on what comes of the request: the last one counts.
	Reader string `json:"reader"`
	// Seen is the number of the last event that the client has shown to know.
	Seen uint64 `json:"seen,omitzero"`
	// MaxWait is for how long the client may be away, in seconds.
	MaxWait int64 `json:"maxWait"`
}

func (r *resumption) wait() time.Duration { return time.Duration(r.MaxWait) * time.Second }

// noteOf reads what is kept with a task; nil if that is not ours.
func noteOf(t *tasks.Task) *taskNote {
	var n taskNote
	if len(t.Note) == 0 || json.Unmarshal(t.Note, &n) != nil {
		return nil
	}
	return &n
}

// resumptionOf reads what is kept with a task; nil if any number of requests waits for it.
func resumptionOf(t *tasks.Task) *resumption {
	if n := noteOf(t); n != nil {
		return n.Resumption
	}
	return nil
}

// changeNote has change change what is kept with a task.
func changeNote(change func(*taskNote)) func(json.RawMessage) json.RawMessage {
	return func(old json.RawMessage) json.RawMessage {
		var n taskNote
		if len(old) > 0 && json.Unmarshal(old, &n) != nil {
			return old
		}
		change(&n)
		note, err := wire.Marshal(n)
		if err != nil {
			return old
		}
		return note
	}
}
