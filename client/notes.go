package client

import (
	"encoding/json"
)

type note struct {
	method string
	params json.RawMessage
}

// hear passes a notification on to the request that it belongs to.
func (c *child) hear(n note) {
	var wire struct {
		ProgressToken json.RawMessage `json:"progressToken"`
		Meta          struct {
			Subscription json.RawMessage `json:"io.modelcontextprotocol/subscriptionId"`
		} `json:"_meta"`
	}
	if n.params == nil || json.Unmarshal(n.params, &wire) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	to := c.listening["progress "+string(wire.ProgressToken)]
	if to == nil {
		to = c.listening["subscription "+string(wire.Meta.Subscription)]
	}
	if to == nil {
		return
	}
	select {
	case to <- n:
	default:
	}
}

// maxNotes is how many notifications wait for a request that is slow to take them; what is
// more is not heard.
const maxNotes = 64

// listen has notes get the notifications of key; nil ends that.
func (c *child) listen(key string, notes chan<- note) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if notes == nil {
		delete(c.listening, key)
		return
	}
	c.listening[key] = notes
}
