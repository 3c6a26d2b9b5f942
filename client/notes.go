package client

import (
	"cmp"
	"context"
	"encoding/json"
	"sync"
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
	select {
	case cmp.Or(c.listening["progress "+string(wire.ProgressToken)], c.listening["subscription "+string(wire.Meta.Subscription)]) <- n:
	default: // there are too many, or none is wanted
	}
}

// maxNotes is how many notifications wait for a request that is slow to take them; what is
// more is not heard.
const maxNotes = 64

// listen has notify get the notifications of key from when begin is called until ctx ends, or stop is
// called, which waits for those that are there.
func (c *child) listen(ctx context.Context, key string, notify func(method string, params json.RawMessage)) (begin, stop func()) {
	notes := make(chan note, maxNotes)
	c.mu.Lock()
	c.listening[key] = notes
	c.mu.Unlock()
	var heard sync.WaitGroup
	begun := make(chan struct{})
	begin = sync.OnceFunc(func() { close(begun) })
	heard.Go(func() {
		<-begun
		for n := range notes {
			if ctx.Err() == nil {
				notify(n.method, n.params)
			}
		}
	})
	return begin, func() {
		c.mu.Lock()
		delete(c.listening, key)
		close(notes)
		c.mu.Unlock()
		begin()
		heard.Wait()
	}
}
