//lint:file-ignore SA1019 What the SDK calls deprecated is what these revisions have.

package interop

import (
	"context"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/examples/longtalk"
	"github.com/mcpsaga/mcpsaga/examples/releasenotes"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// sdkTools are the tools that the official SDK's client drives, and a repository
// for them.
func sdkTools(t *testing.T) (root string, tools []saga.Definition) {
	t.Helper()
	root = t.TempDir()
	for _, args := range [][]string{
		{"init", "-q"}, {"config", "user.name", "t"}, {"config", "user.email", "t@example.com"},
		{"commit", "-q", "--allow-empty", "-m", "feat: begin"}, {"tag", "v1"}, {"commit", "-q", "--allow-empty", "-m", "fix: a bug"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	return root, []saga.Definition{complextool.Tool, longtalk.Tool, releasenotes.New(root), sdkTalk, sdkVisit, sdkAway}
}

// sdkHeard counts what an SDK client was told.
type sdkHeard struct{ progress, logs, tools, links atomic.Int32 }

func sdkClient(heard *sdkHeard) *mcp.Client {
	return mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}}},
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			content := map[string]any{}
			schema, _ := r.Params.RequestedSchema.(map[string]any)
			properties, _ := schema["properties"].(map[string]any)
			for name, p := range properties {
				field, _ := p.(map[string]any)
				switch {
				case field["default"] != nil:
					content[name] = field["default"]
				case field["type"] == "boolean":
					content[name] = true
				case name == "target", name == "name", name == "word":
					content[name] = "it"
				}
			}
			if len(properties) == 0 {
				content = nil
			}
			return &mcp.ElicitResult{Action: "accept", Content: content}, nil
		},
		CreateMessageHandler: func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			answer := "# Notes"
			if said, ok := r.Params.Messages[0].Content.(*mcp.TextContent); ok && strings.Contains(said.Text, "safe right now") {
				answer = "Yes."
			}
			return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: &mcp.TextContent{Text: answer}}, nil
		},
		ElicitationCompleteHandler:  func(context.Context, *mcp.ElicitationCompleteNotificationRequest) { heard.links.Add(1) },
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { heard.tools.Add(1) },
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { heard.progress.Add(1) },
		LoggingMessageHandler:       func(context.Context, *mcp.LoggingMessageRequest) { heard.logs.Add(1) },
	})
}

// The unmodified client of the official Go SDK goes through the example tools, in
// every revision with a handshake.
func TestHandshakeWithGoSDK(t *testing.T) {
	t.Parallel()
	type target struct {
		connect func(t *testing.T, tools []saga.Definition) (mcp.Transport, *server.Server)
	}
	targets := map[string]target{
		"HTTP": {func(t *testing.T, tools []saga.Definition) (mcp.Transport, *server.Server) {
			s, err := server.New(server.Options{Keys: newKeys(t), Tools: tools})
			require.NoError(t, err)
			web := httptest.NewServer(s.Handler())
			t.Cleanup(func() {
				s.Close()
				web.Close()
			})
			return &mcp.StreamableClientTransport{Endpoint: web.URL + server.Endpoint}, s
		}},
		"stdio": {func(t *testing.T, tools []saga.Definition) (mcp.Transport, *server.Server) {
			s, err := server.New(server.Options{Keys: newKeys(t), Tools: tools})
			require.NoError(t, err)
			in, write := io.Pipe()
			read, out := io.Pipe()
			ended := make(chan error, 1)
			go func() { ended <- s.ServeStdio(context.Background(), in, out); out.Close() }()
			t.Cleanup(func() { write.Close(); <-ended }) // perhaps with an error: the client closes both pipes at once
			return &mcp.IOTransport{Reader: read, Writer: write}, s
		}},
	}
	for name, target := range targets {
		for _, version := range []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"} {
			t.Run(name+" "+version, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
				defer cancel()
				root, tools := sdkTools(t)
				transport, srv := target.connect(t, tools)
				heard := new(sdkHeard)
				session, err := sdkClient(heard).Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
				require.NoError(t, err)
				defer session.Close()
				assert.Equal(t, version, session.InitializeResult().ProtocolVersion)
				call := func(name string, args any) (string, bool) {
					t.Helper()
					result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args, Meta: mcp.Meta{"progressToken": "p"}})
					require.NoError(t, err)
					if len(result.Content) == 0 {
						return "", result.IsError
					}
					content, ok := result.Content[0].(*mcp.TextContent)
					require.True(t, ok)
					return content.Text, result.IsError
				}
				list, err := session.ListTools(ctx, nil)
				require.NoError(t, err)
				assert.Equal(t, "complex_tool", list.Tools[0].Name)
				if version < "2025-06-18" {
					got, isError := call("complex_tool", nil)
					assert.True(t, isError)
					assert.Contains(t, got, "elicitation.form")
					return
				}
				got, isError := call("complex_tool", map[string]any{})
				assert.False(t, isError, got)
				assert.Equal(t, "Deployment to it initiated successfully based on confirmation.", got)
				got, isError = call("long_talk", map[string]any{"topic": "tea"})
				assert.False(t, isError, got)
				assert.Contains(t, got, "About tea you said: it, it, it")
				got, isError = call("release_notes", map[string]any{})
				assert.False(t, isError, got)
				assert.Contains(t, got, "Wrote the release notes")
				written, err := os.ReadFile(filepath.Join(root, "RELEASE_NOTES.md"))
				require.NoError(t, err)
				assert.Equal(t, "# Notes\n", string(written))

				require.NoError(t, session.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: "error"}))
				got, _ = call("talk", map[string]any{})
				assert.Equal(t, "talked", got)
				require.Eventually(t, func() bool { return heard.progress.Load() == 4 && heard.logs.Load() == 2 }, time.Minute, 5*time.Millisecond)
				got, _ = call("away", map[string]any{})
				assert.Equal(t, "away and back", got, "the client has come back by itself")
				if version == "2025-11-25" {
					got, _ = call("visit", map[string]any{})
					assert.Contains(t, got, "link:")
					require.Eventually(t, func() bool { return heard.links.Load() == 1 }, time.Minute, 5*time.Millisecond)
				}
				require.Eventually(t, func() bool { srv.ToolsChanged(); return heard.tools.Load() > 0 }, time.Minute, 5*time.Millisecond)
			})
		}
	}
}
