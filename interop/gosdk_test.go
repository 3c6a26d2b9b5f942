package interop

//lint:file-ignore SA1019 Sampling is deprecated since 2026-07-28, and in use.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// goClient makes calls with the official Go SDK, in one revision.
func goClient(protocol string) func(*testing.T, target, []call) []outcome {
	return func(t *testing.T, at target, calls []call) []outcome {
		outcomes := make([]outcome, len(calls))
		for i, c := range calls {
			u := &goSDK{user: &user{call: c, outcome: &outcomes[i]}}
			err := u.limited(t.Context(), func(ctx context.Context, begins func()) error {
				u.begins = begins
				return u.play(ctx, at, protocol)
			})
			if err != nil {
				outcomes[i].Error = err.Error()
			}
		}
		return outcomes
	}
}

// goSDK is a client of the Go SDK with the user behind it.
type goSDK struct {
	*user
	begins func() // is told when a call does
	told   *cancellations
}

func (u *goSDK) play(ctx context.Context, at target, protocol string) error {
	if u.call.Saga {
		return u.playSaga(ctx, at, protocol)
	}
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
		if u.Rounds == u.call.CancelIn {
			return u.cancel(ctx, at, protocol, result.RequestState)
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
func (u *goSDK) round(ctx context.Context, at target, protocol string, params *mcp.CallToolParams) (*mcp.CallToolResult, error) {
	session, err := u.connect(ctx, at, protocol)
	if err != nil {
		return nil, err
	}
	u.begins()
	result, err := session.CallTool(ctx, params)
	if ctx.Err() != nil && at.URL != "" {
		u.told.wait()
	}
	return result, errors.Join(err, session.Close())
}

// cancellations is how a client reaches a server, and notes when the server has been told that a
// call is over. The SDK tells it in the background, and not at all once the session is closed.
type cancellations struct {
	once     sync.Once
	answered chan struct{}
}

func (c *cancellations) RoundTrip(r *http.Request) (*http.Response, error) {
	cancels := false
	if r.GetBody != nil {
		if body, err := r.GetBody(); err == nil {
			text, _ := io.ReadAll(body)
			cancels = bytes.Contains(text, []byte(`"notifications/cancelled"`))
		}
	}
	w, err := http.DefaultTransport.RoundTrip(r)
	if cancels {
		c.once.Do(func() { close(c.answered) })
	}
	return w, err
}

// wait waits for as long as the SDK tries.
func (c *cancellations) wait() {
	select {
	case <-c.answered:
	case <-time.After(5 * time.Second):
	}
}

func (u *goSDK) connect(ctx context.Context, at target, protocol string) (*mcp.ClientSession, error) {
	options := &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return u.elicit(ctx, r.Params)
		},
		CreateMessageHandler: func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return u.sample(ctx, r.Params.Messages[0].Content)
		},
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: u.call.Manual},
	}
	u.told = &cancellations{answered: make(chan struct{})}
	var transport mcp.Transport = &mcp.StreamableClientTransport{Endpoint: at.URL, HTTPClient: &http.Client{Transport: u.told}}
	if at.URL == "" {
		transport = &mcp.CommandTransport{Command: exec.CommandContext(ctx, at.Command, at.Args...)}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, options)
	for _, method := range []string{"tools/callSaga", "tools/resumeSaga", "tools/cancelSaga"} {
		if err := mcp.AddSendingCustomMethod[*sagaParams, *sagaResult](client, method); err != nil {
			return nil, err
		}
	}
	session, err := client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: protocol})
	if err != nil {
		return nil, err
	}
	u.Protocol = session.InitializeResult().ProtocolVersion
	if _, err := session.ListTools(ctx, nil); err != nil {
		return nil, errors.Join(err, session.Close())
	}
	return session, nil
}

func (u *goSDK) respond(ctx context.Context, request mcp.InputRequest) (mcp.InputResponse, error) {
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

func (u *goSDK) elicit(ctx context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	schema, err := json.Marshal(p.RequestedSchema)
	if err != nil {
		return nil, err
	}
	action, content, err := u.fillIn(ctx, p.Message, schema)
	return &mcp.ElicitResult{Action: action, Content: content}, err
}

func (u *goSDK) sample(ctx context.Context, said mcp.Content) (*mcp.CreateMessageResult, error) {
	text, ok := said.(*mcp.TextContent)
	if !ok {
		return nil, fmt.Errorf("the model was sent %T", said)
	}
	answer, err := u.think(ctx, text.Text)
	return &mcp.CreateMessageResult{Role: "assistant", Model: model, StopReason: "endTurn", Content: &mcp.TextContent{Text: answer}}, err
}

// keep translates a result into what the scripts print.
func (u *goSDK) keep(r any) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, &u.Result)
}
