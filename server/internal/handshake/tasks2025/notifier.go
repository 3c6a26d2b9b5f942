package tasks2025

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
)

// MaxFollowed is how many tasks of a session a client hears of: the newest.
const MaxFollowed = 100

// Notifier sends a session the status of its tasks while a connection carries its stream. It follows
// each task in a goroutine of its own until that has ended.
type Notifier struct {
	view    Request
	session Session
	ctx     context.Context // ends with the connection
	end     context.CancelFunc
	// since is when a task must have ended for the client to hear of it, which has looked before.
	since time.Time

	mu sync.Mutex
	// followed has what ends each that is followed; nil for one of which there is nothing more to say.
	followed map[string]context.CancelFunc
}

// Session is the session whose client hears of tasks.
type Session interface {
	// Begun returns the ids of the newest tasks that the session has begun anywhere.
	Begun(context.Context) ([]string, error)
	// Awaits reports whether a request here waits for the result of a task: that sends the status.
	Awaits(task string) bool
	// Send sends a task, as it is in notifications.
	Send(task json.RawMessage)
	// Go runs something for which a server that stops waits.
	Go(func())
}

// Notify returns a notifier for a session, until ctx ends: it says nothing of tasks that have ended before
// since.
func Notify(ctx context.Context, view Request, s Session, since time.Time) *Notifier {
	n := &Notifier{view: view, session: s, since: since, followed: make(map[string]context.CancelFunc)}
	n.ctx, n.end = context.WithCancel(ctx)
	return n
}

// End ends all that is followed.
func (n *Notifier) End() { n.end() }

// Search has the tasks be followed that the session has begun anywhere.
func (n *Notifier) Search() {
	n.session.Go(func() {
		for n.ctx.Err() == nil {
			begun, err := n.session.Begun(n.ctx)
			if err == nil {
				for _, id := range begun {
					n.Follow(id)
				}
				return
			}
			pause(n.ctx)
		}
	})
}

// Follow has the client hear of a task.
func (n *Notifier) Follow(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.followed[id]; known || n.ctx.Err() != nil {
		return
	}
	if len(n.followed) >= 2*MaxFollowed { // the session lists no more of those that are over
		maps.DeleteFunc(n.followed, func(_ string, end context.CancelFunc) bool { return end == nil })
	}
	if len(n.followed) >= 2*MaxFollowed {
		return
	}
	ctx, cancel := context.WithCancel(n.ctx)
	n.followed[id] = cancel
	n.session.Go(func() {
		defer n.Forget(id)
		n.follow(ctx, id)
	})
}

// follow sends the status of a task whenever it has changed.
func (n *Notifier) follow(ctx context.Context, id string) {
	// It is new to the client, or begun by it, so that is what it knows.
	sent := dialect.TaskStatus(tasks.Working)
	for ; ctx.Err() == nil; pause(ctx) {
		for news, err := range n.view.Tasks.Follow(ctx, n.view.Principal, id, tasks.NoEvents, nil) {
			if errors.Is(err, tasks.ErrNotFound) {
				return
			}
			if err != nil {
				break
			}
			task := news.Task
			b, err := n.view.Append(ctx, nil, task)
			if err != nil {
				break
			}
			if now := dialect.TaskStatus(task.Status) + task.Message; now != sent {
				sent = now
				if !(task.Status.Ended() && task.Updated.Before(n.since)) && !n.session.Awaits(id) {
					n.session.Send(b)
				}
			}
			if task.Status.Ended() {
				return
			}
		}
	}
}

// Forget ends following a task, of which the client needs to hear nothing more.
func (n *Notifier) Forget(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if end := n.followed[id]; end != nil {
		end()
	}
	n.followed[id] = nil
}

// pause waits a second before a ledger is asked again that has failed, or until ctx ends.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
}
