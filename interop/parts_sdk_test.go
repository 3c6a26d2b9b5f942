package interop

import (
	"context"
	"io"
	"maps"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

var tokenInText = regexp.MustCompile(`resumeToken: (\S+)$`)

// A model with the official SDK's client, which knows nothing of parts, reads on by an argument,
// over HTTP and stdio, and is asked in between.
func TestPartsWithTheSDK(t *testing.T) {
	s, err := server.New(server.Options{Keys: newKeys(t), Tools: []saga.Definition{sdkPages}})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	for name, transport := range map[string]func() mcp.Transport{
		"HTTP":  func() mcp.Transport { return &mcp.StreamableClientTransport{Endpoint: web.URL + "/mcp"} },
		"stdio": func() mcp.Transport { return onPipes(s) },
	} {
		for _, version := range []string{"2026-07-28", "2025-11-25", "2025-06-18"} {
			t.Run(name+" "+version, func(t *testing.T) {
				cs, err := sdkClient(new(sdkHeard)).Connect(t.Context(), transport(), &mcp.ClientSessionOptions{ProtocolVersion: version})
				require.NoError(t, err)
				defer cs.Close()
				require.Equal(t, version, cs.InitializeResult().ProtocolVersion)
				args := map[string]any{"pages": 3, "ask": 2}
				var read []string
				for calls := 0; calls < 10; calls++ {
					r, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "pages", Arguments: args})
					require.NoError(t, err)
					read = append(read, r.Content[0].(*mcp.TextContent).Text)
					token := tokenInText.FindStringSubmatch(r.Content[len(r.Content)-1].(*mcp.TextContent).Text)
					if token == nil {
						break
					}
					args = maps.Clone(args)
					args["resumeToken"] = token[1]
				}
				assert.Equal(t, []string{"part 1", "part 2", "part 3", "the end"}, read)
			})
		}
	}
}

// onPipes serves a client on a pair of pipes until it closes them.
func onPipes(s *server.Server) mcp.Transport {
	in, write := io.Pipe()
	read, out := io.Pipe()
	go func() {
		_ = s.ServeStdio(context.Background(), in, out)
		out.Close()
	}()
	return &mcp.IOTransport{Reader: read, Writer: write}
}
