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

// MaxFollowed is of how many tasks of a session a client hears: of the newest.
const MaxFollowed = 100

// Teller tells a session how its tasks are while a connection carries its stream.
type Teller struct {
	view    Request
	session Session
	ctx     context.Context // of the connection
	// since is when tasks must have ended for the client to hear of it, which has looked before.
	since time.Time

	mu        sync.Mutex
	followed  map[string]*followed
	waiting   []string // those that may have changed
	searching bool     // what the session has begun is to be looked for
	busy      bool
}

// Session is the session whose client hears of tasks.
type Session interface {
	// Begun returns the ids of the newest tasks that the session has begun anywhere.
	Begun(context.Context) ([]string, error)
	// Awaits reports whether a request here waits for the result of a task: that tells how it is.
	Awaits(task string) bool
	// Tell sends a task, as it is in notifications.
	Tell(task json.RawMessage)
	// Go does something meanwhile, for which a server that stops waits.
	Go(func())
}

// followed is a task that a client hears of.
type followed struct {
	stop    func()
	told    string // what was told last
	waiting bool
	over    bool // there is nothing more to tell
}

// Tell returns what tells a session how its tasks are, until ctx ends: of those that have ended
// before since nothing.
func Tell(ctx context.Context, view Request, s Session, since time.Time) *Teller {
	return &Teller{view: view, session: s, ctx: ctx, since: since, followed: make(map[string]*followed)}
}

// End ends what is followed.
func (t *Teller) End() {
	t.mu.Lock()
	all := t.followed
	t.followed = nil
	t.mu.Unlock()
	for _, f := range all {
		if f.stop != nil {
			f.stop()
		}
	}
}

// Search has the tasks be followed that the session has begun anywhere.
func (t *Teller) Search() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.searching = true
	t.work()
}

// Follow has the client hear of a task.
func (t *Teller) Follow(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.followed == nil || t.followed[id] != nil {
		return
	}
	if len(t.followed) >= 2*MaxFollowed { // the session knows no more of those that are over
		maps.DeleteFunc(t.followed, func(_ string, f *followed) bool { return f.over })
	}
	if len(t.followed) >= 2*MaxFollowed {
		return
	}
	// It is new to the client, or begun by it, so that is what it knows.
	t.followed[id] = &followed{told: dialect.TaskStatus(tasks.Working), waiting: true}
	t.waiting = append(t.waiting, id)
	t.work()
}

// changed has a task be looked at. It waits for nothing.
func (t *Teller) changed(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.followed[id]; f != nil && !f.waiting && !f.over {
		f.waiting = true
		t.waiting = append(t.waiting, id)
		t.work()
	}
}

// work has a goroutine do what there is to do. The teller is locked.
func (t *Teller) work() {
	if t.busy || t.followed == nil {
		return
	}
	t.busy = true
	t.session.Go(func() {
		for t.next() {
		}
	})
}

// next does the next thing, or reports that there is none.
func (t *Teller) next() bool {
	t.mu.Lock()
	searches, id := t.searching, ""
	if t.searching = false; !searches {
		if t.busy = len(t.waiting) > 0 && t.followed != nil; !t.busy {
			t.mu.Unlock()
			return false
		}
		id, t.waiting = t.waiting[0], t.waiting[1:]
		if f := t.followed[id]; f != nil {
			f.waiting = false
		}
	}
	t.mu.Unlock()
	var err error
	if searches {
		var begun []string
		begun, err = t.session.Begun(t.ctx)
		for _, id := range begun {
			t.Follow(id)
		}
	} else {
		err = t.look(id)
	}
	if err != nil && t.ctx.Err() == nil { // the ledger fails
		sleep(t.ctx)
		if searches {
			t.Search()
		} else {
			t.changed(id)
		}
	}
	return true
}

// look looks at a task, and tells the client if it has changed.
func (t *Teller) look(id string) error {
	t.mu.Lock()
	f := t.followed[id]
	over, listens := f == nil || f.over, f != nil && f.stop != nil
	t.mu.Unlock()
	if over {
		return nil
	}
	if !listens {
		if err := t.listen(id, f); err != nil {
			return t.unless(id, err)
		}
	}
	task, err := t.view.Tasks.Status(t.ctx, t.view.Principal, id)
	if err != nil {
		return t.unless(id, err)
	}
	b, err := t.view.Append(t.ctx, nil, task)
	if err != nil {
		return err
	}
	if now := dialect.TaskStatus(task.Status) + task.Message; now != f.told {
		f.told = now
		if !(task.Status.Ended() && task.Updated.Before(t.since)) && !t.session.Awaits(id) {
			t.session.Tell(b)
		}
	}
	if task.Status.Ended() {
		t.Forget(id)
	}
	return nil
}

// unless forgets a task that is not there any more.
func (t *Teller) unless(id string, err error) error {
	if errors.Is(err, tasks.ErrNotFound) {
		t.Forget(id)
		return nil
	}
	return err
}

// listen has a task be looked at when it changes.
func (t *Teller) listen(id string, f *followed) error {
	ctx, cancel := context.WithCancel(t.ctx)
	stop, err := t.view.Tasks.Notify(ctx, t.view.Principal, id, func() { t.changed(id) })
	if err != nil {
		cancel()
		return err
	}
	if stop == nil { // the store cannot tell
		t.session.Go(func() {
			for ctx.Err() == nil {
				for range t.view.Tasks.Watch(ctx, t.view.Principal, id, 0) {
					t.changed(id)
				}
				sleep(ctx)
			}
		})
	}
	end := func() {
		cancel()
		if stop != nil {
			stop()
		}
	}
	t.mu.Lock()
	f.stop = end
	over := t.followed == nil || f.over
	t.mu.Unlock()
	if over { // the goroutine that has ended it did not know of this
		end()
	}
	return nil
}

// Forget does not follow a task any more.
func (t *Teller) Forget(id string) {
	var stop func()
	t.mu.Lock()
	if f := t.followed[id]; f != nil {
		stop, f.stop, f.over = f.stop, nil, true
	} else if t.followed != nil {
		t.followed[id] = &followed{over: true}
	}
	t.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// pause is how long until the ledger is asked again that has failed.
const pause = time.Second

// sleep waits for a pause, or until ctx ends.
func sleep(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}
