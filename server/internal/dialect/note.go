package dialect

import (
	"encoding/json"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// Note is what is kept with a task for the requests that look at it.
type Note struct {
	// Call identifies the tool and the arguments.
	Call []byte `json:"call,omitzero"`

	// Elsewhere: it is a call that is asked elsewhere (package elsewhere); with Task it is a task, whose client does not wait for it.
	Elsewhere bool `json:"elsewhere,omitzero"`
	Task      bool `json:"task,omitzero"`
	// Apps counts how often a form in the host's window has shown that it is there.
	Apps uint64 `json:"apps,omitzero"`
	// Held is until when the client's call is held at most, in milliseconds of Unix time; zero if it is not.
	Held int64 `json:"held,omitzero"`
	// Counted is the Held for which a form was counted last, and Shown when that was, in milliseconds of Unix time.
	Counted int64 `json:"counted,omitzero"`
	Shown   int64 `json:"shown,omitzero"`

	// Progress is the progressToken of a session's call (package handshake), which holds as long as the task does.
	Progress jsontext.Value `json:"progressToken,omitzero"`
	// Number is that of the call if the task's id is made of it, ID the call's id, and Digest identifies what was called.
	// Dropped: its client wants no response any more.
	Number  uint64         `json:"number,omitzero"`
	ID      jsontext.Value `json:"id,omitzero"`
	Digest  []byte         `json:"digest,omitzero"`
	Dropped bool           `json:"dropped,omitzero"`
	// Reader names the reader that counts, if one request at a time waits for the task: the last. Seen is the number of the last
	// event that the client has shown to know, and MaxWait for how long it may be away, in seconds.
	Reader  string `json:"reader,omitzero"`
	Seen    uint64 `json:"seen,omitzero"`
	MaxWait int64  `json:"maxWait,omitzero"`
	// Accepted are the questions by which the user has agreed to open pages.
	Accepted []string `json:"accepted,omitzero"`

	// Operation is the client's token of an operation (package async), KeepAlive for how many nanoseconds its result is shown
	// after the end, and Request the id of its call.
	Operation string         `json:"token,omitzero"`
	KeepAlive int64          `json:"keepAlive,omitzero"`
	Request   jsontext.Value `json:"request,omitzero"`

	// Others are those of newer servers, which stay.
	Others jsontext.Value `json:",embed"`
}

// NoteOf reads what is kept with a task; the zero Note is nothing.
func NoteOf(t *tasks.Task) (n Note) {
	_ = jsonv2.Unmarshal(t.Note, &n) // it fails if there is none
	return n
}

// ChangeNote has change change what is kept with a task. What cannot be read stays.
func ChangeNote(change func(*Note)) func(json.RawMessage) json.RawMessage {
	return func(old json.RawMessage) json.RawMessage {
		var n Note
		if len(old) > 0 && jsonv2.Unmarshal(old, &n) != nil {
			return old
		}
		change(&n)
		if b, err := wire.Marshal(n); err == nil {
			return b
		}
		return old
	}
}
