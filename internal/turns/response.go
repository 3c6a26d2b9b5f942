package turns

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/steps"
)

// response is how a turn ended, as it is recorded: what every dialect needs to say the same
// again, byte for byte. The token is kept beside it.
type response struct {
	Steps     []recordedStep     `json:"steps,omitempty"`
	Yielded   content.Blocks     `json:"yielded,omitzero"`
	Wake      time.Time          `json:"wake,omitzero"`
	Expires   time.Time          `json:"expires,omitzero"`
	Reworded  []string           `json:"reworded,omitempty"`
	Result    json.RawMessage    `json:"result,omitempty"`
	Messages  json.RawMessage    `json:"messages,omitempty"`
	Contents  []recordedContents `json:"contents,omitzero"`
	Disclosed bool               `json:"disclosed,omitzero"`
	Gone      tokens.Reason      `json:"gone,omitzero"`
	Failure   *recordedFailure   `json:"failure,omitzero"`
}

type recordedStep struct {
	ID     string          `json:"id"`
	Kind   steps.Kind      `json:"kind"`
	Params json.RawMessage `json:"params"`
	Needs  steps.Features  `json:"needs"`
}

type recordedContents struct {
	URI      string `json:"uri"`
	MIMEType string `json:"mimeType,omitzero"`
	Text     string `json:"text,omitzero"`
	Blob     []byte `json:"blob,omitzero"`
}

// recordedFailure is how a prompt or a resource failed.
type recordedFailure struct {
	// Kind is one of those below.
	Kind      string `json:"kind"`
	Name      string `json:"name,omitzero"`
	Text      string `json:"text,omitzero"`
	Disclosed bool   `json:"disclosed,omitzero"`
}

const (
	failedTool      = "tool"
	failedArguments = "arguments"
	failedNotFound  = "not-found"
)

// responseOptions are those with which dialects write results.
var responseOptions = jsonv2.JoinOptions(jsonv2.FormatNilSliceAsNull(false), jsonv2.Deterministic(true), jsontext.AllowInvalidUTF8(true))

// EndsWith reports whether an error is how a saga of the kind ends: prompts and resources have no results
// that say that they are errors.
func EndsWith(kind engine.Kind, err error) bool {
	if kind == engine.KindTool {
		return false
	}
	if _, broke := BrokeOff(err); broke {
		return false
	}
	return errors.As(err, new(*engine.ToolError)) || errors.As(err, new(*engine.ArgumentsError)) || errors.Is(err, engine.ErrNotFound)
}

// BrokeOff reports whether an error is of a turn that broke off rather than ended, and
// whether what the saga did was undone.
func BrokeOff(err error) (undone *engine.UndoneError, ok bool) {
	ok = errors.As(err, &undone) || errors.As(err, new(*engine.UnsettledError)) || errors.As(err, new(*engine.HaltedError)) ||
		errors.As(err, new(*engine.PositionError)) || errors.As(err, new(*engine.PanicError)) || errors.As(err, new(*engine.UnsupportedError)) ||
		errors.As(err, new(*engine.AnswerError))
	return undone, ok
}

// EncodeResponse encodes how a turn ended, err being an error for which [EndsWith] holds.
func EncodeResponse(end *End, err error) ([]byte, error) {
	r := response{Reworded: end.Reworded, Disclosed: end.Disclosed, Gone: end.Gone, Wake: end.Wake, Expires: end.Expires, Yielded: end.Yielded}
	for i := range end.Steps {
		s := &end.Steps[i]
		r.Steps = append(r.Steps, recordedStep{s.ID, s.Kind, s.Params, s.Needs})
	}
	var encoding error
	if end.Result != nil {
		r.Result, encoding = jsonv2.Marshal(end.Result, responseOptions)
	}
	if end.Messages != nil && encoding == nil {
		r.Messages, encoding = jsonv2.Marshal(end.Messages, responseOptions)
	}
	if encoding != nil {
		return nil, fmt.Errorf("the result cannot be encoded: %w", encoding)
	}
	if end.Contents != nil {
		r.Contents = make([]recordedContents, len(end.Contents))
		for i, c := range end.Contents {
			r.Contents[i] = recordedContents(c)
		}
	}
	var arguments *engine.ArgumentsError
	var failed *engine.ToolError
	switch {
	case errors.As(err, &arguments):
		r.Failure = &recordedFailure{Kind: failedArguments, Name: arguments.Name, Text: arguments.Err.Error()}
	case errors.Is(err, engine.ErrNotFound):
		r.Failure = &recordedFailure{Kind: failedNotFound}
	case errors.As(err, &failed):
		r.Failure = &recordedFailure{Kind: failedTool, Text: failed.Text, Disclosed: failed.Disclosed}
	}
	return jsonv2.Marshal(r, jsontext.AllowInvalidUTF8(true)) // as dialects do
}

