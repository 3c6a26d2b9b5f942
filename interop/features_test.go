package interop

//lint:file-ignore SA1019 Logging is deprecated since 2026-07-28, and in use.

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// heard is what reaches a client besides results.
type heard struct {
	progress  chan *mcp.ProgressNotificationParams
	logged    chan *mcp.LoggingMessageParams
	tools     chan struct{}
	resources chan string
}

// TestGoSDKFeatures uses what sagas are not: prompts, resources, completion,
// progress, log messages, changes and cancelled calls.
func TestGoSDKFeatures(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"2026-07-28", "2025-11-25", "2025-06-18"} {
		p := startHTTP(t)
		for name, at := range map[string]target{"HTTP": {URL: p.url()}, "stdio": p.stdio()} {
			t.Run(protocol+" "+name, func(t *testing.T) {
				session, heard := connect(t, at, protocol)
				t.Run("lists", func(t *testing.T) { testLists(t, session) })
				t.Run("prompts", func(t *testing.T) { testPrompts(t, session) })
				t.Run("resources", func(t *testing.T) { testResources(t, session, protocol) })
				t.Run("completion", func(t *testing.T) { testCompletion(t, session) })
				t.Run("progress", func(t *testing.T) { testProgress(t, session, heard) })
				t.Run("log", func(t *testing.T) { testLog(t, session, heard, protocol) })
				t.Run("changes", func(t *testing.T) { testChanges(t, session, heard) })
				t.Run("cancelled", func(t *testing.T) { testCancelled(t, session) })
			})
		}
	}
}

func connect(t *testing.T, at target, protocol string) (*mcp.ClientSession, heard) {
	t.Helper()
	h := heard{
		make(chan *mcp.ProgressNotificationParams, 10), make(chan *mcp.LoggingMessageParams, 10),
		make(chan struct{}, 10), make(chan string, 10),
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"context": "a test"}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { h.progress <- r.Params },
		LoggingMessageHandler:       func(_ context.Context, r *mcp.LoggingMessageRequest) { h.logged <- r.Params },
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { h.tools <- struct{}{} },
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			h.resources <- r.Params.URI
		},
	})
	var transport mcp.Transport = &mcp.StreamableClientTransport{Endpoint: at.URL}
	if at.URL == "" {
		transport = &mcp.CommandTransport{Command: exec.Command(at.Command, at.Args...)}
	}
	session, err := c.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: protocol})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, session.Close()) })
	require.Equal(t, protocol, session.InitializeResult().ProtocolVersion)
	return session, h
}

// next waits for what has to come.
func next[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(time.Minute):
		require.FailNow(t, "nothing came")
	}
	return v
}

func testLists(t *testing.T, s *mcp.ClientSession) {
	var tools, prompts, resources, templates []string
	for v, err := range s.Tools(t.Context(), nil) {
		require.NoError(t, err)
		tools = append(tools, v.Name)
	}
	for v, err := range s.Prompts(t.Context(), nil) {
		require.NoError(t, err)
		prompts = append(prompts, v.Name)
	}
	for v, err := range s.Resources(t.Context(), nil) {
		require.NoError(t, err)
		resources = append(resources, v.URI)
	}
	for v, err := range s.ResourceTemplates(t.Context(), nil) {
		require.NoError(t, err)
		templates = append(templates, v.URITemplate)
	}
	assert.Equal(t, "test_simple_text", tools[0])
	assert.True(t, slices.Contains(tools, "release_notes"))
	assert.Len(t, prompts, 5)
	assert.Equal(t, []string{"test://static-text", "test://static-binary", "test://watched-resource"}, resources)
	assert.Equal(t, []string{"test://template/{id}/data"}, templates)
}

