package interop

//lint:file-ignore SA1019 Sampling is deprecated since 2026-07-28, and in use.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// goClient makes calls with the official Go SDK, in one revision.
func goClient(protocol string) func(*testing.T, target, []call) []outcome {
	return func(t *testing.T, at target, calls []call) []outcome {
		outcomes := make([]outcome, len(calls))
		for i, c := range calls {
			u := &user{call: c, outcome: &outcomes[i]}
			if err := u.play(t.Context(), at, protocol); err != nil {
				outcomes[i].Error = err.Error()
			}
		}
		return outcomes
	}
}

// user is the person and the model behind one client.
type user struct {
	mu   sync.Mutex
	call call
	*outcome
}

func (u *user) play(ctx context.Context, at target, protocol string) error {
	params := &mcp.CallToolParams{Name: u.call.Tool, Arguments: u.call.Arguments}
	for {
		result, err := u.round(ctx, at, protocol, params)
		if err != nil {
			return err
		}
		u.Rounds++
		if result.InputRequests == nil {
			return u.keep(result)
		}
		params.RequestState, params.InputResponses = result.RequestState, mcp.InputResponseMap{}
		for key, request := range result.InputRequests {
			if params.InputResponses[key], err = u.respond(ctx, request); err != nil {
				return err
			}
		}
	}
}

// round calls the tool with a client of its own. Unless the call is manual, the
// SDK goes through all rounds by itself.
func (u *user) round(ctx context.Context, at target, protocol string, params *mcp.CallToolParams) (*mcp.CallToolResult, error) {
	options := &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return u.elicit(ctx, r.Params)
		},
		CreateMessageHandler: func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return u.sample(ctx, r.Params.Messages[0].Content)
		},
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: u.call.Manual},
	}
	var transport mcp.Transport = &mcp.StreamableClientTransport{Endpoint: at.URL}
	if at.URL == "" {
		transport = &mcp.CommandTransport{Command: exec.CommandContext(ctx, at.Command, at.Args...)}
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, options).
		Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: protocol})
	if err != nil {
		return nil, err
	}
	u.Protocol = session.InitializeResult().ProtocolVersion
	if _, err := session.ListTools(ctx, nil); err != nil {
		return nil, errors.Join(err, session.Close())
	}
	result, err := session.CallTool(ctx, params)
	return result, errors.Join(err, session.Close())
}

func (u *user) respond(ctx context.Context, request mcp.InputRequest) (mcp.InputResponse, error) {
	switch p := request.(type) {
	case *mcp.ElicitParams:
		return u.elicit(ctx, p)
	case *mcp.CreateMessageParams:
		return u.sample(ctx, p.Messages[0].Content)
	case *mcp.CreateMessageWithToolsParams:
		return u.sample(ctx, p.Messages[0].Content[0])
	}
	return nil, fmt.Errorf("asked for %T", request)
}

func (u *user) elicit(ctx context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.Asked = append(u.Asked, "elicitation/create: "+p.Message)
	if err := u.pass(ctx); err != nil {
		return nil, err
	}
	if len(u.call.Elicit) == 0 {
		return nil, fmt.Errorf("nobody said what to answer to: %s", p.Message)
	}
	a := u.call.Elicit[0]
	u.call.Elicit = u.call.Elicit[1:]
	result := &mcp.ElicitResult{Action: a.Action}
	if a.Action != "accept" {
		return result, nil
	}
	result.Content = map[string]any{}
	if a.Defaults {
		if err := defaults(p.RequestedSchema, result.Content); err != nil {
			return nil, err
		}
	}
	for name, value := range a.Content {
		result.Content[name] = value
	}
	return result, nil
}

// defaults puts into content what a form shows at first.
func defaults(schema any, content map[string]any) error {
	raw, err := json.Marshal(schema)
	if err != nil {
		return err
	}
	var form struct {
		Properties map[string]struct{ Default any }
	}
	if err := json.Unmarshal(raw, &form); err != nil {
		return err
	}
	for name, field := range form.Properties {
		if field.Default != nil {
			content[name] = field.Default
		}
	}
	return nil
}

func (u *user) sample(ctx context.Context, said mcp.Content) (*mcp.CreateMessageResult, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	text, ok := said.(*mcp.TextContent)
	if !ok {
		return nil, fmt.Errorf("the model was sent %T", said)
	}
	first, _, _ := strings.Cut(text.Text, "\n")
	u.Asked = append(u.Asked, "sampling/createMessage: "+first)
	if err := u.pass(ctx); err != nil {
		return nil, err
	}
	if len(u.call.Sample) == 0 {
		return nil, errors.New("nobody said what the model answers")
	}
	answer := u.call.Sample[0]
	u.call.Sample = u.call.Sample[1:]
	return &mcp.CreateMessageResult{Role: "assistant", Model: "a-model", StopReason: "endTurn", Content: &mcp.TextContent{Text: answer}}, nil
}

// pass lets something happen to the server while it waits for an answer.
func (u *user) pass(ctx context.Context) error {
	if u.call.Between == "" {
		return nil
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.call.Between, nil)
	if err != nil {
		return err
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer w.Body.Close()
	if w.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(w.Body)
		return errors.New(string(text))
	}
	return nil
}

// keep translates a result into what the scripts print.
func (u *user) keep(r *mcp.CallToolResult) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, &u.Result)
}

// stderr is what a program said before it failed.
func stderr(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(exit.Stderr)
	}
	return ""
}
