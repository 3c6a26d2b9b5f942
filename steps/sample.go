package steps

import (
	stdjson "encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/mcpsaga/mcpsaga/content"
)

// Sample asks the client's model for a completion: sampling/createMessage (MCP
// page "client/sampling"). Declare it once with what does not change, and give
// the messages when asking:
//
//	var advice = &steps.Sample{ID: "advice", Request: steps.SampleRequest{MaxTokens: 100}}
//	...
//	t.Ask("decide", advice.With(steps.Promptf("Is deploying to '%s' safe right now?", target)))
//
// Do not change a Sample after its first use.
type Sample struct {
	// ID correlates the answer with the question. It is unique within a saga, and has
	// 1 to 64 characters of A-Z a-z 0-9 _ - . : / .
	ID string
	// Request is what is asked for, as far as it is known beforehand.
	Request SampleRequest

	nth, varied bool
}

// Promptf is for [Sample.With]: it makes the messages one message of the user, formatted
// as by [fmt.Sprintf].
func Promptf(format string, args ...any) func(*SampleRequest) {
	text := fmt.Sprintf(format, args...)
	return func(r *SampleRequest) { r.Messages = []SampleMessage{UserText(text)} }
}

// UserText returns a message of the user that holds text.
func UserText(text string) SampleMessage {
	return SampleMessage{Role: content.User, Content: content.Blocks{content.Text{Text: text}}}
}

// AssistantText returns a message of the model that holds text.
func AssistantText(text string) SampleMessage {
	return SampleMessage{Role: content.Assistant, Content: content.Blocks{content.Text{Text: text}}}
}

// StepID implements [Question].
func (s *Sample) StepID() string { return s.ID }

// Verify implements [Question]. Messages may still be missing: they come by
// [Sample.With]. MaxTokens must be declared.
func (s *Sample) Verify() error {
	if err := checkID(s.ID, s.nth); err != nil {
		return err
	}
	r := s.Request
	if len(r.Messages) == 0 {
		r.Messages = []SampleMessage{UserText("")}
	}
	return withID(s.ID, r.Verify())
}

// Step implements [Request].
func (s *Sample) Step() (Step, error) {
	if err := checkID(s.ID, s.nth); err != nil {
		return Step{}, err
	}
	params, err := s.Request.AppendParams(make([]byte, 0, 256))
	if err != nil {
		return Step{Kind: Sampling, Needs: s.Request.Needs()}, withID(s.ID, err) // for who asks With
	}
	return Step{ID: s.ID, Kind: Sampling, Params: params, Needs: s.Request.Needs(), Varied: s.varied}, nil
}

// With returns the question with other messages or settings: those of [Promptf], or of
// functions of your own that change a copy of the declared request. They must replace
// slices and what pointers lead to, which the copy shares.
//
//	advice.With(func(r *steps.SampleRequest) { r.Messages = conversation })
func (s *Sample) With(changes ...func(*SampleRequest)) *Sample {
	varied := *s
	varied.varied = true
	for _, change := range changes {
		if change != nil {
			change(&varied.Request)
		}
	}
	return &varied
}

// Nth returns the n-th instance of the question, with the id "ID#n".
func (s *Sample) Nth(n int) *Sample {
	nth := *s
	nth.ID, nth.nth = nthID(s.ID, n), true
	return &nth
}

// Check implements [Question]. It does not judge what the model said.
func (s *Sample) Check(step Step, result stdjson.RawMessage) error {
	_, err := parsed(step.ID, result, parseSampleResult)
	return err
}

// Answer returns what the client's model said. The error is a *[StepError].
func (s *Sample) Answer(a Answers) (SampleResult, error) {
	return answered(a, s.ID, parseSampleResult)
}

