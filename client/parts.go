package client

import (
	"encoding/json"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// waitOf returns when a client is to come back, by the _meta of a suspension without steps. What
// is no hint is none.
func waitOf(meta json.RawMessage) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	var ms int64
	if json.Unmarshal(jsonview.Get(meta, "io.github.mcpsaga/retryAfterMs"), &ms) != nil {
		return 0
	}
	return time.Duration(min(max(ms, 0), most)) * time.Millisecond
}

// collect adds parts of the result to those that are here.
func (p *Position) collect(parts []json.RawMessage, limits Limits) error {
	if len(p.Parts)+len(parts) > limits.Items {
		return tooMuch(limits.Items, "blocks in a result")
	}
	p.Parts = append(p.Parts[:len(p.Parts):len(p.Parts)], parts...)
	return nil
}

// whole returns a result with the parts that came before it in front.
func (p *Position) whole(result json.RawMessage) (json.RawMessage, error) {
	if len(p.Parts) == 0 {
		return result, nil
	}
	var members map[string]json.RawMessage
	if err := read(result, &members, "the server's tool result"); err != nil {
		return nil, err
	}
	var last struct {
		Content []json.RawMessage `json:"content"`
	}
	if err := read(result, &last, "the server's tool result"); err != nil {
		return nil, err
	}
	content, err := json.Marshal(append(p.Parts[:len(p.Parts):len(p.Parts)], last.Content...))
	if err != nil {
		return nil, malformed("the server's tool result: %v", err)
	}
	members["content"] = content
	return json.Marshal(members)
}
