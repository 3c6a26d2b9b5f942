package client

import (
	"crypto/rand"
	"encoding/json"
	"math"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
)

// Progress tells how far a call is.
type Progress struct {
	// Done is how much is done, and Total how much there is, or 0 if that is not known.
	// Their unit is the server's. Both are finite numbers.
	Done, Total float64
	// Message says what is being done, or is empty. It is the server's.
	Message string
	// Task is the state of the task that the call has become, or nil.
	Task *Task
	// Until is when the server is asked again, if the tool sleeps and nothing is done; else zero.
	Until time.Time
}

// progressToken is the token that asks for progress, if the caller wants it.
func (h *Handlers) progressToken() string {
	if h.OnProgress == nil {
		return ""
	}
	return rand.Text()
}

// progressOf returns what has OnProgress see the notifications of a request with the
// token.
func (h *Handlers) progressOf(token string) func(method string, params json.RawMessage) {
	if token == "" {
		return nil
	}
	return func(method string, params json.RawMessage) {
		if p, ok := readProgress(method, params); ok && p.token == token {
			h.OnProgress(p.Progress)
		}
	}
}

type notedProgress struct {
	Progress
	token string
}

// readProgress reads a notification, if it is one of progress.
func readProgress(method string, params json.RawMessage) (p notedProgress, ok bool) {
	var wire struct {
		Token   any     `json:"progressToken"`
		Done    float64 `json:"progress"`
		Total   float64 `json:"total"`
		Message string  `json:"message"`
	}
	if method != "notifications/progress" || jsonv2.Unmarshal(params, &wire) != nil {
		return p, false
	}
	p.token, ok = wire.Token.(string)
	p.Progress = Progress{Done: finite(wire.Done), Total: max(finite(wire.Total), 0), Message: wire.Message}
	return p, ok
}

func finite(f float64) float64 {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return 0
	}
	return f
}
