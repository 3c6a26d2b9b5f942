package handshake

import (
	"context"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// How the tasks of a session are is told on the stream of its GET, on whatever replica that is: an
// alias leads from the session to the tasks that it has begun, and who carries the stream follows
// them. A task whose result the client waits for here is told of by that request's stream alone.

// maxFollowed is of how many tasks of a session a client is told: of the newest.
const maxFollowed = 100

// begunTasks is what the alias of a session leads to.
type begunTasks struct {
	IDs []string `json:"ids"`
}

func begunName(a *agreed) []string {
	return []string{"tasks of a session", hex.EncodeToString(a.id[:])}
}

// begun has the client be told of a task that its session has begun. If that cannot be noted it
// still has tasks/get.
func (c *call) begun(ctx context.Context, id string) {
	s := c.peer.session
	if s == nil || c.post == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	add := func(list *begunTasks) bool {
		if slices.Contains(list.IDs, id) {
			return false
		}
		list.IDs = append(list.IDs, id)
		list.IDs = list.IDs[max(0, len(list.IDs)-maxFollowed):]
		return true
	}
	s.beginning.Lock() // those that begin here need not get in each other's way
	err := records.ChangeAlias(ctx, c.Turns.Records(), c.Principal, s.agreed.expires, add, begunName(s.agreed)...)
	s.beginning.Unlock()
	if err != nil {
		c.Log.InfoContext(ctx, "a session is not told how a task is", "error", err)
		return
	}
	s.mu.Lock()
	here, elsewhere := s.teller, s.record != nil && s.record.Carrier != "" && processOf(s.record.Carrier) != c.Hub.By()
	s.mu.Unlock()
	switch {
	case here != nil:
		here.follow(id)
	case elsewhere:
		c.Hub.Touch(s.agreed.id)
	}
}

// teller tells how tasks are while a connection carries the stream.
type teller struct {
	*call
	s   *session
	ctx context.Context // of the connection
	// since is when tasks must have ended for the client to be told, which has looked before.
	since time.Time

	mu        sync.Mutex
	followed  map[string]*followed
	waiting   []string // those that may have changed
	searching bool     // what the session has begun is to be looked for
	busy      bool
}

// followed is a task that a client is told of.
type followed struct {
	stop    func()
	told    string // what was told last
	waiting bool
	over    bool // there is nothing more to tell
}

// tells has the client be told how its tasks are, until stop is called.
func (d *handshake) tells(ctx context.Context, s *session, x *dialect.Exchange) (stop func()) {
	if !d.offersTasks(s.peer) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	t := &teller{call: d.newCall(x, s.peer, nil, nil), s: s, ctx: ctx, since: d.Turns.Now(), followed: make(map[string]*followed)}
	if x.Header.Get("Last-Event-ID") != "" { // it may have missed something
		t.since = t.since.Add(-callKeep)
	}
	s.mu.Lock()
	before := s.teller
	s.teller = t
	s.mu.Unlock()
	if before != nil {
		before.end()
	}
	t.search()
	return func() {
		cancel()
		s.mu.Lock()
		if s.teller == t {
			s.teller = nil
		}
		s.mu.Unlock()
		t.end()
	}
}

// end ends what is followed.
func (t *teller) end() {
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

// search has the tasks be followed that the session has begun anywhere.
func (t *teller) search() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.searching = true
	t.work()
}

// follow has the client be told of a task.
func (t *teller) follow(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.followed == nil || t.followed[id] != nil {
		return
	}
	if len(t.followed) >= 2*maxFollowed { // the session knows no more of those that are over
		maps.DeleteFunc(t.followed, func(_ string, f *followed) bool { return f.over })
	}
	if len(t.followed) >= 2*maxFollowed {
		return
	}
	// It is new to the client, or begun by it, so that is what it knows.
	t.followed[id] = &followed{told: dialect.TaskStatus(tasks.Working), waiting: true}
	t.waiting = append(t.waiting, id)
	t.work()
}

// changed has a task be looked at. It waits for nothing.
func (t *teller) changed(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.followed[id]; f != nil && !f.waiting && !f.over {
		f.waiting = true
		t.waiting = append(t.waiting, id)
		t.work()
	}
}

// work has somebody do what there is to do. The teller is locked.
func (t *teller) work() {
	if t.busy || t.followed == nil {
		return
	}
	t.busy = true
	ended := t.sessions.running.Begin()
	go func() {
		defer ended()
		for t.next() {
		}
	}()
}

// next does the next thing, or reports that there is none.
func (t *teller) next() bool {
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
		var list begunTasks
		if _, err = t.Turns.Records().Alias(t.ctx, &list, begunName(t.s.agreed)...); err == nil {
			for _, id := range list.IDs {
				t.follow(id)
			}
		}
	} else {
		err = t.look(id)
	}
	if err != nil && t.ctx.Err() == nil { // the ledger fails
		sleep(t.ctx, unparkPause)
		if searches {
			t.search()
		} else {
			t.changed(id)
		}
	}
	return true
}

// look looks at a task, and tells the client if it has changed.
func (t *teller) look(id string) error {
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
	task, err := t.Tasks.Status(t.ctx, t.Principal, id)
	if err != nil {
		return t.unless(id, err)
	}
	b, err := t.appendTask(t.ctx, nil, task)
	if err != nil {
		return err
	}
	if now := dialect.TaskStatus(task.Status) + task.Message; now != f.told {
		f.told = now
		if !(task.Status.Ended() && task.Updated.Before(t.since)) && !t.s.awaits(id) {
			t.s.general.addMarked(t.s.told(t.s.changes), eventNote, wire.AppendCall(nil, 0, statusMethod, b))
		}
	}
	if task.Status.Ended() {
		t.forget(id)
	}
	return nil
}

// unless forgets a task that is not there any more.
func (t *teller) unless(id string, err error) error {
	if errors.Is(err, tasks.ErrNotFound) {
		t.forget(id)
		return nil
	}
	return err
}

// listen has a task be looked at when it changes.
func (t *teller) listen(id string, f *followed) error {
	ctx, cancel := context.WithCancel(t.ctx)
	stop, err := t.Tasks.Notify(ctx, t.Principal, id, func() { t.changed(id) })
	if err != nil {
		cancel()
		return err
	}
	if stop == nil { // the store cannot tell
		ended := t.sessions.running.Begin()
		go func() {
			defer ended()
			for ctx.Err() == nil {
				for range t.Tasks.Watch(ctx, t.Principal, id, 0) {
					t.changed(id)
				}
				sleep(ctx, unparkPause)
			}
		}()
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
	if over { // whoever has ended it did not know of this
		end()
	}
	return nil
}

// forget does not follow a task any more.
func (t *teller) forget(id string) {
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

// knows notes that the client has the result of a task.
func (c *call) knows(task string) {
	if c.post == nil {
		return
	}
	c.post.mu.Lock()
	t := c.post.teller
	c.post.mu.Unlock()
	if t != nil {
		t.forget(task)
	}
}

// awaits reports whether a request here waits for the result of a task.
func (s *session) awaits(task string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c.task == task && c.message.Method == resultMethod {
			return true
		}
	}
	return false
}