// SampleRequest is what a model is asked: the parameters of sampling/createMessage.
// Messages and MaxTokens are required; the client may change or ignore the rest.
type SampleRequest struct {
	// Messages is the conversation so far.
	Messages []SampleMessage `json:"messages,omitzero"`
	// MaxTokens is the most tokens to generate. It must be more than 0.
	MaxTokens int `json:"maxTokens,omitzero"`
	// SystemPrompt is a system prompt to use, or empty.
	SystemPrompt string `json:"systemPrompt,omitzero"`
	// ModelPreferences help the client to choose a model, or are nil.
	ModelPreferences *ModelPreferences `json:"modelPreferences,omitzero"`
	// Temperature is the randomness of the model, or nil for the model's own.
	Temperature *float64 `json:"temperature,omitzero"`
	// StopSequences are texts at which the model stops.
	StopSequences []string `json:"stopSequences,omitempty"`
	// Metadata is a JSON object for the model's provider, or nil.
	Metadata stdjson.RawMessage `json:"metadata,omitzero"`
	// IncludeContext asks the client to add context from MCP servers: "none" or empty,
	// "thisServer" or "allServers", which are deprecated and need the feature
	// SamplingContext.
	IncludeContext string `json:"includeContext,omitzero"`
	// Tools are what the model may use, and your tool then runs. They need the feature
	// SamplingTools.
	Tools []SampleTool `json:"tools,omitempty"`
	// ToolChoice says whether the model uses Tools, which must be given: "auto",
	// "required" for at least one, or "none". Empty leaves it to the model.
	ToolChoice string `json:"-"`
}

// SampleMessage is one message of a conversation.
type SampleMessage struct {
	// Role is who speaks.
	Role content.Role `json:"role"`
	// Content is what is said: texts, images and audio; besides, tool uses of the
	// model, or nothing but tool results of the user.
	Content content.Blocks `json:"content"`
}

// ModelPreferences help a client to choose a model. A priority is between 0
// (unimportant) and 1 (most important), or nil.
type ModelPreferences struct {
	// Hints are names of models or parts of them, in order of preference.
	Hints []string `json:"-"`
	// CostPriority says how much a low price matters.
	CostPriority *float64 `json:"costPriority,omitzero"`
	// SpeedPriority says how much a quick answer matters.
	SpeedPriority *float64 `json:"speedPriority,omitzero"`
	// IntelligencePriority says how much a capable model matters.
	IntelligencePriority *float64 `json:"intelligencePriority,omitzero"`
}

