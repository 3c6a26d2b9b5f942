package stateless

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// listenMethod opens a subscription: a request that stays open and brings
// notifications (MCP 2026-07-28, basic/patterns/subscriptions).
const listenMethod = "subscriptions/listen"

// subscriptionKey marks each message of a subscription with its request's id.
const subscriptionKey = "io.modelcontextprotocol/subscriptionId"

// listenFilter is what a client wants to hear about, and what it will.
type listenFilter struct {
	Tools     bool     `json:"toolsListChanged,omitzero"`
	Prompts   bool     `json:"promptsListChanged,omitzero"`
	Resources bool     `json:"resourcesListChanged,omitzero"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
	TaskIDs   []string `json:"taskIds,omitempty"`

	// tasks are those with TaskIDs, as they were found.
	tasks []*tasks.Task
}

// listen answers a subscription, when it has ended: its client has heard enough, which ctx
// tells, or the server or the connection stops.
func (d *stateless) listen(ctx context.Context, r *request) ([]byte, error) {
	if rerr := r.Way.KeepOpen(); rerr != nil {
		return nil, rerr
	}
	// First of all: each task is looked for in the ledger.
	leave, rerr := d.streams.Enter(r.Account)
	if rerr != nil {
		return nil, rerr
	}
	defer leave()
	filter, err := d.readFilter(ctx, r)
	if err != nil {
		return nil, err
	}
	// It begins before it is acknowledged, so that a change right after that is not lost.
	sub := d.Hub.Subscribe(filter.Tools, filter.Prompts, filter.Resources, filter.URIs)
	defer sub.Close()
	mark := `"` + subscriptionKey + `":` + string(r.Message.ID) // the id in the form in which it came
	say := func(method string, member []byte) {
		b := []byte(`{"_meta":{` + mark + `}`)
		if member != nil {
			b = append(append(b, ','), member...)
		}
		r.Way.Notify(method, append(b, '}'))
	}
	tell := func() bool {
		e, waits := sub.Next()
		if waits && e.URI != "" {
			say(e.Method, wire.AppendString([]byte(`"uri":`), e.URI))
		} else if waits {
			say(e.Method, nil)
		}
		return waits
	}
	shown, err := wire.Marshal(filter)
	if err != nil {
		return nil, err
	}
	say("notifications/subscriptions/acknowledged", append([]byte(`"notifications":`), shown...))
	ctx, cancel := context.WithCancel(ctx)
	watched, wait := d.watch(ctx, cancel, r, filter.tasks)
	for ctx.Err() == nil {
		select {
		case <-sub.Ready:
			tell()
		case t := <-watched.news:
			if news, err := watched.tell(ctx, t); err != nil {
				d.Log.WarnContext(ctx, "task not watched any more", "saga", tokens.ID(t.Saga).String(), "error", err)
				cancel()
			} else if news != nil {
				say("notifications/tasks", news)
			}
		case <-ctx.Done():
		case <-r.Closing.Done():
			cancel()
		}
	}
	cancel()
	wait()
	for tell() { // what waits
	}
	// Of the pages on cancellation and on subscriptions each demands another message at the
	// end, this notification or a response; both do no harm.
	say("notifications/cancelled", append([]byte(`"requestId":`), r.Message.ID...))
	b := d.finishMeta([]byte("{"), resultComplete)
	return append(append(b, ','), mark+"}}"...), nil
}

// readFilter reads what a request is to hear about. It leaves out what the server has not,
// and what is there twice, and stops when the client has gone.
func (d *stateless) readFilter(ctx context.Context, r *request) (h listenFilter, err error) {
	var p struct {
		Notifications *listenFilter `json:"notifications"`
	}
	if rerr := wire.DecodeParams(r.Message.Params, &p); rerr != nil {
		rerr.Status = http.StatusBadRequest
		return h, rerr
	}
	f := p.Notifications
	if f == nil {
		return h, wire.Refuse(http.StatusBadRequest, wire.CodeInvalidParams, "params.notifications is missing: it says what to listen for")
	}
	size := 0
	for _, uri := range f.URIs {
		size += len(uri)
	}
	if len(f.URIs) > dialect.MaxURIs || size > dialect.MaxURIBytes {
		return h, wire.Refuse(http.StatusBadRequest, wire.CodeInvalidParams, fmt.Sprintf(
			"params.notifications.resourceSubscriptions has too many URIs: %d with %d bytes altogether may be there", dialect.MaxURIs, dialect.MaxURIBytes))
	}
	h = listenFilter{
		Tools:     f.Tools && len(d.Tools.Of(engine.KindTool)) > 0,
		Prompts:   f.Prompts && len(d.Tools.Of(engine.KindPrompt)) > 0,
		Resources: f.Resources && len(d.Tools.Of(engine.KindResource)) > 0,
	}
	looked := make(map[string]struct{}, len(f.URIs))
	for _, uri := range f.URIs {
		if ctx.Err() != nil {
			return h, dialect.Fault() // no client reads it
		}
		if _, twice := looked[uri]; twice {
			continue
		}
		looked[uri] = struct{}{}
		if d.Serves(ctx, uri) {
			h.URIs = append(h.URIs, uri)
		}
	}
	if f.TaskIDs == nil || !d.OffersTasks() {
		return h, nil
	}
	return h, d.findTasks(ctx, r, f.TaskIDs, &h)
}

// Subscriptions to tasks. Each notification has the whole task, as tasks/get shows it.

// maxWatched is how many tasks one subscription tells of: each is looked for when it begins,
// and watched until it ends.
const maxWatched = 100

// findTasks puts into h the tasks with these ids that are the caller's. It says nothing of the
// others.
func (d *stateless) findTasks(ctx context.Context, r *request, ids []string, h *listenFilter) error {
	if !r.Tasks {
		return missingTasks()
	}
	if len(ids) > maxWatched {
		return wire.Refuse(http.StatusBadRequest, wire.CodeInvalidParams, fmt.Sprintf(
			"params.notifications.taskIds has too many tasks: %d may be there; open another subscription, or use tasks/get", maxWatched))
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

// watched are tasks that a subscription tells of. How a task stands when the subscriber reads is what is
// sent, whatever was in between.
type watched struct {
	*stateless
	request *request
	// news are tasks that have changed; of one that has ended, the id and the status alone: its result
	// may be large, and is read when it can be sent.
	news chan *tasks.Task
	// last is what was sent of each.
	last map[string][]byte
}

// watch follows each task, until ctx ends. It cancels ctx if one cannot be followed any more, so that the
// client had better begin again. wait waits until nothing is followed.
func (d *stateless) watch(ctx context.Context, cancel func(), r *request, list []*tasks.Task) (w *watched, wait func()) {
	w = &watched{d, r, make(chan *tasks.Task), make(map[string][]byte)}
	var running sync.WaitGroup
	for _, task := range list {
		running.Go(func() {
			if err := w.follow(ctx, task); err != nil && ctx.Err() == nil {
				d.Log.WarnContext(ctx, "task not watched any more", "saga", tokens.ID(task.Saga).String(), "error", err)
				cancel()
			}
		})
	}
	return w, running.Wait
}

// follow sends a task when it has changed, until it has ended or is forgotten.
func (w *watched) follow(ctx context.Context, task *tasks.Task) error {
	send := func(t *tasks.Task) error {
		select {
		case w.news <- t:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if task.Status.Ended() {
		return send(task)
	}
	for n, err := range w.Tasks.Follow(ctx, w.request.Principal, task.ID, tasks.NoEvents, nil) {
		switch {
		case errors.Is(err, tasks.ErrNotFound):
			return nil
		case err == nil && n.Task.Status.Ended():
			task = &tasks.Task{ID: task.ID, Saga: task.Saga, Status: n.Task.Status}
		case err == nil:
			err = send(n.Task)
		}
		if err != nil {
			return err
		}
	}
	return send(task)
}

// tell returns what is to be said of a task, as members of an object; nil if its client knows.
func (w *watched) tell(ctx context.Context, t *tasks.Task) ([]byte, error) {
	var err error
	if t.Status.Ended() {
		if t, err = w.Tasks.Get(ctx, w.request.Principal, t.ID); errors.Is(err, tasks.ErrNotFound) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
	}
	b, err := w.detailed(ctx, w.request, t)
	if err != nil || bytes.Equal(b, w.last[t.ID]) { // what has changed, no client sees
		return nil, err
	}
	if w.last[t.ID] = b; t.Status.Ended() {
		delete(w.last, t.ID)
	}
	return b[1:], nil
}