// DecodeResponse returns what [EncodeResponse] has encoded: an end, or how a prompt or a resource failed.
func DecodeResponse(raw []byte) (end End, failure, err error) {
	var r response
	if err := jsonv2.Unmarshal(raw, &r); err != nil {
		return end, nil, fmt.Errorf("a recorded response cannot be read: %w", err)
	}
	end.Reworded, end.Disclosed, end.Gone, end.recorded = r.Reworded, r.Disclosed, r.Gone, true
	end.Wake, end.Expires, end.Yielded = r.Wake, r.Expires, r.Yielded
	for _, s := range r.Steps {
		end.Steps = append(end.Steps, steps.Step{ID: s.ID, Kind: s.Kind, Params: s.Params, Needs: s.Needs})
	}
	if r.Result != nil {
		if end.Result, err = decodeResult(r.Result); err != nil {
			return end, nil, err
		}
	}
	if r.Messages != nil {
		if end.Messages, err = decodeMessages(r.Messages); err != nil {
			return end, nil, err
		}
	}
	if r.Contents != nil {
		end.Contents = make([]content.ResourceContents, len(r.Contents))
		for i, c := range r.Contents {
			end.Contents[i] = content.ResourceContents(c)
		}
	}
	if f := r.Failure; f != nil {
		switch f.Kind {
		case failedArguments:
			failure = &engine.ArgumentsError{Name: f.Name, Err: errors.New(f.Text)}
		case failedNotFound:
			failure = engine.ErrNotFound
		default: // of a prompt or a resource: a tool that fails has a result
			failure = &engine.ToolError{Text: f.Text, Disclosed: f.Disclosed}
		}
	}
	return end, failure, nil
}

func decodeResult(raw []byte) (*content.Result, error) {
	var v struct {
		content.Result
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if err := jsonv2.Unmarshal(raw, &v); err != nil {
		return nil, fmt.Errorf("a recorded result cannot be read: %w", err)
	}
	r := &v.Result
	if v.Meta != nil {
		r.Meta = make(map[string]any, len(v.Meta))
	}
	for name, v := range v.Meta {
		r.Meta[name] = v
		if report := new(engine.UndoReport); name == engine.UndoMetaKey && jsonv2.Unmarshal(v, report) == nil {
			r.Meta[name] = report
		}
	}
	return r, nil
}

func decodeMessages(raw []byte) (*engine.Messages, error) {
	var v struct {
		Description string `json:"description"`
		Messages    []struct {
			Role    content.Role    `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	err := jsonv2.Unmarshal(raw, &v)
	m := &engine.Messages{Description: v.Description, Messages: make([]content.Message, len(v.Messages))}
	for i := 0; i < len(v.Messages) && err == nil; i++ {
		m.Messages[i].Role = v.Messages[i].Role
		m.Messages[i].Content, err = content.ParseBlock(v.Messages[i].Content)
	}
	if err != nil {
		return nil, fmt.Errorf("a recorded message cannot be read: %w", err)
	}
	return m, nil
}

// UndoReport is what the result of a saga says of its effects, or nil.
func UndoReport(r *content.Result) *engine.UndoReport {
	if r == nil {
		return nil
	}
	report, _ := r.Meta[engine.UndoMetaKey].(*engine.UndoReport)
	return report
}
