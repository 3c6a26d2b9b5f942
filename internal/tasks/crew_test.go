package tasks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/internal/records"
)

// TestTasksThatAreHeldAlready: a task comes again at once if its run has only to go, as when a
// client answers or cancels faster than that, and later if the run is still at it.
func TestTasksThatAreHeldAlready(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		change func(before *run)
		pause  time.Duration
		in     bool
	}{
		"at rest":     {func(*run) {}, 0, true},
		"at work":     {func(r *run) { r.e.Wake = now.Add(time.Minute) }, longPutBack, false},
		"replaced":    {func(r *run) { r.lost = true }, longPutBack, false},
		"not written": {func(r *run) { r.unwritten = &unwritten{} }, longPutBack, false},
		"writing":     {func(r *run) { r.lock() }, shortPutBack, false},
	} {
		t.Run(name, func(t *testing.T) {
			var crew crew
			crew.init(1, 1, nil)
			crew.busy = 1 // the task waits for a place, and does not begin
			before := &run{key: "task", mutex: make(chan struct{}, 1), e: &records.TaskEntry{}}
			c.change(before)
			crew.held["task"] = before
			pause, admitted := crew.admit(&run{key: "task"}, now)
			assert.Equal(t, c.pause, pause)
			assert.Equal(t, c.in, admitted)
		})
	}
}
