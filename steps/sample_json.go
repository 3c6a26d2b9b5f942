package steps

import (
	stdjson "encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// sampleParams are the parameters of sampling/createMessage.
type sampleParams struct {
	Messages  []sampleMessage `json:"messages"`
	MaxTokens tokenCount      `json:"maxTokens"`
	sampleSettings
}

type sampleMessage struct {
	Role    content.Role   `json:"role"`
	Content jsontext.Value `json:"content"`
}

// sampleSettings are those of the parameters that most requests do not have.
type sampleSettings struct {
	SystemPrompt     string       `json:"systemPrompt,omitzero"`
	ModelPreferences *preferences `json:"modelPreferences,omitzero"`
	Temperature      *float64     `json:"temperature,omitzero"`
	StopSequences    stringList   `json:"stopSequences,omitempty"`
	Metadata         rawObject    `json:"metadata,omitzero"`
	IncludeContext   string       `json:"includeContext,omitzero"`
	Tools            []sampleTool `json:"tools,omitempty"`
	ToolChoice       *toolChoice  `json:"toolChoice,omitzero"`
}

type preferences struct {
	Hints                modelHints `json:"hints,omitempty"`
	CostPriority         *float64   `json:"costPriority,omitzero"`
	SpeedPriority        *float64   `json:"speedPriority,omitzero"`
	IntelligencePriority *float64   `json:"intelligencePriority,omitzero"`
}

type modelHint struct {
	Name string `json:"name"`
}

// modelHints are read as far as they can be: they are only hints.
type modelHints []modelHint

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (h *modelHints) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	v, err := dec.ReadValue()
	for hint := range jsonview.Elements(v) {
		if name := get(hint, "name"); text(name) != "" {
			*h = append(*h, modelHint{text(name)})
		} else if !absent(name) && name.Kind() != '"' {
			return errors.New("must have names that are strings")
		}
	}
	return err
}

type sampleTool struct {
	Name         string    `json:"name"`
	Title        string    `json:"title,omitzero"`
	Description  string    `json:"description,omitzero"`
	InputSchema  rawObject `json:"inputSchema,omitzero"`
	OutputSchema rawObject `json:"outputSchema,omitzero"`
}

type toolChoice struct {
	Mode string `json:"mode"`
}

// rawObject is an object that is kept as it is. Null is taken for none.
type rawObject stdjson.RawMessage

// MarshalJSONTo implements json.MarshalerTo.
func (o rawObject) MarshalJSONTo(enc *jsontext.Encoder) error {
	return enc.WriteValue(jsontext.Value(o))
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (o *rawObject) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	v, err := dec.ReadValue()
	switch {
	case err != nil || v.Kind() == 'n':
		return err
	case v.Kind() != '{':
		return errors.New("must be an object")
	}
	*o = append(rawObject(nil), v...)
	return nil
}

// tokenCount is read however it is written: 3, 3.0 and 3e0 are the same.
type tokenCount int

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (n *tokenCount) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	v, err := dec.ReadValue()
	if err != nil {
		return err
	}
	i, _ := integer(v)
	if *n = tokenCount(i); int64(*n) != i || i <= 0 {
		return errTokenCount
	}
	return nil
}

var errTokenCount = errors.New("must be a whole number above 0")

// stringList takes nothing for a string that is none, not even null.
type stringList []string

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (l *stringList) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	v, err := dec.ReadValue()
	if err != nil || v.Kind() == 'n' {
		return err
	}
	list, ok := jsonview.Strings(v)
	if !ok {
		return errors.New("must be a list of strings")
	}
	*l = list
	return nil
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
		out = append(appendString(append(out, `{"role":`...), m.Role), `,"content":`...)
		var err error
		if out, err = m.Content.AppendSampling(out); err != nil {
			return dst, &QuestionError{Where: "Messages[" + strconv.Itoa(i) + "]", Reason: err.Error()}
		}
		out = append(out, '}')
	}
	out = strconv.AppendInt(append(out, `],"maxTokens":`...), int64(r.MaxTokens), 10)
	if !r.plain() {
		if settings := appendJSON(nil, r.settings()); len(settings) > len("{}") {
			settings[0] = ','
			return append(out, settings...), nil
		}
	}
	return append(out, '}'), nil
}

// plain reports that the request has no settings.
func (r *SampleRequest) plain() bool {
	return r.SystemPrompt == "" && r.ModelPreferences == nil && r.Temperature == nil && r.StopSequences == nil &&
		r.Metadata == nil && r.IncludeContext == "" && r.Tools == nil && r.ToolChoice == ""
}

