package stateless

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// Subscriptions to tasks. Each notification has the whole task, as tasks/get shows it.

// maxWatched is how many tasks one subscription tells of: each is looked for when it begins,
// and watched until it ends.
const maxWatched = 100

var tooManyTasksText = fmt.Sprintf("params.notifications.taskIds has too many tasks: %d may be there; open another subscription, or use tasks/get", maxWatched)

// findTasks puts into h the tasks with these ids that are the caller's. It says nothing of the
// others.
func (d *stateless) findTasks(ctx context.Context, r *request, ids []string, h *listenFilter) error {
	if !r.tasks {
		return missingTasks()
	}
	if len(ids) > maxWatched {
		return wire.Refuse(http.StatusBadRequest, wire.CodeInvalidParams, tooManyTasksText)
	}
	for i, id := range ids {
		if !dialect.OwnTaskID(id) || slices.Contains(ids[:i], id) {
			continue
		}
		task, err := d.Tasks.Get(ctx, r.Principal, id)
		if errors.Is(err, tasks.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if task.Status.Ended() { // its result may be large, and is read when it can be sent
			task = &tasks.Task{ID: id, Saga: task.Saga, Status: task.Status}
		}
		h.TaskIDs = append(h.TaskIDs, id)
		h.tasks = append(h.tasks, task)
	}
	return nil
}

// watched are tasks that a subscription tells of.
type watched struct {
	// news are the members of a notification's parameters.
	news <-chan []byte
	// broken is closed when a task cannot be watched any more, so that the client had better
	// begin again.
	broken <-chan struct{}
	// stop ends it all, and waits until it has.
	stop func()
}

// watch tells of each task at once, so that nothing is missed that happened since its client
// has heard of it, and then of each change. A task waits for the subscriber: how it stands
// when that reads is what is sent, whatever was in between.
func (d *stateless) watch(ctx context.Context, r *request, list []*tasks.Task) watched {
	ctx, cancel := context.WithCancel(ctx)
	news, broken := make(chan []byte), make(chan struct{})
	ending := make(chan struct{}, 1)
	var once sync.Once
	var running sync.WaitGroup
	for _, task := range list {
		running.Go(func() {
			if err := d.follow(ctx, r, task, news, ending); err != nil && ctx.Err() == nil {
				d.Log.WarnContext(ctx, "task not watched any more", "saga", tokens.ID(task.Saga).String(), "error", err)
				once.Do(func() { close(broken) })
			}
		})
	}
	return watched{news, broken, func() { cancel(); running.Wait() }}
}

// follow sends what there is to tell of a task until it has ended, or is forgotten. While one
// tells of an end, ending has an element: no more than one result is in memory then, however
// many tasks there are and however slowly their client reads.
func (d *stateless) follow(ctx context.Context, r *request, task *tasks.Task, news chan<- []byte, ending chan struct{}) error {
	var last []byte
	tell := func(t *tasks.Task) error {
		b, err := d.detailed(ctx, r, t)
		if err != nil {
			return err
		}
		if b = b[1:]; bytes.Equal(b, last) { // what has changed, no client sees
			return nil
		}
		last = b
		select {
		case news <- b:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	ended := task.Status.Ended()
	if !ended {
		if err := tell(task); err != nil {
			return err
		}
		for n, err := range d.Tasks.Follow(ctx, r.Principal, task.ID, tasks.NoEvents, nil) {
			if errors.Is(err, tasks.ErrNotFound) {
				return nil
			}
			if err == nil {
				if ended = n.Task.Status.Ended(); ended {
					break
				}
				err = tell(n.Task)
			}
			if err != nil {
				return err
			}
		}
	}
	if !ended {
		return nil
	}
	select {
	case ending <- struct{}{}:
		defer func() { <-ending }()
	case <-ctx.Done():
		return ctx.Err()
	}
	t, err := d.Tasks.Get(ctx, r.Principal, task.ID)
	if errors.Is(err, tasks.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return tell(t)
}
