package client

import (
	"crypto/rand"
	"encoding/json"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
)

// Progress says how far a call is.
type Progress struct {
	// Done is how much is done, and Total how much there is, or 0 if that is not known.
	// Their unit is the server's. Both are finite numbers.
	Done, Total float64
	Message     string    // what is being done, or empty; the server's
	Task        *Task     // state of the task that the call has become, or nil
	Until       time.Time // when the server is asked again, if the tool sleeps and nothing is done
}

// progress returns a token that asks for progress, and what has OnProgress see the notifications
// with it; nothing if the caller does not want them.
func (h *Handlers) progress() (token string, notify func(method string, params json.RawMessage)) {
	if h.OnProgress == nil {
		return "", nil
	}
	token = rand.Text()
	return token, func(method string, params json.RawMessage) {
		var wire struct {
			Token   string  `json:"progressToken"`
			Done    float64 `json:"progress"`
			Total   float64 `json:"total"`
			Message string  `json:"message"`
		}
		if method == "notifications/progress" && jsonv2.Unmarshal(params, &wire) == nil && wire.Token == token {
			h.OnProgress(Progress{Done: wire.Done, Total: max(wire.Total, 0), Message: wire.Message})
		}
	}
}
