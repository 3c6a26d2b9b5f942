package engine

import (
	"errors"
	"fmt"

	"github.com/mcpsaga/mcpsaga/content"
)

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
	if err := t.output.Validate(r.StructuredContent); err != nil {
		return fmt.Errorf("the structured content does not fit the tool's output schema: %w", err)
	}
	return nil
}

// errorResult is a failure that the caller may read.
func errorResult(text string) *content.Result {
	return &content.Result{Content: content.Blocks{content.Text{Text: text}}, IsError: true}
}
