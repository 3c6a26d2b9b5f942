// Package bysdk is the tool by hand, with the official Go SDK.
package bysdk

//lint:file-ignore SA1019 Sampling is deprecated since 2026-07-28, and in use.

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpsaga/mcpsaga/gosdk/comparison"
)

type args struct {
	Version string `json:"version" jsonschema:"what to deploy"`
}

// state is what the tool needs in later rounds. The client carries it.
type state struct {
	Step   string `json:"step"`
	Key    string `json:"key"`
	Target string `json:"target,omitempty"`
	Slot   int    `json:"slot,omitempty"`
}

type target struct {
	Target string `json:"target"`
}

type confirm struct {
	Sure bool `json:"sure"`
}

// The questions' schemas, as MCP allows them in forms.
var (
	targetSchema = &jsonschema.Schema{
		Type:       "object",
		Properties: map[string]*jsonschema.Schema{"target": {Type: "string", Title: "Target", Enum: []any{"staging", "production"}}},
		Required:   []string{"target"},
	}
	confirmSchema = &jsonschema.Schema{
		Type:       "object",
		Properties: map[string]*jsonschema.Schema{"sure": {Type: "boolean", Title: "Deploy"}},
		Required:   []string{"sure"},
	}
)

// deploy is the tool with the calendar that it works with.
type deploy struct{ calendar *comparison.Calendar }

// AddTo adds the tool to a server.
func AddTo(s *mcp.Server, c *comparison.Calendar) {
	mcp.AddTool(s, &mcp.Tool{Name: "deploy", Description: "Deploys a version where the user wants it."}, deploy{c}.call)
}

func (d deploy) call(ctx context.Context, req *mcp.CallToolRequest, in args) (*mcp.CallToolResult, any, error) {
	if req.Params.RequestState == "" {
		// The key is made before it is needed: a round that is repeated must not
		// make another.
		r, err := ask(state{Step: "target", Key: rand.Text()}, "target", &mcp.ElicitParams{Message: "Where do you want to deploy?", RequestedSchema: targetSchema})
		return r, nil, err
	}
	var s state
	if err := json.Unmarshal([]byte(req.Params.RequestState), &s); err != nil {
		return nil, nil, fmt.Errorf("the requestState is not valid: %w", err)
	}
	var r *mcp.CallToolResult
	var err error
	switch s.Step {
	case "target":
		r, err = d.reserve(ctx, req, s)
	case "model":
		r, err = d.consult(req, s)
	case "confirm":
		r, err = d.finish(req, s, in)
	default:
		err = fmt.Errorf("there is no step %q", s.Step)
	}
	if err != nil && s.Slot != 0 {
		if undo := d.calendar.Release(ctx, s.Key); undo != nil {
			err = fmt.Errorf("%w; the slot could not be released: %w", err, undo)
		}
	}
	return r, nil, err
}

// reserve has the target, reserves a slot and asks the model.
func (d deploy) reserve(ctx context.Context, req *mcp.CallToolRequest, s state) (*mcp.CallToolResult, error) {
	var form target
	if err := read(req, "target", &form); err != nil {
		return nil, err
	}
	slot, err := d.calendar.Reserve(ctx, s.Key, form.Target)
	if err != nil {
		return nil, err
	}
	s.Step, s.Target, s.Slot = "model", form.Target, slot
	return ask(s, "model", &mcp.CreateMessageParams{
		MaxTokens: 100,
		Messages: []*mcp.SamplingMessage{{
			Role:    "user",
			Content: &mcp.TextContent{Text: fmt.Sprintf("Is deploying to %s safe right now?", s.Target)},
		}},
	})
}

// consult has the model's opinion and asks for confirmation.
func (d deploy) consult(req *mcp.CallToolRequest, s state) (*mcp.CallToolResult, error) {
	said, ok := req.Params.InputResponses["model"].(*mcp.CreateMessageWithToolsResult)
	if !ok || len(said.Content) == 0 {
		return nil, errors.New("the model did not answer")
	}
	text, ok := said.Content[0].(*mcp.TextContent)
	if !ok {
		return nil, errors.New("the model did not answer with text")
	}
	s.Step = "confirm"
	return ask(s, "confirm", &mcp.ElicitParams{
		Message:         fmt.Sprintf("The model says: %s Deploy to %s in slot %d?", text.Text, s.Target, s.Slot),
		RequestedSchema: confirmSchema,
	})
}

func (d deploy) finish(req *mcp.CallToolRequest, s state, in args) (*mcp.CallToolResult, error) {
	var form confirm
	if err := read(req, "confirm", &form); err != nil {
		return nil, err
	}
	if !form.Sure {
		return nil, errors.New("not deployed")
	}
	text := fmt.Sprintf("Deploying %s to %s in slot %d.", in.Version, s.Target, s.Slot)
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
}

// ask ends a round with a question.
func ask(s state, id string, question mcp.InputRequest) (*mcp.CallToolResult, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{id: question}, RequestState: string(raw)}, nil
}

// read reads what the user entered.
func read(req *mcp.CallToolRequest, id string, into any) error {
	answer, ok := req.Params.InputResponses[id].(*mcp.ElicitResult)
	if !ok {
		return fmt.Errorf("there is no answer to %q", id)
	}
	if answer.Action != "accept" {
		return fmt.Errorf("%q was not accepted: %s", id, answer.Action)
	}
	raw, err := json.Marshal(answer.Content)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}
