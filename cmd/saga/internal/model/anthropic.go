package model

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Messages of Anthropic's API: https://docs.anthropic.com/en/api/messages.
type (
	anthropicRequest struct {
		Model         string             `json:"model"`
		MaxTokens     int                `json:"max_tokens"`
		System        []anthropicBlock   `json:"system,omitempty"`
		Temperature   *float64           `json:"temperature,omitempty"`
		StopSequences []string           `json:"stop_sequences,omitempty"`
		Messages      []anthropicMessage `json:"messages"`
		Tools         []anthropicTool    `json:"tools,omitempty"`
		ToolChoice    *anthropicChoice   `json:"tool_choice,omitempty"`
	}
	anthropicMessage struct {
		Role    content.Role     `json:"role"`
		Content []anthropicBlock `json:"content"`
	}
	// anthropicBlock has the fields of all types of blocks. Type says which of them count.
	anthropicBlock struct {
		Type      string           `json:"type"`
		Text      string           `json:"text,omitempty"`
		Source    *anthropicSource `json:"source,omitempty"`
		ID        string           `json:"id,omitempty"`
		Name      string           `json:"name,omitempty"`
		Input     json.RawMessage  `json:"input,omitempty"`
		ToolUseID string           `json:"tool_use_id,omitempty"`
		IsError   *bool            `json:"is_error,omitempty"`
		Content   []anthropicBlock `json:"content,omitempty"`
	}
	anthropicSource struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      []byte `json:"data"`
	}
	anthropicTool struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		InputSchema json.RawMessage `json:"input_schema"`
	}
	anthropicChoice struct {
		Type string `json:"type"`
	}
	anthropicResponse struct {
		Model      string           `json:"model"`
		StopReason string           `json:"stop_reason"`
		Content    []anthropicBlock `json:"content"`
	}
)

// anthropicVersion is the version of the API that these types are of.
const anthropicVersion = "2023-06-01"

// newAnthropic speaks Anthropic's messages.
func newAnthropic(c Config, host string) func(context.Context, string, *steps.SampleRequest) (*steps.SampleResult, error) {
	header := http.Header{"Anthropic-Version": {anthropicVersion}}
	if c.Key != "" {
		header.Set("X-Api-Key", c.Key)
	}
	e := newEndpoint(c.BaseURL+"v1/messages", host, header)
	return func(ctx context.Context, name string, r *steps.SampleRequest) (*steps.SampleResult, error) {
		request, err := toAnthropic(name, r)
		if err != nil {
			return nil, err
		}
		var response anthropicResponse
		if err := e.post(ctx, request, &response); err != nil {
			return nil, err
		}
		return fromAnthropic(&response), nil
	}
}

func toAnthropic(name string, r *steps.SampleRequest) (*anthropicRequest, error) {
	request := &anthropicRequest{Model: name, MaxTokens: r.MaxTokens, StopSequences: r.StopSequences}
	if r.SystemPrompt != "" {
		request.System = []anthropicBlock{{Type: "text", Text: r.SystemPrompt}}
	}
	if r.Temperature != nil {
		highest := min(*r.Temperature, 1) // more is refused
		request.Temperature = &highest
	}
	for _, m := range r.Messages {
		blocks, err := anthropicBlocks(m.Content)
		if err != nil {
			return nil, err
		}
		request.Messages = append(request.Messages, anthropicMessage{m.Role, blocks})
	}
	for _, tool := range r.Tools {
		schema, err := schemaOf(tool)
		if err != nil {
			return nil, err
		}
		request.Tools = append(request.Tools, anthropicTool{tool.Name, tool.Description, schema})
	}
	choice := map[string]string{"auto": "auto", "required": "any", "none": "none"}[r.ToolChoice]
	if choice != "" && len(r.Tools) > 0 {
		request.ToolChoice = &anthropicChoice{choice}
	}
	return request, nil
}

func anthropicBlocks(blocks content.Blocks) (list []anthropicBlock, err error) {
	for _, block := range blocks {
		switch b := block.(type) {
		case content.Text:
			list = append(list, anthropicBlock{Type: "text", Text: b.Text})
		case content.Image:
			list = append(list, anthropicBlock{Type: "image", Source: &anthropicSource{"base64", b.MIMEType, b.Data}})
		case content.ToolUse:
			list = append(list, anthropicBlock{Type: "tool_use", ID: b.ID, Name: b.Name, Input: inputOf(b)})
		case content.ToolResult:
			result := anthropicBlock{Type: "tool_result", ToolUseID: b.ToolUseID, IsError: &b.IsError}
			if text := resultText(b); text != "" {
				result.Content = []anthropicBlock{{Type: "text", Text: text}}
			}
			list = append(list, result)
		default:
			return nil, cannotTake("content of type " + block.BlockType())
		}
	}
	return list, nil
}

func fromAnthropic(response *anthropicResponse) *steps.SampleResult {
	result := &steps.SampleResult{Role: content.Assistant, Model: response.Model, StopReason: stopReason(response.StopReason)}
	for _, block := range response.Content {
		switch block.Type { // thinking and the provider's own tools are left out
		case "text":
			result.Content = append(result.Content, content.Text{Text: block.Text})
		case "tool_use":
			result.Content = append(result.Content, content.ToolUse{ID: block.ID, Name: block.Name, Input: block.Input})
		}
	}
	return result
}
