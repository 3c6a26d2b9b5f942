package handshake

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake/tasks2025"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// The stream of a session's GET carries the status of its tasks, on whatever replica that is: an
// alias leads from the session to the tasks that it has begun, and who carries the stream follows
// them. The status of a task whose result the client waits for here is on that request's stream alone.

func (d *handshake) begunName(a *agreed) durable.Name {
	return d.Core.DocumentName("tasks of a session", string(a.id[:]))
}

// begun has the client hear of a task that its session has begun. If that cannot be noted it
// still has tasks/get.
func (c *call) begun(ctx context.Context, id string) {
	s := c.peer.session
	if s == nil || c.post == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	add := func(ids *[]string) (bool, error) {
		if slices.Contains(*ids, id) {
			return false, nil
		}
		list := append(slices.Clone(*ids), id)
		*ids = list[max(0, len(list)-tasks2025.MaxFollowed):]
		return true, nil
	}
	s.beginning.Lock() // those that begin here need not get in each other's way
	_, err := durable.ChangeDocument(ctx, c.Core, c.Principal, c.begunName(s.agreed), s.agreed.expires, nil, add)
	s.beginning.Unlock()
	if err != nil {
		c.Log.InfoContext(ctx, "a session does not hear of the status of a task", "error", err)
		return
	}
	s.mu.Lock()
	here, elsewhere := s.notifier, s.record != nil && s.record.Value.Carrier != "" && processOf(s.record.Value.Carrier) != c.Hub.By()
	s.mu.Unlock()
	switch {
	case here != nil:
		here.Follow(id)
	case elsewhere:
		c.Hub.Touch(s.agreed.id)
	}
}

// tells sends the client the status of its tasks, until stop is called.
func (d *handshake) tells(ctx context.Context, s *session, x *dialect.Exchange) (stop func()) {
	if !d.offersTasks(s.peer) {
		return func() {}
	}
	since := d.Turns.Now()
	if x.Header.Get("Last-Event-ID") != "" { // it may have missed something
		since = since.Add(-callKeep)
	}
	t := tasks2025.Notify(ctx, d.newCall(x, s.peer, nil, nil).taskView(), notified{d, s}, since)
	s.mu.Lock()
	before := s.notifier
	s.notifier = t
	s.mu.Unlock()
	if before != nil {
		before.End()
	}
	t.Search()
	return func() {
		s.mu.Lock()
		if s.notifier == t {
			s.notifier = nil
		}
		s.mu.Unlock()
		t.End()
	}
}

// knows notes that the client has the result of a task.
func (c *call) knows(task string) {
	if c.post == nil {
		return
	}
	c.post.mu.Lock()
	t := c.post.notifier
	c.post.mu.Unlock()
	if t != nil {
		t.Forget(task)
	}
}

// notified implements [tasks2025.Session].
type notified struct {
	*handshake
	s *session
}

func (t notified) Begun(ctx context.Context) ([]string, error) {
	found, err := durable.ReadDocument[[]string](ctx, t.Core, t.begunName(t.s.agreed))
	if err != nil {
		return nil, err
	}
	return found.Value, nil
}

func (t notified) Awaits(task string) bool {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	for _, c := range t.s.calls {
		if c.task == task && c.message.Method == resultMethod {
			return true
		}
	}
	return false
}

func (t notified) Send(task json.RawMessage) {
	t.s.general.addMarked(t.s.position(t.s.changes), eventNote, wire.AppendCall(nil, 0, tasks2025.StatusMethod, task))
}

func (t notified) Go(f func()) { t.sessions.run(f) }
