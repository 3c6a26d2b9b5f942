package steps

import (
	"cmp"
	stdjson "encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// sampleParams are the parameters of sampling/createMessage.
type sampleParams struct {
	plainRequest
	ToolChoice *toolChoice `json:"toolChoice,omitzero"`
}

type plainRequest SampleRequest // without its methods

type toolChoice struct {
	Mode string `json:"mode"`
}

// preferences are ModelPreferences with the hints as MCP has them.
type preferences struct {
	Hints []modelHint `json:"hints,omitempty"`
	*ModelPreferences
}

type modelHint struct {
	Name string `json:"name"`
}

var withHints = json.WithMarshalers(json.MarshalToFunc(writePreferences))

func writePreferences(e *jsontext.Encoder, m ModelPreferences) error {
	p := preferences{ModelPreferences: &m}
	for _, name := range m.Hints {
		p.Hints = append(p.Hints, modelHint{name})
	}
	return json.MarshalEncode(e, &p)
}

func readPreferences(d *jsontext.Decoder, m *ModelPreferences) error {
	p := preferences{ModelPreferences: m}
	err := json.UnmarshalDecode(d, &p)
	for _, hint := range p.Hints {
		if hint.Name != "" { // MCP does not require it
			m.Hints = append(m.Hints, hint.Name)
		}
	}
	return err
}

// AppendParams appends the request as the parameters of sampling/createMessage to
// dst. The same request always gives the same bytes. The error is a
// *[QuestionError], for what Verify reports or for content that cannot be written.
func (r *SampleRequest) AppendParams(dst []byte) ([]byte, error) {
	if err := r.Verify(); err != nil {
		return dst, err
	}
	// By hand what every request has: the library takes a fifteenth of a turn for it.
	out := append(dst, `{"messages":[`...)
	for i, m := range r.Messages {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, `{"role":"`...), m.Role...) // one of two words
		out = append(out, `","content":`...)
		var err error
		if out, err = m.Content.AppendSampling(out); err != nil {
			return dst, &QuestionError{Where: "Messages[" + strconv.Itoa(i) + "]", Reason: err.Error()}
		}
		out = append(out, '}')
	}
	out = strconv.AppendInt(append(out, `],"maxTokens":`...), int64(r.MaxTokens), 10)
	if r.SystemPrompt != "" || r.ModelPreferences != nil || r.Temperature != nil || r.StopSequences != nil ||
		r.Metadata != nil || r.IncludeContext != "" || r.Tools != nil || r.ToolChoice != "" {
		if rest, _ := json.Marshal(r.rest(), lossy, withHints); len(rest) > len("{}") {
			rest[0] = ','
			return append(out, rest...), nil
		}
	}
	return append(out, '}'), nil
}

// rest is what most requests do not have.
func (r *SampleRequest) rest() *sampleParams {
	p := &sampleParams{plainRequest: plainRequest(*r)}
	p.Messages, p.MaxTokens, p.Tools = nil, 0, slices.Clone(p.Tools)
	for i := range p.Tools {
		if p.Tools[i].InputSchema == nil {
			p.Tools[i].InputSchema = []byte(`{"type":"object"}`)
		}
	}
	if r.ToolChoice != "" {
		p.ToolChoice = &toolChoice{r.ToolChoice}
	}
	return p
}

// MarshalJSON implements encoding/json.Marshaler: see [SampleRequest.AppendParams].
func (r SampleRequest) MarshalJSON() ([]byte, error) { return r.AppendParams(nil) }

// UnmarshalJSON implements encoding/json.Unmarshaler: see [Step.Sample].
func (r *SampleRequest) UnmarshalJSON(data []byte) error {
	parsed, err := parseSample(data)
	if err == nil {
		*r = *parsed
	}
	return err
}

// Sample reads the request that the step makes, from its Params alone: those of
// sampling/createMessage. It demands the members that MCP requires and their types,
// and leaves the rest of the rules to [SampleRequest.Verify]. The error is a
// *[QuestionError].
func (s Step) Sample() (*SampleRequest, error) { return parseSample(s.Params) }

