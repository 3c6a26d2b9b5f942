package stateless

import (
	"context"
	"fmt"
	"net/http"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
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
	stop, rerr := r.Way.KeepOpen()
	if rerr != nil {
		return nil, rerr
	}
	// First of all: each task is looked for in the ledger.
	leave, rerr := d.streams.Enter(r.Account())
	if rerr != nil {
		return nil, rerr
	}
	defer leave()
	filter, err := d.readFilter(ctx, r)
	if err != nil {
		return nil, err
	}
	// It begins before it is acknowledged, so that a change right after that is not lost.
	sub := d.Hub.Subscribe(dialect.NewInterest(filter.Tools, filter.Prompts, filter.Resources, filter.URIs))
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
		var member []byte
		if e.Change == dialect.ResourceUpdated {
			member = wire.AppendString([]byte(`"uri":`), e.URI)
		}
		if waits {
			say(e.Method(), member)
		}
		return waits
	}
	shown, err := wire.Marshal(filter)
	if err != nil {
		return nil, err
	}
	say("notifications/subscriptions/acknowledged", append([]byte(`"notifications":`), shown...))
	watched := d.watch(ctx, r, filter.tasks)
	defer watched.stop()
	for open := true; open; {
		select {
		case <-sub.Ready:
			tell()
			continue
		case news := <-watched.news:
			say("notifications/tasks", news)
			continue
		case <-watched.broken:
		case <-ctx.Done():
		case <-stop:
		case <-d.Draining.Done():
		}
		open = false
	}
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
		return h, wire.Refuse(http.StatusBadRequest, wire.CodeInvalidParams, tooManyURIsText)
	}
	h = listenFilter{
		Tools:     f.Tools && len(d.Tools.Of(engine.KindTool)) > 0,
		Prompts:   f.Prompts && len(d.Tools.Of(engine.KindPrompt)) > 0,
		Resources: f.Resources && len(d.Tools.Of(engine.KindResource)) > 0,
	}
	looked := make(map[string]struct{}, len(f.URIs))
	for _, uri := range f.URIs {
		if ctx.Err() != nil {
			return h, wire.NewError(wire.CodeInternalError, dialect.InternalText) // no client reads it
		}
		if _, twice := looked[uri]; twice {
			continue
		}
		looked[uri] = struct{}{}
		if d.Tools.Serves(uri) {
			h.URIs = append(h.URIs, uri)
		}
	}
	if f.TaskIDs == nil || !d.OffersTasks() {
		return h, nil
	}
	return h, d.findTasks(ctx, r, f.TaskIDs, &h)
}

var tooManyURIsText = fmt.Sprintf("params.notifications.resourceSubscriptions has too many URIs: %d with %d bytes altogether may be there", dialect.MaxURIs, dialect.MaxURIBytes)
