// Package comparison is about one tool that is written three times: by hand with
// the official Go SDK, as a step machine, and as a flow. docs/comparison.md
// compares them.
//
// The tool asks the user where to deploy, reserves a slot there, asks the client's
// model whether it is safe, asks the user to confirm, and says that the deployment
// has begun. If it does not come to that, the slot is released.
package comparison

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
)

// Calendar has the slots in which deployments may happen: the system that the tool
// acts on. It knows idempotency keys: one that comes again gets the slot it has, and
// one whose slot was released gets none any more. The zero value is ready to use.
type Calendar struct {
	mu    sync.Mutex
	slots map[string]int // by key; 0 is a slot that was released
	last  int
}

// ErrReleased says that a key's slot was released before.
var ErrReleased = errors.New("the slot was released")

// Reserve takes a slot for the target and returns its number.
func (c *Calendar) Reserve(_ context.Context, key, _ string) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slot, known := c.slots[key]; known && slot == 0 {
		return 0, ErrReleased
	} else if known {
		return slot, nil
	}
	c.last++
	c.set(key, c.last)
	return c.last, nil
}

// Release gives a key's slot back, if it has one, and keeps it from getting one.
func (c *Calendar) Release(_ context.Context, key string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(key, 0)
	return nil
}

func (c *Calendar) set(key string, slot int) {
	if c.slots == nil {
		c.slots = make(map[string]int)
	}
	c.slots[key] = slot
}

// Reserved lists the slots that are taken.
func (c *Calendar) Reserved() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	slots := slices.AppendSeq([]int{}, maps.Values(c.slots))
	slices.Sort(slots)
	return slices.DeleteFunc(slots, func(slot int) bool { return slot == 0 })
}
