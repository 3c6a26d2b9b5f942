package model

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Messages of OpenAI's chat completions: https://platform.openai.com/docs/api-reference/chat.
type (
	openAIRequest struct {
		Model               string          `json:"model"`
		Messages            []openAIMessage `json:"messages"`
		MaxTokens           int             `json:"max_tokens,omitempty"`
		MaxCompletionTokens int             `json:"max_completion_tokens,omitempty"`
		Temperature         *float64        `json:"temperature,omitempty"`
		Stop                []string        `json:"stop,omitempty"`
		Tools               []openAITool    `json:"tools,omitempty"`
		ToolChoice          string          `json:"tool_choice,omitempty"`
	}
	openAIMessage struct {
		Role string `json:"role"`
		// Content is a string, or a list of openAIPart.
		Content    any          `json:"content"`
		ToolCalls  []openAICall `json:"tool_calls,omitempty"`
		ToolCallID string       `json:"tool_call_id,omitempty"`
	}
	openAIPart struct {
		Type       string       `json:"type"`
		Text       string       `json:"text,omitempty"`
		ImageURL   *openAIImage `json:"image_url,omitempty"`
		InputAudio *openAIAudio `json:"input_audio,omitempty"`
	}
	openAIImage struct {
		URL string `json:"url"`
	}
	openAIAudio struct {
		Data   []byte `json:"data"`
		Format string `json:"format"`
	}
	openAITool struct {
		Type     string         `json:"type"`
		Function openAIFunction `json:"function"`
	}
	openAIFunction struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	openAICall struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	}
	openAIResponse struct {
		Model   string `json:"model"`
		Choices []struct {
			FinishReason string `json:"finish_reason"`
			Message      struct {
				Content   string       `json:"content"`
				Refusal   string       `json:"refusal"`
				ToolCalls []openAICall `json:"tool_calls"`
			} `json:"message"`
		} `json:"choices"`
	}
)

// newOpenAI speaks OpenAI's chat completions, which most other endpoints speak too.
func newOpenAI(c Config, host string) func(context.Context, string, *steps.SampleRequest) (*steps.SampleResult, error) {
	header := http.Header{}
	if c.Key != "" {
		header.Set("Authorization", "Bearer "+c.Key)
	}
	e := newEndpoint(c.BaseURL+"chat/completions", host, header)
	return func(ctx context.Context, name string, r *steps.SampleRequest) (*steps.SampleResult, error) {
		request, err := toOpenAI(name, r)
		if err != nil {
			return nil, err
		}
		if host == "api.openai.com" {
			request.MaxCompletionTokens = r.MaxTokens // newer models refuse the old name
		} else {
			request.MaxTokens = r.MaxTokens // others know only the old name
		}
		var response openAIResponse
		if err := e.post(ctx, request, &response); err != nil {
			return nil, err
		}
		if len(response.Choices) == 0 {
			return nil, fmt.Errorf("asking %s: it answered without a choice", host)
		}
		return fromOpenAI(&response, name)
	}
}

func toOpenAI(name string, r *steps.SampleRequest) (*openAIRequest, error) {
	request := &openAIRequest{Model: name, Temperature: r.Temperature, Stop: r.StopSequences}
	if r.SystemPrompt != "" {
		request.Messages = append(request.Messages, openAIMessage{Role: "system", Content: r.SystemPrompt})
	}
	for _, m := range r.Messages {
		converted, err := openAIMessages(m)
		if err != nil {
			return nil, err
		}
		request.Messages = append(request.Messages, converted...)
	}
	for _, tool := range r.Tools {
		schema, err := schemaOf(tool)
		if err != nil {
			return nil, err
		}
		request.Tools = append(request.Tools, openAITool{"function", openAIFunction{tool.Name, tool.Description, schema}})
	}
	if len(r.Tools) > 0 {
		request.ToolChoice = r.ToolChoice // auto, required, none: the same words
	}
	return request, nil
}

// openAIMessages converts one message. Results of tools become messages of their own.
func openAIMessages(m steps.SampleMessage) ([]openAIMessage, error) {
	if m.Role == content.Assistant {
		return assistantMessage(m.Content)
	}
	var results []openAIMessage
	var parts []openAIPart
	for _, block := range m.Content {
		switch b := block.(type) {
		case content.Text:
			parts = append(parts, openAIPart{Type: "text", Text: b.Text})
		case content.Image:
			url := "data:" + b.MIMEType + ";base64," + base64.StdEncoding.EncodeToString(b.Data)
			parts = append(parts, openAIPart{Type: "image_url", ImageURL: &openAIImage{url}})
		case content.Audio:
			_, format, _ := strings.Cut(b.MIMEType, "/")
			parts = append(parts, openAIPart{Type: "input_audio", InputAudio: &openAIAudio{b.Data, strings.TrimPrefix(format, "x-")}})
		case content.ToolResult:
			results = append(results, openAIMessage{Role: "tool", Content: resultText(b), ToolCallID: b.ToolUseID})
		default:
			return nil, cannotTake("content of type " + block.BlockType())
		}
	}
	if len(parts) == 0 {
		return results, nil
	}
	if text, ok := m.Content[0].(content.Text); ok && len(parts) == 1 {
		return append(results, openAIMessage{Role: "user", Content: text.Text}), nil // simple endpoints know no parts
	}
	return append(results, openAIMessage{Role: "user", Content: parts}), nil
}

func assistantMessage(blocks content.Blocks) ([]openAIMessage, error) {
	m := openAIMessage{Role: "assistant", Content: blocks.Text()}
	for _, block := range blocks {
		switch b := block.(type) {
		case content.Text:
		case content.ToolUse:
			call := openAICall{ID: b.ID, Type: "function"}
			call.Function.Name, call.Function.Arguments = b.Name, string(inputOf(b))
			m.ToolCalls = append(m.ToolCalls, call)
		default:
			return nil, cannotTake(block.BlockType() + " content said by the assistant")
		}
	}
	return []openAIMessage{m}, nil
}

func fromOpenAI(response *openAIResponse, asked string) (*steps.SampleResult, error) {
	choice := response.Choices[0]
	result := &steps.SampleResult{
		Role: content.Assistant, Model: cmp.Or(response.Model, asked), StopReason: stopReason(choice.FinishReason),
	}
	if text := cmp.Or(choice.Message.Content, choice.Message.Refusal); text != "" {
		result.Content = append(result.Content, content.Text{Text: text})
	}
	for _, call := range choice.Message.ToolCalls {
		if !json.Valid([]byte(call.Function.Arguments)) {
			return nil, errors.New("the model called a tool with arguments that are not JSON")
		}
		result.Content = append(result.Content, content.ToolUse{
			ID: call.ID, Name: call.Function.Name, Input: json.RawMessage(call.Function.Arguments),
		})
	}
	return result, nil
}
