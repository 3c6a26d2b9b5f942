package model

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/steps"
)

// object is a JSON object of a request for a chat completion:
// https://platform.openai.com/docs/api-reference/chat.
type object = map[string]any

func newRequest(name string, r *steps.SampleRequest) (object, error) {
	request := object{"model": name}
	if r.Temperature != nil {
		request["temperature"] = *r.Temperature
	}
	if len(r.StopSequences) > 0 {
		request["stop"] = r.StopSequences
	}
	var messages []object
	if r.SystemPrompt != "" {
		messages = append(messages, object{"role": "system", "content": r.SystemPrompt})
	}
	for _, m := range r.Messages {
		convert := userMessages
		if m.Role == content.Assistant {
			convert = assistantMessage
		}
		converted, err := convert(m.Content)
		if err != nil {
			return nil, err
		}
		messages = append(messages, converted...)
	}
	request["messages"] = messages
	var tools []object
	for _, tool := range r.Tools {
		schema := object{"type": "object"}
		if tool.InputSchema != nil && json.Unmarshal(tool.InputSchema, &schema) != nil {
			return nil, cannotTake("the schema of the tool " + tool.Name)
		}
		tools = append(tools, object{"type": "function", "function": object{"name": tool.Name, "description": tool.Description, "parameters": schema}})
	}
	if tools != nil {
		request["tools"] = tools
		if r.ToolChoice != "" {
			request["tool_choice"] = r.ToolChoice // auto, required, none: the same words
		}
	}
	return request, nil
}

// userMessages converts a message of the user. Results of tools become messages of their own.
func userMessages(blocks content.Blocks) (messages []object, err error) {
	var parts []object
	for _, block := range blocks {
		switch b := block.(type) {
		case content.Text:
			parts = append(parts, object{"type": "text", "text": b.Text})
		case content.Image:
			url := "data:" + b.MIMEType + ";base64," + base64.StdEncoding.EncodeToString(b.Data)
			parts = append(parts, object{"type": "image_url", "image_url": object{"url": url}})
		case content.Audio:
			_, format, _ := strings.Cut(b.MIMEType, "/")
			parts = append(parts, object{"type": "input_audio", "input_audio": object{"data": b.Data, "format": strings.TrimPrefix(format, "x-")}})
		case content.ToolResult:
			text := b.Content.Text()
			if text == "" {
				text = string(b.StructuredContent)
			}
			messages = append(messages, object{"role": "tool", "tool_call_id": b.ToolUseID, "content": text})
		default:
			return nil, cannotTake("content of type " + block.BlockType())
		}
	}
	switch {
	case len(parts) == 1 && parts[0]["type"] == "text": // simple endpoints know no parts
		messages = append(messages, object{"role": "user", "content": parts[0]["text"]})
	case len(parts) > 0:
		messages = append(messages, object{"role": "user", "content": parts})
	}
	return messages, nil
}

func assistantMessage(blocks content.Blocks) ([]object, error) {
	m := object{"role": "assistant", "content": blocks.Text()}
	var calls []object
	for _, block := range blocks {
		switch b := block.(type) {
		case content.Text:
		case content.ToolUse:
			arguments := cmp.Or(string(b.Input), "{}")
			calls = append(calls, object{"id": b.ID, "type": "function", "function": object{"name": b.Name, "arguments": arguments}})
		default:
			return nil, cannotTake(block.BlockType() + " content said by the assistant")
		}
	}
	if calls != nil {
		m["tool_calls"] = calls
	}
	return []object{m}, nil
}

// completion is the response.
type completion struct {
	Model   string `json:"model"`
	Choices []struct {
		FinishReason string `json:"finish_reason"`
		Message      struct {
			Content   string `json:"content"`
			Refusal   string `json:"refusal"`
			ToolCalls []struct {
				ID       string `json:"id"`
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"message"`
	} `json:"choices"`
}

// stopReasons are MCP's words for why a model stopped.
var stopReasons = map[string]string{"stop": "endTurn", "length": "maxTokens", "tool_calls": "toolUse", "function_call": "toolUse"}

func (c *completion) result(asked string) (*steps.SampleResult, error) {
	if len(c.Choices) == 0 {
		return nil, errors.New("the model answered without a choice")
	}
	choice := c.Choices[0]
	result := &steps.SampleResult{
		Role: content.Assistant, Model: cmp.Or(c.Model, asked), StopReason: cmp.Or(stopReasons[choice.FinishReason], choice.FinishReason),
	}
	if text := cmp.Or(choice.Message.Content, choice.Message.Refusal); text != "" {
		result.Content = append(result.Content, content.Text{Text: text})
	}
	for _, call := range choice.Message.ToolCalls {
		if !json.Valid([]byte(call.Function.Arguments)) {
			return nil, errors.New("the model called a tool with arguments that are not JSON")
		}
		result.Content = append(result.Content, content.ToolUse{ID: call.ID, Name: call.Function.Name, Input: json.RawMessage(call.Function.Arguments)})
	}
	return result, nil
}

// cannotTake says which part of a request a model cannot be given.
func cannotTake(what string) error { return errors.New("this model cannot be given " + what) }