func testPrompts(t *testing.T, s *mcp.ClientSession) {
	r, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{
		Name: "test_prompt_with_arguments", Arguments: map[string]string{"arg1": "one", "arg2": "two"},
	})
	require.NoError(t, err)
	assert.Equal(t, "Prompt with arguments: arg1='one', arg2='two'", r.Messages[0].Content.(*mcp.TextContent).Text)

	_, err = s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "test_prompt_with_arguments"})
	assert.EqualValues(t, jsonrpc.CodeInvalidParams, code(err), "an argument is missing: %v", err)

	// A prompt that asks.
	r, err = s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "test_input_required_result_prompt"})
	require.NoError(t, err)
	assert.Equal(t, "Use this context: a test", r.Messages[0].Content.(*mcp.TextContent).Text)
}

func testResources(t *testing.T, s *mcp.ClientSession, protocol string) {
	r, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://static-binary"})
	require.NoError(t, err)
	assert.Equal(t, "\x89PNG", string(r.Contents[0].Blob[:4]))
	r, err = s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://template/123/data"})
	require.NoError(t, err)
	assert.JSONEq(t, `{"id":"123","templateTest":true,"data":"Data for ID: 123"}`, r.Contents[0].Text)

	_, err = s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://nowhere"})
	want := int64(-32002)
	if protocol == "2026-07-28" {
		want = jsonrpc.CodeInvalidParams
	}
	assert.Equal(t, want, code(err), "%v", err)
}

// code is the JSON-RPC code of an error.
func code(err error) int64 {
	var e *jsonrpc.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

func testCompletion(t *testing.T, s *mcp.ClientSession) {
	r, err := s.Complete(t.Context(), &mcp.CompleteParams{
		Ref:      &mcp.CompleteReference{Type: "ref/prompt", Name: "test_prompt_with_arguments"},
		Argument: mcp.CompleteParamsArgument{Name: "arg1", Value: "teste"},
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"tested"}, r.Completion.Values)
	r, err = s.Complete(t.Context(), &mcp.CompleteParams{
		Ref:      &mcp.CompleteReference{Type: "ref/resource", URI: "test://template/{id}/data"},
		Argument: mcp.CompleteParamsArgument{Name: "id", Value: "12"},
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"12", "123"}, r.Completion.Values)
}

func testProgress(t *testing.T, s *mcp.ClientSession, h heard) {
	params := &mcp.CallToolParams{Name: "test_tool_with_progress"}
	params.SetProgressToken("a token")
	_, err := s.CallTool(t.Context(), params)
	require.NoError(t, err)
	for _, done := range []float64{0, 50, 100} {
		p := next(t, h.progress)
		assert.Equal(t, "a token", p.ProgressToken)
		assert.Equal(t, done, p.Progress)
		assert.Equal(t, 100., p.Total)
	}
}

func testLog(t *testing.T, s *mcp.ClientSession, h heard, protocol string) {
	params := &mcp.CallToolParams{Name: "test_tool_with_logging"}
	if protocol == "2026-07-28" {
		params.Meta = mcp.Meta{"io.modelcontextprotocol/logLevel": "info"}
	} else {
		require.NoError(t, s.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "info"}))
	}
	_, err := s.CallTool(t.Context(), params)
	require.NoError(t, err)
	for _, text := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
		l := next(t, h.logged)
		assert.EqualValues(t, "info", l.Level)
		assert.Equal(t, text, l.Data)
	}
}

func testChanges(t *testing.T, s *mcp.ClientSession, h heard) {
	// The client's stream may still be on its way; a change is told to those who
	// listen, so it is made until it is heard.
	for told, tries := false, 0; !told; tries++ {
		require.Less(t, tries, 600, "no change was heard of")
		_, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "test_trigger_tool_change"})
		require.NoError(t, err)
		select {
		case <-h.tools:
			told = true
		case <-time.After(100 * time.Millisecond):
		}
	}
	require.NoError(t, s.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "test://watched-resource"}))
	require.NoError(t, s.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: "test://watched-resource"}))
}

func testCancelled(t *testing.T, s *mcp.ClientSession) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: worksOn})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	// The session goes on.
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "test_simple_text"})
	require.NoError(t, err)
	assert.False(t, r.IsError)
}