func (r *SampleRequest) settings() *sampleSettings {
	s := &sampleSettings{SystemPrompt: r.SystemPrompt, Temperature: r.Temperature, StopSequences: r.StopSequences,
		Metadata: rawObject(r.Metadata), IncludeContext: r.IncludeContext}
	if m := r.ModelPreferences; m != nil {
		s.ModelPreferences = &preferences{CostPriority: m.CostPriority, SpeedPriority: m.SpeedPriority, IntelligencePriority: m.IntelligencePriority}
		for _, name := range m.Hints {
			s.ModelPreferences.Hints = append(s.ModelPreferences.Hints, modelHint{name})
		}
	}
	for _, t := range r.Tools {
		if t.InputSchema == nil {
			t.InputSchema = []byte(`{"type":"object"}`)
		}
		s.Tools = append(s.Tools, sampleTool{t.Name, t.Title, t.Description, rawObject(t.InputSchema), rawObject(t.OutputSchema)})
	}
	if r.ToolChoice != "" {
		s.ToolChoice = &toolChoice{r.ToolChoice}
	}
	return s
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
	if reason := checkObject(params); reason != "" {
		return nil, &QuestionError{Reason: reason}
	}
	var p sampleParams
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, misfit(err)
	}
	if p.Messages == nil {
		return nil, &QuestionError{Where: "messages", Reason: "must be an array"}
	}
	r := &SampleRequest{
		MaxTokens: int(p.MaxTokens), SystemPrompt: p.SystemPrompt, Temperature: p.Temperature, StopSequences: p.StopSequences,
		Metadata: stdjson.RawMessage(p.Metadata), IncludeContext: p.IncludeContext, Messages: []SampleMessage{},
	}
	for i, m := range p.Messages {
		fail := func(member, reason string) error {
			return &QuestionError{Where: "messages[" + strconv.Itoa(i) + "]." + member, Reason: reason}
		}
		if k := m.Content.Kind(); k != '{' && k != '[' {
			return nil, fail("content", "must be a content block or an array of them")
		}
		var blocks content.Blocks
		if err := blocks.UnmarshalSampling(m.Content); err != nil {
			return nil, fail("content", err.Error())
		}
		if m.Role != content.User && m.Role != content.Assistant {
			return nil, fail("role", "must be user or assistant")
		}
		r.Messages = append(r.Messages, SampleMessage{m.Role, blocks})
	}
	if p.MaxTokens == 0 {
		return nil, &QuestionError{Where: "maxTokens", Reason: errTokenCount.Error()}
	}
	if m := p.ModelPreferences; m != nil {
		r.ModelPreferences = &ModelPreferences{CostPriority: m.CostPriority, SpeedPriority: m.SpeedPriority, IntelligencePriority: m.IntelligencePriority}
		for _, hint := range m.Hints {
			r.ModelPreferences.Hints = append(r.ModelPreferences.Hints, hint.Name)
		}
	}
	for i, t := range p.Tools {
		if t.Name == "" {
			return nil, &QuestionError{Where: "tools[" + strconv.Itoa(i) + "].name", Reason: "must be a string that is not empty"}
		}
		r.Tools = append(r.Tools, SampleTool{t.Name, t.Title, t.Description, stdjson.RawMessage(t.InputSchema), stdjson.RawMessage(t.OutputSchema)})
	}
	if c := p.ToolChoice; c != nil {
		if r.ToolChoice = c.Mode; c.Mode == "" {
			r.ToolChoice = "auto"
		}
	}
	return r, nil
}

// misfit says which member of what a server sent is not of the type it must be.
func misfit(err error) error {
	var at *json.SemanticError
	if !errors.As(err, &at) || at.GoType == nil {
		return &QuestionError{Reason: err.Error()}
	}
	where := ""
	for token := range at.JSONPointer.Tokens() {
		if _, err := strconv.Atoi(token); err == nil {
			where += "[" + token + "]"
		} else {
			where += "." + token
		}
	}
	reason := "must be a number"
	switch at.GoType.Kind() {
	case reflect.String:
		reason = "must be a string"
	case reflect.Struct, reflect.Pointer:
		reason = "must be an object"
	case reflect.Slice:
		reason = "must be an array"
	}
	if _, own := reflect.PointerTo(at.GoType).MethodByName("UnmarshalJSONFrom"); own {
		reason = at.Err.Error()
	}
	return &QuestionError{Where: strings.TrimPrefix(where, "."), Reason: reason}
}
