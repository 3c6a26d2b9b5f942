package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/internal/engine"
)

// listenMethod opens a subscription: a request that stays open and brings
// notifications (MCP 2026-07-28, basic/patterns/subscriptions).
const listenMethod = "subscriptions/listen"

// keepAlive is how often an idle event stream shows that it is alive.
const keepAlive = 15 * time.Second

// subscriptionKey marks each message of a subscription with its request's id.
const subscriptionKey = "io.modelcontextprotocol/subscriptionId"

// listenFilter is what a client wants to hear about, and what it will.
type listenFilter struct {
	Tools     bool     `json:"toolsListChanged,omitzero"`
	Prompts   bool     `json:"promptsListChanged,omitzero"`
	Resources bool     `json:"resourcesListChanged,omitzero"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
}

// Limits of the resources that one subscription is for, together with the bytes of
// their URIs: they are held for as long as it lasts.
const (
	maxListenURIs     = 1000
	maxListenURIBytes = 128 << 10
)

// listener is one open subscription.
type listener struct {
	id    jsontext.Value
	ack   []byte
	sub   *subscription
	leave func()
	// The server stops when ended is closed, the connection when stop is, which
	// may be nil.
	ended, stop <-chan struct{}
}

// openListener makes the subscription that a request asks for. It begins at once,
// so that a change right after the acknowledgement is not lost; events wait until
// run sends them.
func (d *stateless) openListener(ctx context.Context, r *statelessRequest) (*listener, *refusal) {
	var p struct {
		Notifications *listenFilter `json:"notifications"`
	}
	if fail := decodeParams(r.params, &p); fail != nil {
		return nil, &refusal{http.StatusBadRequest, fail}
	}
	if p.Notifications == nil {
		return nil, refuse(http.StatusBadRequest, jsonrpc2.CodeInvalidParams, "params.notifications is missing: it says what to listen for")
	}
	if tooManyURIs(p.Notifications.URIs) {
		return nil, refuse(http.StatusBadRequest, jsonrpc2.CodeInvalidParams, tooManyURIsText)
	}
	honoured, err := d.honoured(ctx, p.Notifications)
	if err != nil {
		return nil, refuse(http.StatusOK, jsonrpc2.CodeInternalError, internalText) // nobody reads it
	}
	filter, err := marshal(honoured)
	if err != nil {
		return nil, refuse(http.StatusOK, jsonrpc2.CodeInternalError, internalText)
	}
	ended, leave, err := d.streams.enter(d.ownerOf(r.caller))
	switch {
	case errors.Is(err, errOwnStreams):
		return nil, refuse(http.StatusTooManyRequests, jsonrpc2.CodeInvalidRequest, err.Error())
	case err != nil:
		return nil, refuse(http.StatusServiceUnavailable, jsonrpc2.CodeInternalError, err.Error())
	}
	l := &listener{id: r.id, ended: ended, leave: leave}
	l.ack = l.notification("notifications/subscriptions/acknowledged", `"notifications":`, filter)
	l.sub = d.hub.subscribe(newInterest(honoured.Tools, honoured.Prompts, honoured.Resources, honoured.URIs))
	return l, nil
}

var tooManyURIsText = fmt.Sprintf("params.notifications.resourceSubscriptions has too many URIs: %d with %d bytes altogether may be there", maxListenURIs, maxListenURIBytes)

func tooManyURIs(uris []string) bool {
	size := 0
	for _, uri := range uris {
		size += len(uri)
	}
	return len(uris) > maxListenURIs || size > maxListenURIBytes
}

// honoured leaves out of a filter what the server has not, and what is there twice.
// It stops when the client has gone.
func (d *stateless) honoured(ctx context.Context, f *listenFilter) (listenFilter, error) {
	h := listenFilter{
		Tools:     f.Tools && len(d.tools.List()) > 0,
		Prompts:   f.Prompts && len(d.tools.Of(engine.KindPrompt)) > 0,
		Resources: f.Resources && len(d.tools.Of(engine.KindResource)) > 0,
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
		if d.tools.Serves(uri) {
			h.URIs = append(h.URIs, uri)
		}
	}
	return h, nil
}

// outlet is the way from a listener to its client.
type outlet interface {
	send(message []byte)
	alive()
}

// run sends what there is to hear until the client has heard enough, which ctx
// tells, or the server stops. It reports whether the client waits for a response.
func (l *listener) run(ctx context.Context, out outlet, every time.Duration) bool {
	defer l.leave()
	defer l.sub.close()
	idle := time.NewTicker(every)
	defer idle.Stop()
	out.send(l.ack)
	for {
		select {
		case <-ctx.Done():
			return false
		case <-l.sub.ready:
			if e, ok := l.sub.next(); ok {
				out.send(l.event(e))
			}
		case <-idle.C:
			out.alive()
		case <-l.ended:
			return l.part(out)
		case <-l.stop:
			return l.part(out)
		}
	}
}

// part says that there is no more to come. Of the pages on cancellation and on
// subscriptions each demands another message at the end, this notification or
// a response; both do no harm.
func (l *listener) part(out outlet) bool {
	l.flush(out)
	out.send(l.notification("notifications/cancelled", `"requestId":`, l.id))
	return true
}

// flush sends the events that wait.
func (l *listener) flush(out outlet) {
	for e, ok := l.sub.next(); ok; e, ok = l.sub.next() {
		out.send(l.event(e))
	}
}

func (l *listener) event(e event) []byte {
	if e.change != resourceUpdated {
		return l.notification(e.method(), "", nil)
	}
	return l.notification(e.method(), `"uri":`, appendString(nil, e.uri))
}

// notification writes a message of the subscription. It has the id of the request
// in the form in which it came.
func (l *listener) notification(method, member string, value []byte) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","method":"`), method...)
	b = append(b, `","params":{"_meta":{"`+subscriptionKey+`":`...)
	b = append(b, l.id...)
	b = append(b, '}')
	if member != "" {
		b = append(append(append(b, ','), member...), value...)
	}
	return append(b, '}', '}')
}

// listenHTTP serves a subscription as a stream of events.
func (d *stateless) listenHTTP(out *reply, r *statelessRequest) {
	if !out.events {
		no := refuse(http.StatusNotAcceptable, jsonrpc2.CodeInvalidRequest, "a subscription is a text/event-stream, which the Accept header excludes")
		out.respond(no.status, appendReply(nil, r.id, nil, no))
		return
	}
	l, no := d.openListener(out.ctx, r)
	if no != nil {
		out.respond(no.status, appendReply(nil, r.id, nil, no))
		return
	}
	if l.run(out.ctx, out, d.keepAlive) {
		out.respond(http.StatusOK, appendReply(nil, r.id, d.goodbye(l), nil))
	}
}

// goodbye is the result that ends a subscription.
func (d *stateless) goodbye(l *listener) []byte {
	b := d.finishMeta([]byte("{"), resultComplete)
	b = append(b, `,"`+subscriptionKey+`":`...)
	return append(append(b, l.id...), '}', '}')
}