func parseSample(params stdjson.RawMessage) (*SampleRequest, error) {
	var p sampleParams
	if err := readParams(params, &p); err != nil {
		return nil, err
	}
	if p.Messages == nil {
		return nil, &QuestionError{Where: "messages", Reason: "must be an array"}
	}
	for i, m := range p.Messages {
		where := "messages[" + strconv.Itoa(i) + "]"
		switch {
		case m.Content == nil:
			return nil, &QuestionError{Where: where + ".content", Reason: notContent}
		case m.Role != content.User && m.Role != content.Assistant:
			return nil, &QuestionError{Where: where + ".role", Reason: "must be user or assistant"}
		}
	}
	if p.MaxTokens == 0 {
		return nil, &QuestionError{Where: "maxTokens", Reason: "must be a whole number above 0"}
	}
	for i, t := range p.Tools {
		if t.Name == "" {
			return nil, &QuestionError{Where: "tools[" + strconv.Itoa(i) + "].name", Reason: "must be a string that is not empty"}
		}
	}
	r := SampleRequest(p.plainRequest)
	if p.ToolChoice != nil {
		r.ToolChoice = cmp.Or(p.ToolChoice.Mode, "auto")
	}
	return &r, nil
}

const notContent = "must be a content block or an array of them"

// readContent reads the content of a message.
func readContent(raw []byte, b *content.Blocks) error {
	if k := jsontext.Value(raw).Kind(); k != '{' && k != '[' {
		return reason(notContent)
	}
	if err := b.UnmarshalSampling(raw); err != nil {
		return reason(err.Error())
	}
	return nil
}

// SampleResult is what a client's model said: a CreateMessageResult. Treat it as
// input from outside, which it is.
type SampleResult struct {
	// Role is who speaks, as a rule [content.Assistant].
	Role content.Role `json:"role"`
	// Content is what was said.
	Content content.Blocks `json:"content"`
	// Model is the name of the model.
	Model string `json:"model"`
	// StopReason says why the model stopped, or is empty: "endTurn", "stopSequence",
	// "maxTokens" if the text may end in mid-sentence, "toolUse" if the model wants to
	// use tools (see [SampleResult.ToolUses]), or another reason.
	StopReason string `json:"stopReason,omitzero"`
}

// Text returns the texts of the content, joined by newlines.
func (r SampleResult) Text() string { return r.Content.Text() }

// ToolUses returns the tools that the model wants to use, in order. Answer each
// with a [content.ToolResult] in the next message.
func (r SampleResult) ToolUses() []content.ToolUse {
	var uses []content.ToolUse
	for _, b := range r.Content {
		if u, ok := b.(content.ToolUse); ok {
			uses = append(uses, u)
		}
	}
	return uses
}

// Message returns the result as a message, to continue the conversation.
func (r SampleResult) Message() SampleMessage { return SampleMessage{Role: r.Role, Content: r.Content} }

// MarshalJSON implements encoding/json.Marshaler. It writes a single block alone, as
// every client and server understands it.
func (r SampleResult) MarshalJSON() ([]byte, error) {
	return json.Marshal(plainResult(r), lossy, alone)
}

type plainResult SampleResult // without its methods

var alone = json.WithMarshalers(json.MarshalFunc(func(b content.Blocks) ([]byte, error) { return b.AppendSampling(nil) }))

// UnmarshalJSON implements encoding/json.Unmarshaler. It demands what MCP
// demands: role, content and model.
func (r *SampleResult) UnmarshalJSON(data []byte) error {
	reason := checkObject(data)
	if reason != "" {
		return errors.New("sampling result: " + reason)
	}
	parsed, reason := parseSampleResult(data)
	if reason != "" {
		return errors.New("sampling result: " + reason)
	}
	*r = parsed
	return nil
}

func parseSampleResult(result stdjson.RawMessage) (r SampleResult, reason string) {
	role, _ := jsonview.String(jsonview.Get(result, "role"))
	model, named := jsonview.String(jsonview.Get(result, "model"))
	stop, said := jsontext.Value(jsonview.Get(result, "stopReason")), jsontext.Value(jsonview.Get(result, "content"))
	why, stopped := jsonview.String(stop)
	r.Role, r.Model, r.StopReason = content.Role(role), model, why
	switch {
	case r.Role != content.User && r.Role != content.Assistant:
		return r, `"role" must be "user" or "assistant"`
	case !named:
		return r, `"model" must be a string`
	case !stopped && stop != nil && stop.Kind() != 'n':
		return r, `"stopReason" must be a string`
	case said.Kind() != '{' && said.Kind() != '[':
		return r, `"content" ` + notContent
	}
	if err := r.Content.UnmarshalSampling(said); err != nil {
		return r, `"content": ` + err.Error()
	}
	return r, ""
}
