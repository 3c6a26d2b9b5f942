package steps

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// AppendParams appends the request as the parameters of sampling/createMessage to
// dst. The same request always gives the same bytes. The error is a
// *[QuestionError], for what Verify reports or for content that cannot be written.
func (r *SampleRequest) AppendParams(dst []byte) ([]byte, error) {
	if err := r.Verify(); err != nil {
		return dst, err
	}
	out, err := appendMessages(append(dst, `{"messages":`...), r.Messages)
	if err != nil {
		return dst, err
	}
	out = append(out, `,"maxTokens":`...)
	out = strconv.AppendInt(out, int64(r.MaxTokens), 10)
	out = appendText(out, "systemPrompt", r.SystemPrompt)
	if r.ModelPreferences != nil {
		out = r.ModelPreferences.append(append(out, `,"modelPreferences":`...))
	}
	out = appendLimit(out, "temperature", r.Temperature)
	if len(r.StopSequences) > 0 {
		out = appendStrings(append(out, `,"stopSequences":`...), r.StopSequences)
	}
	if r.Metadata != nil {
		out = appendRaw(append(out, `,"metadata":`...), r.Metadata)
	}
	out = appendText(out, "includeContext", string(r.IncludeContext))
	if len(r.Tools) > 0 {
		out = appendTools(append(out, `,"tools":`...), r.Tools)
	}
	if r.ToolChoice != "" {
		out = append(out, `,"toolChoice":{"mode":`...)
		out = append(appendString(out, string(r.ToolChoice)), '}')
	}
	return append(out, '}'), nil
}

// MarshalJSON implements encoding/json.Marshaler: see [SampleRequest.AppendParams].
func (r SampleRequest) MarshalJSON() ([]byte, error) { return r.AppendParams(nil) }

func appendMessages(dst []byte, messages []SampleMessage) ([]byte, error) {
	dst = append(dst, '[')
	for i, m := range messages {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"role":`...)
		dst = appendString(dst, string(m.Role))
		dst = append(dst, `,"content":`...)
		var err error
		if dst, err = m.Content.AppendSampling(dst); err != nil {
			return nil, &QuestionError{Where: "Messages[" + strconv.Itoa(i) + "]", Reason: err.Error()}
		}
		dst = append(dst, '}')
	}
	return append(dst, ']'), nil
}

func (p *ModelPreferences) append(dst []byte) []byte {
	start := len(dst)
	if len(p.Hints) > 0 {
		dst = append(dst, `,"hints":`...)
		sep := byte('[')
		for _, name := range p.Hints {
			dst = append(dst, sep)
			dst = append(dst, `{"name":`...)
			dst = append(appendString(dst, name), '}')
			sep = ','
		}
		dst = append(dst, ']')
	}
	dst = appendLimit(dst, "costPriority", p.CostPriority)
	dst = appendLimit(dst, "speedPriority", p.SpeedPriority)
	dst = appendLimit(dst, "intelligencePriority", p.IntelligencePriority)
	if len(dst) == start {
		return append(dst, "{}"...)
	}
	dst[start] = '{' // instead of the first member's comma
	return append(dst, '}')
}

func appendTools(dst []byte, tools []SampleTool) []byte {
	sep := byte('[')
	for _, t := range tools {
		dst = append(dst, sep)
		dst = append(dst, `{"name":`...)
		dst = appendString(dst, t.Name)
		dst = appendText(dst, "title", t.Title)
		dst = appendText(dst, "description", t.Description)
		dst = append(dst, `,"inputSchema":`...)
		if t.InputSchema == nil {
			dst = append(dst, `{"type":"object"}`...)
		} else {
			dst = appendRaw(dst, t.InputSchema)
		}
		if t.OutputSchema != nil {
			dst = appendRaw(append(dst, `,"outputSchema":`...), t.OutputSchema)
		}
		dst = append(dst, '}')
		sep = ','
	}
	return append(dst, ']')
}

// appendRaw appends JSON that has been verified, made compact.
func appendRaw(dst, raw []byte) []byte {
	dst, _ = jsontext.AppendFormat(dst, raw)
	return dst
}
