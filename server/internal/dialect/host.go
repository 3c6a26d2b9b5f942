package dialect

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// Host is what a server offers, for its dialects to serve.
type Host struct {
	// Info describes the server, Instructions tell models how to use its tools.
	Info         Implementation
	Instructions string

	Tools     *engine.Registry
	Turns     *turns.Runner
	Catalogue *Catalogue
	// Hub tells of what has changed.
	Hub *Hub
	Log *slog.Logger
	// Revisions are those of all dialects.
	Revisions []string
	Limits    Limits

	// Around, if it is not nil, is called around every request; it calls next, or not.
	Around func(ctx context.Context, x *Exchange, next Handler) (json.RawMessage, *wire.Error)
}

// Limits bound what clients may take.
type Limits struct {
	// MaxBody is the largest message, in bytes.
	MaxBody int64
	// See the options of package server.
	SessionIdle                          time.Duration
	MaxSessions, MaxSessionsPerPrincipal int
	MaxStreams, MaxStreamsPerPrincipal   int
}

// Implementation is MCP's Implementation, as far as this server has it.
type Implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitzero"`
	Version string `json:"version"`
}

// Dispatch hands a request to what serves it. Every request passes here, whatever it
// came by.
func (h *Host) Dispatch(ctx context.Context, x *Exchange, to Handler) (json.RawMessage, *wire.Error) {
	if h.Around != nil {
		return h.Around(ctx, x, to)
	}
	return to.Serve(ctx, x)
}
