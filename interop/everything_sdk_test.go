package interop

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/server"
)

// sdkServer serves the same tools on a server of the official Go SDK.
type sdkServer struct{ *mcp.Server }

func newSDKServer(o everythingOptions) (*sdkServer, error) {
	keys, err := keyset(o.keys)
	if err != nil {
		return nil, err
	}
	store, err := openLedger(o.ledger)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	s := &sdkServer{mcp.NewServer(
		&mcp.Implementation{Name: "everything", Title: "Everything", Version: "1.0.0"},
		&mcp.ServerOptions{
			Instructions: instructions, PageSize: 100,
			// The SDK offers subscriptions where it is told what to do about them.
			SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
			UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		},
	)}
	_, err = gosdk.Mount(s.Server, gosdk.Options{Keys: keys, Ledger: store, Logger: log}, tools(o, func() listChanges { return s })...)
	return s, err
}

// ToolsChanged implements listChanges. The SDK tells clients of a change when
// one is made.
func (s *sdkServer) ToolsChanged() {
	s.AddTool(&mcp.Tool{Name: "passing", InputSchema: map[string]any{"type": "object"}}, nil)
	s.RemoveTools("passing")
}

func (s *sdkServer) PromptsChanged() {
	s.AddPrompt(&mcp.Prompt{Name: "passing"}, nil)
	s.RemovePrompts("passing")
}

// ServeStdio serves standard input and output until ctx or the input ends.
func (s *sdkServer) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	return s.Run(ctx, &mcp.IOTransport{Reader: io.NopCloser(in), Writer: noClose{out}})
}

type noClose struct{ io.Writer }

func (noClose) Close() error { return nil }

// Serve serves HTTP until ctx ends.
func (s *sdkServer) Serve(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle(server.Endpoint, gosdk.NewHTTPHandler(func(*http.Request) *mcp.Server { return s.Server },
		&mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)}))
	h := &http.Server{Handler: http.NewCrossOriginProtection().Handler(mux), ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { h.Close() })
	defer stop()
	if err := h.Serve(l); ctx.Err() == nil {
		return fmt.Errorf("serving HTTP: %w", err)
	}
	return nil
}