// SampleTool is a tool that a model may use while sampling.
type SampleTool struct {
	// Name is the tool's name. It is required.
	Name string `json:"name"`
	// Title is the tool's name for people, or empty.
	Title string `json:"title,omitzero"`
	// Description tells the model what the tool does.
	Description string `json:"description,omitzero"`
	// InputSchema is the JSON Schema of the tool's arguments, an object. Nil stands
	// for {"type":"object"}.
	InputSchema stdjson.RawMessage `json:"inputSchema,omitzero"`
	// OutputSchema is the JSON Schema of the tool's structured result, or nil.
	OutputSchema stdjson.RawMessage `json:"outputSchema,omitzero"`
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

// Verify reports what MCP does not allow in the request. The error is a
// *[QuestionError].
func (r *SampleRequest) Verify() error {
	fail := func(where, reason string, args ...any) error {
		return &QuestionError{Where: where, Reason: fmt.Sprintf(reason, args...)}
	}
	switch {
	case len(r.Messages) == 0:
		return fail("Messages", "there are none: ask With(steps.Promptf(...))")
	case r.MaxTokens <= 0:
		return fail("MaxTokens", "%d is not more than 0", r.MaxTokens)
	case r.Temperature != nil && (math.IsNaN(*r.Temperature) || math.IsInf(*r.Temperature, 0)):
		return fail("Temperature", "is not a number")
	case r.Metadata != nil && checkObject(r.Metadata) != "":
		return fail("Metadata", "is not a JSON object")
	case !slices.Contains([]string{"", "none", "thisServer", "allServers"}, r.IncludeContext):
		return fail("IncludeContext", "%q is not one of none, thisServer and allServers", r.IncludeContext)
	case !slices.Contains([]string{"", "auto", "required", "none"}, r.ToolChoice):
		return fail("ToolChoice", "%q is not one of auto, required and none", r.ToolChoice)
	case r.ToolChoice != "" && len(r.Tools) == 0:
		return fail("ToolChoice", "there are no Tools to choose")
	}
	if p := r.ModelPreferences; p != nil {
		for i, x := range []*float64{p.CostPriority, p.SpeedPriority, p.IntelligencePriority} {
			if x != nil && !(*x >= 0 && *x <= 1) { // written so that NaN fails as well
				name := []string{"Cost", "Speed", "Intelligence"}[i]
				return fail("ModelPreferences."+name+"Priority", "%v is not between 0 and 1", *x)
			}
		}
	}
	if err := verifyTools(r.Tools); err != nil {
		return err
	}
	return verifyMessages(r.Messages)
}

func verifyTools(tools []SampleTool) error {
	names := make(map[string]bool, len(tools))
	for i, t := range tools {
		reason := ""
		switch {
		case t.Name == "":
			reason = "has no Name"
		case names[t.Name]:
			reason = "there are two tools of this name"
		case t.InputSchema != nil && checkObject(t.InputSchema) != "":
			reason = "InputSchema is not a JSON object"
		case t.OutputSchema != nil && checkObject(t.OutputSchema) != "":
			reason = "OutputSchema is not a JSON object"
		}
		if reason != "" {
			return &QuestionError{Where: fmt.Sprintf("Tools[%d] %q", i, t.Name), Reason: reason}
		}
		names[t.Name] = true
	}
	return nil
}

// verifyMessages checks the roles and how tool uses and tool results go together: the
// next message answers all tool uses of the model, and holds nothing else.
func verifyMessages(messages []SampleMessage) error {
	var open map[string]bool // the tool uses of the message before: whether they lack a result
	for i, m := range messages {
		uses, reason := verifyMessage(m, open)
		if id, ok := firstOpen(open); ok && reason == "" {
			reason = fmt.Sprintf("must answer the tool use %q of the message before", id)
		}
		if reason != "" {
			return &QuestionError{Where: fmt.Sprintf("Messages[%d]", i), Reason: reason}
		}
		open = uses
	}
	if id, ok := firstOpen(open); ok {
		return &QuestionError{Where: "Messages", Reason: fmt.Sprintf("the tool use %q at the end has no result", id)}
	}
	return nil
}

func firstOpen(uses map[string]bool) (id string, ok bool) {
	for use, open := range uses {
		if open && (!ok || use < id) {
			id, ok = use, true
		}
	}
	return id, ok
}

// verifyMessage returns the tool uses of a message, and marks those of the message before
// that it answers.
func verifyMessage(m SampleMessage, open map[string]bool) (uses map[string]bool, reason string) {
	if m.Role != content.User && m.Role != content.Assistant {
		return nil, fmt.Sprintf("the Role %q is not one of user and assistant", m.Role)
	}
	if len(m.Content) == 0 {
		return nil, "has no Content"
	}
	results := 0
	for _, b := range m.Content {
		if p := reflect.ValueOf(b); p.Kind() == reflect.Pointer { // a natural slip, which works
			if b = nil; !p.IsNil() {
				b = p.Elem().Interface().(content.Block)
			}
		}
		switch b := b.(type) {
		case content.Text, content.Image, content.Audio:
		case content.ToolUse:
			if m.Role != content.Assistant {
				return nil, "a tool use belongs in a message of the assistant"
			}
			if uses == nil {
				uses = map[string]bool{}
			}
			uses[b.ID] = true
		case content.ToolResult:
			lacks, asked := open[b.ToolUseID]
			switch {
			case m.Role != content.User:
				return nil, "a tool result belongs in a message of the user"
			case !asked:
				return nil, fmt.Sprintf("answers the tool use %q, which the message before does not hold", b.ToolUseID)
			case !lacks:
				return nil, fmt.Sprintf("answers the tool use %q twice", b.ToolUseID)
			}
			open[b.ToolUseID] = false
			results++
		case nil:
			return nil, "holds a nil block"
		default:
			return nil, fmt.Sprintf("a %s block is not allowed in sampling; allowed are text, image, audio, tool_use and tool_result", b.BlockType())
		}
	}
	if results > 0 && results != len(m.Content) {
		return nil, "a message with tool results must hold nothing else"
	}
	return uses, ""
}
