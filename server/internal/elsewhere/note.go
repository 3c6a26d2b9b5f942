package elsewhere

import (
	"context"
	"encoding/json"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// Note is what is kept with a call that is asked elsewhere.
type Note struct {
	// Elsewhere tells such calls from others.
	Elsewhere bool `json:"elsewhere,omitzero"`
	// Task: it is a task, whose client does not wait for it.
	Task bool `json:"task,omitzero"`
	// Call identifies the tool and the arguments.
	Call []byte `json:"call,omitzero"`
	// Apps counts how often a form in the host's window has shown that it is there.
	Apps uint64 `json:"apps,omitzero"`
	// Held is until when the client's call is held at most, in milliseconds of Unix time; zero if it is not.
	Held int64 `json:"held,omitzero"`
	// Counted is the Held for which a form was counted last, and Seen when that was, in milliseconds of Unix time.
	Counted int64 `json:"counted,omitzero"`
	Seen    int64 `json:"shown,omitzero"`
}

// seenAgain is how often a form is counted for the same hold: each time is an item of the log.
const seenAgain = time.Minute

// NoteOf returns the note of a call; false if it is none that is asked elsewhere.
func NoteOf(t *tasks.Task) (n Note, ok bool) {
	err := json.Unmarshal(t.Note, &n)
	return n, err == nil && n.Elsewhere
}

// changed is a note after a change. What else a dialect keeps there stays.
func changed(raw json.RawMessage, change func(*Note)) json.RawMessage {
	var n struct {
		Note
		Others jsontext.Value `json:",embed"`
	}
	if len(raw) > 0 && jsonv2.Unmarshal(raw, &n) != nil {
		return raw
	}
	if change(&n.Note); !n.Elsewhere {
		return raw
	}
	if b, err := wire.Marshal(n); err == nil {
		return b
	}
	return raw
}

// Present notes that a form in the host's window shows a call: the client's call is held for it.
func (r *Router) Present(ctx context.Context, principal, task string) (*tasks.Task, error) {
	return r.Tasks.Renew(ctx, principal, task, r.patience(), func(raw json.RawMessage) json.RawMessage {
		return changed(raw, func(n *Note) {
			now := time.Now().UnixMilli()
			if n.Apps == 0 || n.Counted != n.Held || now-n.Seen >= seenAgain.Milliseconds() {
				n.Apps, n.Counted, n.Seen = n.Apps+1, n.Held, now
			}
		})
	})
}
