package steps

import (
	"encoding/json"
	"strconv"

	"github.com/mcpsaga/mcpsaga/content"

	"github.com/tidwall/gjson"
)

// ParseSampleRequest reads the parameters of sampling/createMessage, for a
// client. It demands the members that MCP requires and their types, and leaves
// the rest of the rules to [SampleRequest.Verify]. The error is a
// *[QuestionError].
func ParseSampleRequest(params json.RawMessage) (*SampleRequest, error) {
	obj, reason := parseObject(params)
	if reason != "" {
		return nil, &QuestionError{Reason: reason}
	}
	p := sampleParser{obj: obj}
	r := &SampleRequest{
		Messages:         p.messages(),
		MaxTokens:        p.maxTokens(),
		SystemPrompt:     p.text(obj, "systemPrompt"),
		ModelPreferences: p.preferences(),
		Temperature:      p.number(obj, "temperature"),
		StopSequences:    p.stopSequences(),
		Metadata:         p.object(obj, "metadata"),
		IncludeContext:   IncludeContext(p.text(obj, "includeContext")),
		Tools:            p.tools(),
		ToolChoice:       p.toolChoice(),
	}
	if p.err != nil {
		return nil, p.err
	}
	return r, nil
}

// UnmarshalJSON implements encoding/json.Unmarshaler: see [ParseSampleRequest].
func (r *SampleRequest) UnmarshalJSON(data []byte) error {
	parsed, err := ParseSampleRequest(data)
	if err == nil {
		*r = *parsed
	}
	return err
}

// sampleParser reads the members of a request. The first error stays.
type sampleParser struct {
	obj gjson.Result
	err error
}

func (p *sampleParser) fail(where, reason string) {
	if p.err == nil {
		p.err = &QuestionError{Where: where, Reason: reason}
	}
}

func (p *sampleParser) text(obj gjson.Result, name string) string {
	v := member(obj, name)
	if v.Type != gjson.String && v.Type != gjson.Null {
		p.fail(name, "must be a string")
	}
	return v.Str
}

func (p *sampleParser) number(obj gjson.Result, name string) *float64 {
	v := member(obj, name)
	if v.Type == gjson.Null {
		return nil
	}
	if v.Type != gjson.Number || !finite(v.Num) {
		p.fail(name, "must be a number")
	}
	return &v.Num
}

func (p *sampleParser) object(obj gjson.Result, name string) json.RawMessage {
	v := member(obj, name)
	if v.Type == gjson.Null {
		return nil
	}
	if !v.IsObject() {
		p.fail(name, "must be an object")
	}
	return json.RawMessage(v.Raw)
}

func (p *sampleParser) messages() []SampleMessage {
	list := member(p.obj, "messages")
	if !list.IsArray() {
		p.fail("messages", "must be an array")
		return nil
	}
	messages := []SampleMessage{}
	list.ForEach(func(_, item gjson.Result) bool {
		where := "messages[" + strconv.Itoa(len(messages)) + "]"
		if !item.IsObject() {
			p.fail(where, "must be an object")
			return false
		}
		said := member(item, "content")
		if said.Type != gjson.JSON {
			p.fail(where+".content", "must be a content block or an array of them")
			return false
		}
		blocks, err := content.ParseSampling([]byte(said.Raw))
		if err != nil {
			p.fail(where+".content", err.Error())
		}
		role := content.Role(p.text(item, "role"))
		if role != content.User && role != content.Assistant {
			p.fail(where+".role", "must be user or assistant")
		}
		messages = append(messages, SampleMessage{Role: role, Content: blocks})
		return p.err == nil
	})
	return messages
}

func (p *sampleParser) maxTokens() int {
	v := member(p.obj, "maxTokens")
	n, ok := integer(v.Raw)
	if v.Type != gjson.Number || !ok || n <= 0 || int64(int(n)) != n {
		p.fail("maxTokens", "must be a whole number above 0")
	}
	return int(n)
}

func (p *sampleParser) preferences() *ModelPreferences {
	v := member(p.obj, "modelPreferences")
	if v.Type == gjson.Null {
		return nil
	}
	if !v.IsObject() {
		p.fail("modelPreferences", "must be an object")
		return nil
	}
	prefs := &ModelPreferences{
		CostPriority:         p.number(v, "costPriority"),
		SpeedPriority:        p.number(v, "speedPriority"),
		IntelligencePriority: p.number(v, "intelligencePriority"),
	}
	member(v, "hints").ForEach(func(_, hint gjson.Result) bool {
		// A hint without a name says nothing.
		if name := p.text(hint, "name"); name != "" {
			prefs.Hints = append(prefs.Hints, name)
		}
		return true
	})
	return prefs
}

func (p *sampleParser) stopSequences() []string {
	v := member(p.obj, "stopSequences")
	if v.Type == gjson.Null {
		return nil
	}
	list, ok := stringList(v)
	if !ok {
		p.fail("stopSequences", "must be a list of strings")
	}
	return list
}

func (p *sampleParser) tools() []SampleTool {
	list := member(p.obj, "tools")
	if list.Type == gjson.Null {
		return nil
	}
	if !list.IsArray() {
		p.fail("tools", "must be an array")
		return nil
	}
	var tools []SampleTool
	list.ForEach(func(_, item gjson.Result) bool {
		t := SampleTool{
			Name: p.text(item, "name"), Title: p.text(item, "title"), Description: p.text(item, "description"),
			InputSchema: p.object(item, "inputSchema"), OutputSchema: p.object(item, "outputSchema"),
		}
		if t.Name == "" {
			p.fail("tools["+strconv.Itoa(len(tools))+"].name", "must be a string that is not empty")
		}
		tools = append(tools, t)
		return p.err == nil
	})
	return tools
}

func (p *sampleParser) toolChoice() ToolChoice {
	v := member(p.obj, "toolChoice")
	switch {
	case v.Type == gjson.Null:
		return ""
	case !v.IsObject():
		p.fail("toolChoice", "must be an object")
		return ""
	}
	if mode := p.text(v, "mode"); mode != "" {
		return ToolChoice(mode)
	}
	return ToolsAuto
}
