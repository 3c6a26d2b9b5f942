package model

import (
	"cmp"
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

// newOpenAI speaks OpenAI's chat completions, which most other endpoints speak too.
func newOpenAI(c Config, host string) func(context.Context, string, *steps.SampleRequest) (*steps.SampleResult, error) {
	// The service, unlike the library's client, reads nothing from the environment.
	options := []option.RequestOption{option.WithBaseURL(c.BaseURL), option.WithHTTPClient(newTransport())}
	if c.Key != "" {
		options = append(options, option.WithAPIKey(c.Key))
	}
	if strings.HasPrefix(c.BaseURL, "http://") {
		options = append(options, option.WithUnsafeAllowHTTP())
	}
	service := openai.NewChatCompletionService(options...)
	return func(ctx context.Context, name string, r *steps.SampleRequest) (*steps.SampleResult, error) {
		params, err := openAIParams(r)
		if err != nil {
			return nil, err
		}
		params.Model = name
		if host == "api.openai.com" {
			params.MaxCompletionTokens = openai.Int(int64(r.MaxTokens)) // newer models refuse the old name
		} else {
			params.MaxTokens = openai.Int(int64(r.MaxTokens)) // others know only the old name
		}
		completion, err := service.New(ctx, params)
		if err == nil && len(completion.Choices) == 0 {
			err = errors.New("it answered without a choice")
		}
		if err != nil {
			return nil, fmt.Errorf("asking %s: %w", host, err)
		}
		return fromOpenAI(completion, name)
	}
}

func openAIParams(r *steps.SampleRequest) (p openai.ChatCompletionNewParams, err error) {
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
		schema, err := schemaOf(tool)
		if err != nil {
			return p, err
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
			return nil, cannotTake("content of type " + block.BlockType())
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
			return nil, cannotTake(block.BlockType() + " content said by the assistant")
		}
	}
	return []openai.ChatCompletionMessageParamUnion{message}, nil
}

func fromOpenAI(completion *openai.ChatCompletion, asked string) (*steps.SampleResult, error) {
	choice := completion.Choices[0]
	result := &steps.SampleResult{
		Role: content.Assistant, Model: cmp.Or(completion.Model, asked), StopReason: stopReason(choice.FinishReason),
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
