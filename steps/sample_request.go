package steps

import (
	"encoding/json"

	"github.com/mcpsaga/mcpsaga/content"
)

// SampleRequest is what a model is asked: the parameters of
// sampling/createMessage (MCP page "client/sampling"). Only Messages and
// MaxTokens are required. The client may change or ignore the rest.
type SampleRequest struct {
	// Messages is the conversation so far.
	Messages []SampleMessage
	// MaxTokens is the most tokens to generate. It must be more than 0.
	MaxTokens int
	// SystemPrompt is a system prompt to use, or empty.
	SystemPrompt string
	// ModelPreferences help the client to choose a model, or are nil.
	ModelPreferences *ModelPreferences
	// Temperature is the randomness of the model, or nil for the model's own.
	Temperature *float64
	// StopSequences are texts at which the model stops.
	StopSequences []string
	// Metadata is a JSON object for the model's provider, or nil.
	Metadata json.RawMessage
	// IncludeContext asks the client to add context from MCP servers: "none", which is
	// the same as empty, "thisServer" or "allServers". The latter two are deprecated
	// and need the feature SamplingContext.
	IncludeContext string
	// Tools are tools that the model may use; the tool that samples runs them.
	// They need the feature SamplingTools.
	Tools []SampleTool
	// ToolChoice says whether the model uses Tools, which must be given: "auto",
	// "required" for at least one, or "none". Empty leaves it to the model.
	ToolChoice string
}

// SampleMessage is one message of a conversation.
type SampleMessage struct {
	// Role is who speaks.
	Role content.Role
	// Content is what is said: texts, images and audio; besides, tool uses of the
	// model, or nothing but tool results of the user.
	Content content.Blocks
}

// ModelPreferences help a client to choose a model. Each priority is between 0
// (unimportant) and 1 (most important), or nil if not said.
type ModelPreferences struct {
	// Hints are names of models or parts of them, in order of preference.
	Hints []string
	// CostPriority says how much a low price matters.
	CostPriority *float64
	// SpeedPriority says how much a quick answer matters.
	SpeedPriority *float64
	// IntelligencePriority says how much a capable model matters.
	IntelligencePriority *float64
}

// SampleTool is a tool that a model may use while sampling.
type SampleTool struct {
	// Name is the tool's name. It is required.
	Name string
	// Title is the tool's name for people, or empty.
	Title string
	// Description tells the model what the tool does.
	Description string
	// InputSchema is the JSON Schema of the tool's arguments, an object. Nil stands
	// for {"type":"object"}.
	InputSchema json.RawMessage
	// OutputSchema is the JSON Schema of the tool's structured result, or nil.
	OutputSchema json.RawMessage
}

// Needs returns the features that a client must have to be sent the request.
func (r *SampleRequest) Needs() Features {
	needs := Features{Sampling: true, SamplingContext: r.IncludeContext == "thisServer" || r.IncludeContext == "allServers"}
	needs.SamplingTools = len(r.Tools) > 0 || r.ToolChoice != ""
	for _, m := range r.Messages {
		for _, b := range m.Content {
			switch b.(type) {
			case content.ToolUse, *content.ToolUse, content.ToolResult, *content.ToolResult:
				needs.SamplingTools = true
			}
		}
	}
	return needs
}
