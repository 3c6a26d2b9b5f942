package server

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/steps"
)

// peer is what the handshake fixed for as long as a session lasts (MCP
// 2025-11-25, basic/lifecycle), and what the client has set since.
type peer struct {
	revision revision
	features steps.Features
	// level is the least severe log message that the client gets.
	level atomic.Int32
	// changes are what the client hears without asking.
	changes *subscription
	// answering ends when the client can answer no more: its cause says why.
	answering context.Context
	silence   context.CancelCauseFunc
}

// Why a client is not waited for any more.
var (
	errSessionEnded = errors.New("the session ended before the client had answered")
	errCancelled    = errors.New("the client cancelled the request")
	errStopping     = errors.New("the server stops; call again")
)

// exchange is the way to the client while one of its requests is served.
type exchange interface {
	// notify sends a notification that belongs to the request.
	notify(method string, params json.RawMessage)
	// ask sends a request and waits for what the client says to it. It fails
	// when ctx ends, having told the client that no answer is needed any more.
	ask(ctx context.Context, method string, params json.RawMessage) (steps.Answer, error)
	// disconnect has the client come back later for the rest, if it can.
	disconnect(retry retryAfter)
}

// open answers initialize: what both sides agree on, and the result that says so.
func (d *handshake) open(params jsontext.Value) (*peer, json.RawMessage, *jsonrpc2.Error) {
	var p struct {
		ProtocolVersion *string            `json:"protocolVersion"`
		Capabilities    clientCapabilities `json:"capabilities"`
	}
	if fail := decodeParams(params, &p); fail != nil {
		return nil, nil, fail
	}
	if p.ProtocolVersion == nil {
		return nil, nil, rpcError(jsonrpc2.CodeInvalidParams, "params.protocolVersion is missing")
	}
	client := &peer{revision: negotiate(*p.ProtocolVersion)}
	client.features = client.revision.features(&p.Capabilities)
	client.level.Store(int32(slog.LevelInfo))
	result, err := marshal(struct {
		ProtocolVersion string         `json:"protocolVersion"`
		Capabilities    map[string]any `json:"capabilities"`
		ServerInfo      implementation `json:"serverInfo"`
		Instructions    string         `json:"instructions,omitzero"`
	}{
		client.revision.String(), d.capabilities(client.revision),
		implementation{d.opts.Name, d.opts.Title, d.opts.Version}, d.opts.Instructions,
	})
	if err != nil {
		return nil, nil, rpcError(jsonrpc2.CodeInternalError, internalText)
	}
	client.answering, client.silence = context.WithCancelCause(context.Background())
	client.changes = d.hub.subscribe(newInterest(true, true, true, nil))
	return client, result, nil
}

// capabilities are the server's, for a revision.
func (d *handshake) capabilities(r revision) map[string]any {
	type object = map[string]any
	c := object{
		"tools": object{"listChanged": true}, "logging": object{},
		"experimental": object{SagaMarker: object{}},
	}
	prompts, resources := d.tools.Of(engine.KindPrompt), d.tools.Of(engine.KindResource)
	if len(prompts) > 0 {
		c["prompts"] = object{"listChanged": true}
	}
	if len(resources) > 0 {
		c["resources"] = object{"listChanged": true, "subscribe": true}
	}
	if r >= revision2025March && d.completes() {
		c["completions"] = object{}
	}
	return c
}

// close ends what the peer holds in the server.
func (p *peer) close(why error) {
	p.silence(why)
	p.changes.close()
}

// Limits of the resources that one session hears about, and of the bytes of their
// URIs.
const (
	maxSubscriptions     = 1000
	maxSubscriptionBytes = 128 << 10
)

// subscribe has the client hear about a resource. It reports false if it hears
// about too many already.
func (p *peer) subscribe(uri string) (ok bool) {
	p.changes.change(func(want *interest) {
		if _, ok = want.uris[uri]; ok {
			return
		}
		if ok = len(want.uris) < maxSubscriptions && want.size+len(uri) <= maxSubscriptionBytes; ok {
			want.add(uri)
		}
	})
	return ok
}

func (p *peer) unsubscribe(uri string) { p.changes.change(func(want *interest) { want.remove(uri) }) }

// notification writes the notification of a change, for those who heard of it.
func (e event) notification() []byte {
	if e.change != resourceUpdated {
		return appendNotification(nil, e.method(), nil)
	}
	return appendNotification(nil, e.method(), append(appendString([]byte(`{"uri":`), e.uri), '}'))
}

func appendNotification(b []byte, method string, params []byte) []byte {
	b = append(b, `{"jsonrpc":"2.0","method":`...)
	b = appendString(b, method)
	if params != nil {
		b = append(b, `,"params":`...)
		b = append(b, params...)
	}
	return append(b, '}')
}
