package stateless

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
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
}

// listen answers a subscription, when it has ended: its client has heard enough, which ctx
// tells, or the server or the connection stops.
func (d *stateless) listen(ctx context.Context, r *request) ([]byte, error) {
	stop, rerr := r.Way.KeepOpen()
	if rerr != nil {
		return nil, rerr
	}
	l, rerr := d.openListener(ctx, r)
	if rerr != nil {
		return nil, rerr
	}
	l.run(ctx, r.Way, stop, d.Draining.Done())
	b := d.finishMeta([]byte("{"), resultComplete)
	b = append(b, `,"`+subscriptionKey+`":`...)
	return append(append(b, l.id...), '}', '}'), nil
}

// listener is one open subscription.
type listener struct {
	id     jsontext.Value
	filter json.RawMessage // what it is for, of what it asked for
	sub    *dialect.Subscription
	leave  func()
}

// openListener makes the subscription that a request asks for. It begins at once,
// so that a change right after the acknowledgement is not lost; events wait until
// run sends them.
func (d *stateless) openListener(ctx context.Context, r *request) (*listener, *wire.Error) {
	var p struct {
		Notifications *listenFilter `json:"notifications"`
	}
	if rerr := wire.DecodeParams(r.Message.Params, &p); rerr != nil {
		rerr.Status = http.StatusBadRequest
		return nil, rerr
	}
	if p.Notifications == nil {
		return nil, wire.Refuse(http.StatusBadRequest, wire.CodeInvalidParams, "params.notifications is missing: it says what to listen for")
	}
	if tooManyURIs(p.Notifications.URIs) {
		return nil, wire.Refuse(http.StatusBadRequest, wire.CodeInvalidParams, tooManyURIsText)
	}
	honoured, err := d.honoured(ctx, p.Notifications)
	if err != nil {
		return nil, wire.NewError(wire.CodeInternalError, dialect.InternalText) // nobody reads it
	}
	filter, err := wire.Marshal(honoured)
	if err != nil {
		return nil, wire.NewError(wire.CodeInternalError, dialect.InternalText)
	}
	leave, err := d.streams.enter(r.Account())
	switch {
	case errors.Is(err, errOwnStreams):
		return nil, wire.Refuse(http.StatusTooManyRequests, wire.CodeInvalidRequest, err.Error())
	case err != nil:
		rerr := wire.Refuse(http.StatusServiceUnavailable, wire.CodeInternalError, err.Error())
		rerr.RetryAfter = time.Second
		return nil, rerr
	}
	l := &listener{id: r.Message.ID, filter: filter, leave: leave}
	l.sub = d.Hub.Subscribe(dialect.NewInterest(honoured.Tools, honoured.Prompts, honoured.Resources, honoured.URIs))
	return l, nil
}

var tooManyURIsText = fmt.Sprintf("params.notifications.resourceSubscriptions has too many URIs: %d with %d bytes altogether may be there", dialect.MaxURIs, dialect.MaxURIBytes)

func tooManyURIs(uris []string) bool {
	size := 0
	for _, uri := range uris {
		size += len(uri)
	}
	return len(uris) > dialect.MaxURIs || size > dialect.MaxURIBytes
}

// honoured leaves out of a filter what the server has not, and what is there twice.
// It stops when the client has gone.
func (d *stateless) honoured(ctx context.Context, f *listenFilter) (listenFilter, error) {
	h := listenFilter{
		Tools:     f.Tools && len(d.Tools.Of(engine.KindTool)) > 0,
		Prompts:   f.Prompts && len(d.Tools.Of(engine.KindPrompt)) > 0,
		Resources: f.Resources && len(d.Tools.Of(engine.KindResource)) > 0,
	}
	looked := make(map[string]struct{}, len(f.URIs))
	for _, uri := range f.URIs {
		if ctx.Err() != nil {
			return h, context.Cause(ctx)
		}
		if _, twice := looked[uri]; twice {
			continue
		}
		looked[uri] = struct{}{}
		if d.Tools.Serves(uri) {
			h.URIs = append(h.URIs, uri)
		}
	}
	return h, nil
}

// run sends what there is to hear until the end. Then it says that there is no more to
// come: of the pages on cancellation and on subscriptions each demands another message at
// the end, this notification or a response; both do no harm.
func (l *listener) run(ctx context.Context, way dialect.Way, closing, draining <-chan struct{}) {
	defer l.leave()
	defer l.sub.Close()
	way.Notify("notifications/subscriptions/acknowledged", l.params(append([]byte(`"notifications":`), l.filter...)))
	for open := true; open; {
		select {
		case <-l.sub.Ready:
			if e, ok := l.sub.Next(); ok {
				l.tell(way, e)
			}
			continue
		case <-ctx.Done():
		case <-closing:
		case <-draining:
		}
		open = false
	}
	for e, ok := l.sub.Next(); ok; e, ok = l.sub.Next() {
		l.tell(way, e) // what waits
	}
	way.Notify("notifications/cancelled", l.params(append([]byte(`"requestId":`), l.id...)))
}

func (l *listener) tell(way dialect.Way, e dialect.Event) {
	var member []byte
	if e.Change == dialect.ResourceUpdated {
		member = wire.AppendString([]byte(`"uri":`), e.URI)
	}
	way.Notify(e.Method(), l.params(member))
}

// params are those of a message of the subscription. It has the id of the request in the
// form in which it came.
func (l *listener) params(member []byte) json.RawMessage {
	b := append([]byte(`{"_meta":{"`+subscriptionKey+`":`), l.id...)
	b = append(b, '}')
	if member != nil {
		b = append(append(b, ','), member...)
	}
	return append(b, '}')
}

// streams are the responses that stay open until somebody ends them (subscriptions).
// Each holds a connection or a part of one, so there are limits: one for all, and one
// for each owner.
type streams struct {
	most, mostOwned int

	mu    sync.Mutex
	open  int
	owned map[string]int
}

var (
	errManyStreams = errors.New("too many subscriptions are open; try again later")
	errOwnStreams  = errors.New("this caller has too many subscriptions open; end some")
)

// enter counts a stream in, unless there are too many. leave must be called when it has
// ended.
func (s *streams) enter(owner string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case owner != "" && s.owned[owner] >= s.mostOwned:
		return nil, errOwnStreams
	case s.open >= s.most:
		return nil, errManyStreams
	}
	s.open++
	if owner != "" {
		if s.owned == nil {
			s.owned = make(map[string]int)
		}
		s.owned[owner]++
	}
	return func() { s.leave(owner) }, nil
}

func (s *streams) leave(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	if owner == "" {
		return
	}
	if s.owned[owner]--; s.owned[owner] == 0 {
		delete(s.owned, owner)
	}
}
