package interop

//lint:file-ignore SA1019 Sampling is deprecated since 2026-07-28, and in use.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// goClient makes calls with the official Go SDK, in one revision.
func goClient(protocol string) func(*testing.T, target, []call) []outcome {
	return func(t *testing.T, at target, calls []call) []outcome {
		outcomes := make([]outcome, len(calls))
		for i, c := range calls {
			u := &goSDK{&user{call: c, outcome: &outcomes[i]}}
			ctx, done := u.limited(t.Context())
			defer done()
			if err := u.play(ctx, at, protocol); err != nil {
				outcomes[i].Error = err.Error()
			}
		}
		return outcomes
	}
}

// goSDK is a client of the Go SDK with the user behind it.
type goSDK struct{ *user }

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
	result, err := session.CallTool(ctx, params)
	return result, errors.Join(err, session.Close())
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
	var transport mcp.Transport = &mcp.StreamableClientTransport{Endpoint: at.URL}
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
