package client

import (
	"context"
	"encoding/json"
	"time"
)

// news waits for the next state of a task: until it is time to ask the server again, or
// until the server tells of it unasked, if it takes a subscription (MCP 2026-07-28,
// subscriptions/listen). The zero value has not subscribed.
type news struct {
	// last is the state that ended the last wait, or nil: ask the server.
	last *Task

	cancel context.CancelFunc
	states chan *Task    // holds the latest state that the server has sent
	ready  chan struct{} // is closed when the server has taken the subscription; nil when that is known
	over   chan struct{} // is closed when the subscription has ended; nil when that is known
	ended  chan struct{} // the same, for stop
	// subscribed: the server tells.
	subscribed bool
}

// reminder is how often a server that tells of a task is asked nevertheless.
const reminder = 15 * time.Second

// wait subscribes, the first time, and waits.
func (n *news) wait(ctx context.Context, f *follower, pause time.Duration) error {
	if n.cancel == nil {
		n.subscribe(ctx, f)
	}
	n.last = nil
	asking := time.NewTimer(pause)
	defer asking.Stop()
	if n.subscribed {
		asking.Reset(max(pause, reminder))
	}
	for {
		select {
		case n.last = <-n.states:
			return nil
		case <-n.ready:
			n.ready, n.subscribed = nil, true
			return nil // ask once for what has changed before
		case <-n.over:
			n.ready, n.over, n.subscribed = nil, nil, false
			asking.Reset(pause)
		case <-asking.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (n *news) subscribe(ctx context.Context, f *follower) {
	ctx, n.cancel = context.WithCancel(ctx)
	n.states, n.ready, n.over = make(chan *Task, 1), make(chan struct{}), make(chan struct{})
	n.ended = n.over
	id, ready, over := f.p.Task, n.ready, n.over
	d := statelessDialect{f.options}
	r := introduced("subscriptions/listen", "", listenParams{listenFilter{[]string{id}}, d.meta(f.h).withTasks()})
	acknowledged := false
	r.notify = func(method string, params json.RawMessage) {
		switch {
		case method == "notifications/subscriptions/acknowledged" && !acknowledged:
			var wire struct {
				Notifications listenFilter `json:"notifications"`
			}
			if json.Unmarshal(params, &wire) != nil || len(wire.Notifications.TaskIDs) != 1 || wire.Notifications.TaskIDs[0] != id {
				n.cancel() // it will not tell
				return
			}
			acknowledged = true
			close(ready)
		case method == "notifications/tasks" && acknowledged:
			if task, err := parseTask(params, f.options.Limits); err == nil && task.ID == id {
				select {
				case <-n.states: // an older one
				default:
				}
				n.states <- task
			}
		}
	}
	go func() {
		defer close(over)
		// If it fails or ends, the server is asked as before.
		_, _ = f.transport.exchange(ctx, &r)
	}()
}

func (n *news) stop() {
	if n.cancel != nil {
		n.cancel()
		<-n.ended
	}
}

type listenFilter struct {
	TaskIDs []string `json:"taskIds"`
}

type listenParams struct {
	Notifications listenFilter `json:"notifications"`
	Meta          *requestMeta `json:"_meta"`
}
