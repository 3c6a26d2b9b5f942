package model

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/steps"
)

// newAnthropic speaks Anthropic's messages.
func newAnthropic(c Config, host string) func(context.Context, string, *steps.SampleRequest) (*steps.SampleResult, error) {
	// The service, unlike the library's client, reads nothing from the environment.
	options := []option.RequestOption{option.WithBaseURL(c.BaseURL), option.WithHTTPClient(newTransport())}
	if c.Key != "" {
		options = append(options, option.WithAPIKey(c.Key))
	}
	service := anthropic.NewMessageService(options...)
	return func(ctx context.Context, name string, r *steps.SampleRequest) (*steps.SampleResult, error) {
		params, err := anthropicParams(r)
		if err != nil {
			return nil, err
		}
		params.Model = name
		message, err := service.New(ctx, params)
		if err != nil {
			return nil, fmt.Errorf("asking %s: %w", host, err)
		}
		return fromAnthropic(message), nil
	}
}

func anthropicParams(r *steps.SampleRequest) (anthropic.MessageNewParams, error) {
	p := anthropic.MessageNewParams{MaxTokens: int64(r.MaxTokens), StopSequences: r.StopSequences}
	if r.SystemPrompt != "" {
		p.System = []anthropic.TextBlockParam{{Text: r.SystemPrompt}}
	}
	if r.Temperature != nil {
		p.Temperature = anthropic.Float(min(*r.Temperature, 1)) // the highest there is here
	}
	for _, message := range r.Messages {
		blocks, err := toAnthropic(message.Content)
		if err != nil {
			return p, err
		}
		if message.Role == content.Assistant {
			p.Messages = append(p.Messages, anthropic.NewAssistantMessage(blocks...))
		} else {
			p.Messages = append(p.Messages, anthropic.NewUserMessage(blocks...))
		}
	}
	for _, tool := range r.Tools {
		schema, err := schemaOf(tool)
		if err != nil {
			return p, err
		}
		delete(schema, "type") // always an object; the library writes it
		converted := anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{ExtraFields: schema}, tool.Name)
		if tool.Description != "" {
			converted.OfTool.Description = anthropic.String(tool.Description)
		}
		p.Tools = append(p.Tools, converted)
	}
	if len(r.Tools) > 0 {
		switch r.ToolChoice {
		case "auto":
			p.ToolChoice.OfAuto = &anthropic.ToolChoiceAutoParam{}
		case "required":
			p.ToolChoice.OfAny = &anthropic.ToolChoiceAnyParam{}
		case "none":
			none := anthropic.NewToolChoiceNoneParam()
			p.ToolChoice.OfNone = &none
		}
	}
	return p, nil
}

func toAnthropic(blocks content.Blocks) ([]anthropic.ContentBlockParamUnion, error) {
	var converted []anthropic.ContentBlockParamUnion
	for _, block := range blocks {
		switch b := block.(type) {
		case content.Text:
			converted = append(converted, anthropic.NewTextBlock(b.Text))
		case content.Image:
			converted = append(converted, anthropic.NewImageBlockBase64(b.MIMEType, base64.StdEncoding.EncodeToString(b.Data)))
		case content.ToolUse:
			converted = append(converted, anthropic.NewToolUseBlock(b.ID, inputOf(b), b.Name))
		case content.ToolResult:
			converted = append(converted, anthropic.NewToolResultBlock(b.ToolUseID, resultText(b), b.IsError))
		default:
			return nil, cannotTake("content of type " + block.BlockType())
		}
	}
	return converted, nil
}

func fromAnthropic(message *anthropic.Message) *steps.SampleResult {
	result := &steps.SampleResult{Role: content.Assistant, Model: message.Model, StopReason: stopReason(string(message.StopReason))}
	for _, block := range message.Content {
		switch block.Type { // thinking and the provider's own tools stay here
		case "text":
			result.Content = append(result.Content, content.Text{Text: block.Text})
		case "tool_use":
			result.Content = append(result.Content, content.ToolUse{ID: block.ID, Name: block.Name, Input: block.Input})
		}
	}
	return result
}
