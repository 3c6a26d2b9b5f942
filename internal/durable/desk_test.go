package durable_test

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/mcpsaga/mcpsaga/saga"
)

// desk is what effects act on: it knows keys, as services do.
type desk struct {
	mu   sync.Mutex
	keys map[saga.Key]*held
}

type held struct {
	task, what string
	state      string // "held" or "released"
	doubted    bool   // somebody was not told that it is final
}

type hold struct {
	Task  string `json:"task"`
	What  string `json:"what"`
	Final bool   `json:"final,omitempty"` // it cannot be released
}

// newDesk returns a desk at which all goes well and at once.
func newDesk() *desk { return &desk{keys: map[saga.Key]*held{}} }

func (d *desk) do(_ context.Context, key saga.Key, in hold) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.keys[key]
	if h == nil {
		h = &held{task: in.Task, what: in.What, state: "held"}
		d.keys[key] = h
	}
	if h.state != "held" {
		return "", saga.Refused(errors.New("it was released"))
	}
	return in.What, nil
}

func (d *desk) undo(_ context.Context, p saga.Performed[hold, string]) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.keys[p.Key]
	switch {
	case h == nil: // and it is not to come later
		h = &held{task: p.In.Task, what: p.In.What}
		d.keys[p.Key] = h
	case p.In.Final && h.state == "held":
		return saga.Final(errors.New("it is used"))
	}
	h.state = "released"
	return nil
}

func (d *desk) knows(key saga.Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.keys[key] != nil
}

func (d *desk) doubt(key saga.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.keys[key]; h != nil {
		h.doubted = true
	}
}

// doubted reports whether somebody was not told whether something of a task is final: then what
// was done before that may have been undone.
func (d *desk) doubted(id, what string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.keys {
		if h.task == id && h.what == what && h.doubted {
			return true
		}
	}
	return false
}

// left is what a task holds, and all keys that it has used.
func (d *desk) left(id string) (what []string, keys []saga.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, h := range d.keys {
		if h.task == id {
			if keys = append(keys, key); h.state == "held" {
				what = append(what, h.what)
			}
		}
	}
	slices.Sort(what)
	return what, keys
}

// counted is a state that counts.
type counted struct {
	N int `json:"n"`
}
