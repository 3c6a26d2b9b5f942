package server

import (
	"net/http"
	"slices"
	"strings"

	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake"
	"github.com/mcpsaga/mcpsaga/server/internal/proposal"
	"github.com/mcpsaga/mcpsaga/server/internal/stateless"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// registration is a dialect that every server has.
type registration struct {
	new dialect.New
	// revisions are those of MCP that it speaks, newest first.
	revisions func() []string
}

// registered are the dialects. The first that matches a message serves it.
var registered = []registration{
	{stateless.New, stateless.Revisions},
	{proposal.New, nil},
	{handshake.New, handshake.Revisions},
}

// SagaMarker is the key in a tool's _meta, and in the server's experimental
// capabilities, that says: this is a saga, call it with tools/callSaga.
const SagaMarker = dialect.SagaMarker

// Revisions returns the revisions of MCP that a [Server] speaks, newest first. It
// speaks the saga proposal besides.
func Revisions() []string { return revisions(registered) }

func revisions(of []registration) (all []string) {
	for _, r := range of {
		if r.revisions != nil {
			all = append(all, r.revisions()...)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(b, a) })
	return all
}

// match returns the dialect that serves a message, or nil.
func (s *Server) match(m *wire.Message, header http.Header) dialect.Dialect {
	for _, d := range s.dialects {
		if d.Match(m, header) {
			return d
		}
	}
	return nil
}

// parseBatch parses the messages of a batch, all of which must be of one dialect.
func (s *Server) parseBatch(of dialect.Batcher, raw []byte) ([]dialect.Batched, *wire.Error) {
	list, rerr := wire.SplitBatch(raw)
	if rerr != nil {
		return nil, rerr
	}
	batch := make([]dialect.Batched, len(list))
	for i, raw := range list {
		b := &batch[i]
		b.Message, b.Error = wire.Parse(raw)
		if b.Error == nil && (s.match(&b.Message, nil) != dialect.Dialect(of) || !of.Batchable(&b.Message)) {
			b.Error = wire.NewError(wire.CodeInvalidRequest, "this cannot be part of a batch")
		}
	}
	return batch, nil
}

// notServed is the error of a message that no dialect matches.
func notServed() *wire.Error {
	return wire.Refuse(http.StatusBadRequest, wire.CodeInvalidRequest, "no protocol that this server speaks has such a message")
}

// ToolsChanged tells subscribed clients that the list of tools is to be read
// again.
func (s *Server) ToolsChanged() { s.host.Hub.Publish(dialect.Event{Change: dialect.ToolsChanged}) }

// PromptsChanged tells subscribed clients that the list of prompts is to be read
// again.
func (s *Server) PromptsChanged() { s.host.Hub.Publish(dialect.Event{Change: dialect.PromptsChanged}) }

// ResourcesChanged tells subscribed clients that the list of resources is to be
// read again.
func (s *Server) ResourcesChanged() {
	s.host.Hub.Publish(dialect.Event{Change: dialect.ResourcesChanged})
}

// ResourceUpdated tells clients that subscribed to the URI that the resource is
// to be read again.
func (s *Server) ResourceUpdated(uri string) {
	s.host.Hub.Publish(dialect.Event{Change: dialect.ResourceUpdated, URI: uri})
}

// CloseStreams ends the subscriptions of all clients, now and from now on, each
// with a proper goodbye, and the wait for answers of clients that have sessions or
// come through [Server.Handle]. [Server.Serve] does so when it stops; an
// http.Server of your own does so with RegisterOnShutdown(s.CloseStreams), as its
// Shutdown waits for streams that never end by themselves.
func (s *Server) CloseStreams() {
	for _, d := range s.dialects {
		if d, ok := d.(dialect.Drainer); ok {
			d.Drain()
		}
	}
}

// Close ends all that clients have open, with their sessions and the turns under
// way in these, and waits a few seconds for what they undo. [Server.Serve] does so
// in the end.
func (s *Server) Close() {
	s.CloseStreams()
	for _, d := range s.dialects {
		if d, ok := d.(dialect.Drainer); ok {
			d.Close()
		}
	}
}
