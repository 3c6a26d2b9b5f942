package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcpsaga/mcpsaga/content"
)

// schema is a JSON Schema that is ready to use.
type schema struct {
	*jsonschema.Resolved
	plain   *plainSchema
	formats *formats
}

// validate checks JSON text against a schema. The error is for the caller.
func validate(s *schema, raw json.RawMessage) error {
	if s.plain.accepts(raw) {
		return nil
	}
	var v any
	// Strict: names that occur twice and invalid UTF-8 are refused, so that no
	// two readers of the same arguments see different ones.
	if err := jsonv2.Unmarshal(raw, &v); err != nil {
		return errors.New("they are not valid JSON, or a name occurs twice")
	}
	if err := s.Validate(v); err != nil {
		return brief(err)
	}
	return brief(s.formats.check(v))
}

// maxComplaint is how long a complaint about a value may be, in bytes.
const maxComplaint = 500

// brief shortens the library's complaints in the middle: they show the whole value,
// between where it is and what is wrong with it.
func brief(err error) error {
	if err == nil || len(err.Error()) <= maxComplaint {
		return err
	}
	text := err.Error()
	text = text[:maxComplaint/2] + " … " + text[len(text)-maxComplaint/2:]
	return errors.New(strings.ToValidUTF8(text, ""))
}

// checkEnd verifies that a turn's code ended in the way of its kind.
func (t *Program) checkEnd(out *Outcome) error {
	switch {
	case t.Kind == KindTool && out.Result == nil:
		return errors.New("a tool ends with Text, Structured or Finish")
	case t.Kind == KindPrompt && out.Messages == nil:
		return errors.New("a prompt ends with Messages")
	case t.Kind == KindResource && out.Contents == nil:
		return errors.New("a resource ends with Contents, or with an error if there is none")
	case t.Kind == KindTool:
		return t.checkOutput(out.Result)
	}
	return nil
}

// checkOutput verifies a result against the tool's output schema. A result that
// reports an error need not fit (MCP, server/tools, output schema).
func (t *Program) checkOutput(r *content.Result) error {
	if t.output == nil || r.IsError {
		return nil
	}
	if r.StructuredContent == nil {
		return errors.New("the tool has an output schema, so its result needs structured content: end with Structured")
	}
	if err := validate(t.output, r.StructuredContent); err != nil {
		return fmt.Errorf("the structured content does not fit the tool's output schema: %w", err)
	}
	return nil
}

// JSONOptions encode and decode values as package encoding/json would, so that any type
// that authors know to work there works here, only faster.
var JSONOptions = jsonv2.JoinOptions(jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false), jsontext.EscapeForJS(false), numbers)

// StrictJSONOptions refuse what the type has no place for.
var StrictJSONOptions = jsonv2.JoinOptions(JSONOptions, jsonv2.RejectUnknownMembers(true))

// errorResult is a failure that the caller may read.
func errorResult(text string) *content.Result {
	return &content.Result{Content: content.Blocks{content.Text{Text: text}}, IsError: true}
}
