package tasks_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

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

// clerk is the way of a server to the desk. Much goes wrong on it.
type clerk struct {
	*world
	*server
}

// luck is what happens once in n times.
func (c *clerk) luck(n int) bool { return c.intN(rarely(n, c.harsh)) == 0 }

func (c *clerk) do(ctx context.Context, key saga.Key, in hold) (got string, err error) {
	c.seen.note(in.Task, "%s: does %s %.4s", c.link, in.What, key)
	defer func() { c.seen.note(in.Task, "%s: has done %s %.4s: %v", c.link, in.What, key, err) }()
	if c.luck(40) {
		c.seen.note(in.Task, "is to be cancelled")
		c.cancel(in.Task)
	}
	if c.luck(25) {
		c.link.cut() // the server dies, but its call is on the way
	}
	if c.luck(25) {
		c.link.leaves.Store(true)
		c.clients.Go(c.stop)
	}
	c.pause()
	switch {
	case c.luck(25):
		return "", errors.New("it has not come to the desk")
	case !c.desk.knows(key) && c.luck(20):
		// An earlier call may be on the way still, of a server that was taken for dead.
		return "", saga.Refused(errors.New("not today"))
	}
	got, err = c.desk.do(ctx, key, in)
	if c.luck(25) {
		c.link.cut()
	}
	if err == nil && c.luck(25) {
		return "", errors.New("the response is lost")
	}
	return got, err
}

func (c *clerk) undo(ctx context.Context, p saga.Performed[hold, string]) (err error) {
	c.seen.note(p.In.Task, "%s: undoes %s %.4s (%v)", c.link, p.In.What, p.Key, p.Known)
	defer func() { c.seen.note(p.In.Task, "%s: has undone %s: %v", c.link, p.In.What, err) }()
	c.pause()
	if ctx.Err() != nil { // it was given up: nobody hears how it ends
		c.desk.doubt(p.Key)
	}
	if c.luck(10) {
		c.link.cut()
	}
	if c.luck(10) {
		c.desk.doubt(p.Key)
		return errors.New("try again")
	}
	return c.desk.undo(ctx, p)
}

// pause takes time: mostly not much, now and then more than a lease.
func (c *clerk) pause() {
	switch c.intN(rarely(40, c.harsh)) {
	case 0:
		time.Sleep(10*time.Second + time.Duration(c.intN(30_000))*time.Millisecond)
	case 1, 2, 3, 4:
		time.Sleep(time.Duration(c.intN(3000)) * time.Millisecond)
	default:
		time.Sleep(time.Duration(c.intN(20)) * time.Millisecond)
	}
}
