package model

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/steps"
)

// openAI speaks OpenAI's chat completions, which most other endpoints speak too.
type openAI struct {
	config  Config
	host    string
	service openai.ChatCompletionService
}

func newOpenAI(c Config, host string) *openAI {
	// The service, unlike the library's client, reads nothing from the environment.
	options := []option.RequestOption{option.WithBaseURL(c.BaseURL), option.WithHTTPClient(newTransport())}
	if c.Key != "" {
		options = append(options, option.WithAPIKey(c.Key))
	}
	if strings.HasPrefix(c.BaseURL, "http://") {
		options = append(options, option.WithUnsafeAllowHTTP())
	}
	return &openAI{config: c, host: host, service: openai.NewChatCompletionService(options...)}
}

// Name implements Model.
func (m *openAI) Name(r *steps.SampleRequest) string {
	return m.config.named(r, "gpt-", "o1", "o3", "o4")
}

// Host implements Model.
func (m *openAI) Host() string { return m.host }

// Complete implements Model.
func (m *openAI) Complete(ctx context.Context, r *steps.SampleRequest) (*steps.SampleResult, error) {
	params, err := m.params(r)
	if err != nil {
		return nil, err
	}
	completion, err := m.service.New(ctx, params)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", m.host, err)
	}
	if len(completion.Choices) == 0 {
		return nil, fmt.Errorf("asking %s: it answered without a choice", m.host)
	}
	return fromOpenAI(completion, params.Model)
}

func (m *openAI) params(r *steps.SampleRequest) (openai.ChatCompletionNewParams, error) {
	p := openai.ChatCompletionNewParams{Model: m.Name(r)}
	if m.host == "api.openai.com" {
		p.MaxCompletionTokens = openai.Int(int64(r.MaxTokens)) // newer models refuse the old name
	} else {
		p.MaxTokens = openai.Int(int64(r.MaxTokens)) // others know only the old name
	}
	if r.Temperature != nil {
		p.Temperature = openai.Float(*r.Temperature)
	}
	p.Stop.OfStringArray = r.StopSequences
	if r.SystemPrompt != "" {
		p.Messages = append(p.Messages, openai.SystemMessage(r.SystemPrompt))
	}
	for _, message := range r.Messages {
		converted, err := toOpenAI(message)
		if err != nil {
			return p, err
		}
		p.Messages = append(p.Messages, converted...)
	}
	for _, tool := range r.Tools {
		schema := openai.FunctionParameters{}
		if tool.InputSchema != nil {
			if err := json.Unmarshal(tool.InputSchema, &schema); err != nil {
				return p, &UnsupportedError{"the schema of the tool " + tool.Name}
			}
		}
		function := openai.FunctionDefinitionParam{Name: tool.Name, Parameters: schema}
		if tool.Description != "" {
			function.Description = openai.String(tool.Description)
		}
		p.Tools = append(p.Tools, openai.ChatCompletionFunctionTool(function))
	}
	if r.ToolChoice != "" && len(r.Tools) > 0 {
		p.ToolChoice.OfAuto = openai.String(string(r.ToolChoice)) // auto, required, none: the same words
	}
	return p, nil
}

// toOpenAI converts one message. Results of tools become messages of their own.
func toOpenAI(message steps.SampleMessage) ([]openai.ChatCompletionMessageParamUnion, error) {
	if message.Role == content.Assistant {
		return assistantToOpenAI(message.Content)
	}
	var results []openai.ChatCompletionMessageParamUnion
	var parts []openai.ChatCompletionContentPartUnionParam
	for _, block := range message.Content {
		switch b := block.(type) {
		case content.Text:
			parts = append(parts, openai.TextContentPart(b.Text))
		case content.Image:
			parts = append(parts, openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{
				URL: "data:" + b.MIMEType + ";base64," + base64.StdEncoding.EncodeToString(b.Data),
			}))
		case content.Audio:
			_, format, _ := strings.Cut(b.MIMEType, "/")
			parts = append(parts, openai.InputAudioContentPart(openai.ChatCompletionContentPartInputAudioInputAudioParam{
				Data: base64.StdEncoding.EncodeToString(b.Data), Format: strings.TrimPrefix(format, "x-"),
			}))
		case content.ToolResult:
			results = append(results, openai.ToolMessage(resultText(b), b.ToolUseID))
		default:
			return nil, &UnsupportedError{"content of type " + block.BlockType()}
		}
	}
	if len(parts) == 0 {
		return results, nil
	}
	if text, ok := message.Content[0].(content.Text); ok && len(parts) == 1 {
		return append(results, openai.UserMessage(text.Text)), nil // simple endpoints know no parts
	}
	return append(results, openai.UserMessage(parts)), nil
}

func assistantToOpenAI(blocks content.Blocks) ([]openai.ChatCompletionMessageParamUnion, error) {
	message := openai.AssistantMessage(blocks.Text())
	for _, block := range blocks {
		switch b := block.(type) {
		case content.Text:
		case content.ToolUse:
			message.OfAssistant.ToolCalls = append(message.OfAssistant.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{
				OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
					ID: b.ID,
					Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{
						Name: b.Name, Arguments: string(inputOf(b)),
					},
				},
			})
		default:
			return nil, &UnsupportedError{block.BlockType() + " content said by the assistant"}
		}
	}
	return []openai.ChatCompletionMessageParamUnion{message}, nil
}

func fromOpenAI(completion *openai.ChatCompletion, asked string) (*steps.SampleResult, error) {
	choice := completion.Choices[0]
	result := &steps.SampleResult{Role: content.Assistant, Model: completion.Model}
	if result.Model == "" {
		result.Model = asked
	}
	text := choice.Message.Content
	if text == "" {
		text = choice.Message.Refusal
	}
	if text != "" {
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
	switch choice.FinishReason {
	case "stop":
		result.StopReason = "endTurn"
	case "length":
		result.StopReason = "maxTokens"
	case "tool_calls", "function_call":
		result.StopReason = "toolUse"
	default:
		result.StopReason = choice.FinishReason
	}
	return result, nil
}

// resultText is the result of a tool as one text, which is all that chat
// completions take.
func resultText(r content.ToolResult) string {
	if text := r.Content.Text(); text != "" || r.StructuredContent == nil {
		return text
	}
	return string(r.StructuredContent)
}

func inputOf(b content.ToolUse) json.RawMessage {
	if b.Input == nil {
		return json.RawMessage("{}")
	}
	return b.Input
}
