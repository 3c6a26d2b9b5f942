package server

import (
	"context"
	"encoding/json"
	"errors"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
)

// codeNotFound says that there is no such resource; MCP 2026-07-28 dropped it.
const codeNotFound = -32002

func (c *legacyCall) toolsCall(ctx context.Context) (json.RawMessage, error) {
	var p struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	}
	if fail := decodeParams(c.params, &p); fail != nil {
		return nil, fail
	}
	t := c.tools.Lookup(p.Name)
	if t == nil {
		return nil, rpcError(jsonrpc2.CodeInvalidParams, "there is no tool of that name; tools/list has those there are")
	}
	if p.Arguments != nil && p.Arguments.Kind() != '{' {
		return nil, rpcError(jsonrpc2.CodeInvalidParams, "params.arguments must be an object")
	}
	out, err := c.drive(ctx, t, json.RawMessage(p.Arguments))
	if err != nil {
		if out.Result = c.stopped(err); out.Result == nil {
			return nil, err
		}
	}
	return marshal(plainResult(c.peer.revision, out.Result))
}

func (c *legacyCall) promptsGet(ctx context.Context) (json.RawMessage, error) {
	var p struct {
		Name      string            `json:"name"`
		Arguments map[string]string `json:"arguments"`
	}
	if fail := decodeParams(c.params, &p); fail != nil {
		return nil, fail
	}
	t := c.tools.Find(engine.KindPrompt, p.Name)
	if t == nil {
		return nil, rpcError(jsonrpc2.CodeInvalidParams, "there is no prompt of that name; prompts/list has those there are")
	}
	out, err := c.driveStrings(ctx, t, p.Arguments)
	if err != nil {
		return nil, err
	}
	messages := *out.Messages
	messages.Messages = make([]content.Message, len(out.Messages.Messages))
	for i, m := range out.Messages.Messages {
		m.Content = plainBlock(c.peer.revision, m.Content)
		messages.Messages[i] = m
	}
	return marshal(messages)
}

func (c *legacyCall) resourcesRead(ctx context.Context) (json.RawMessage, error) {
	uri, fail := c.uri()
	if fail != nil {
		return nil, fail
	}
	t, variables := c.tools.At(uri)
	if t == nil {
		return nil, notFound(uri)
	}
	out, err := c.driveStrings(ctx, t, variables)
	if errors.Is(err, saga.ErrNotFound) {
		return nil, notFound(uri)
	}
	if err != nil {
		return nil, err
	}
	return append(appendContents([]byte(`{"contents":`), out.Contents), '}'), nil
}

// driveStrings drives a prompt or a resource. Their results cannot say that they
// are errors, so what a tool's result would say is an error here.
func (c *legacyCall) driveStrings(ctx context.Context, t *engine.Program, args map[string]string) (engine.Outcome, error) {
	raw := json.RawMessage("{}")
	if len(args) > 0 {
		var err error
		if raw, err = marshal(args); err != nil {
			return engine.Outcome{}, err
		}
	}
	out, err := c.drive(ctx, t, raw)
	if err != nil {
		if r := c.stopped(err); r != nil {
			return out, rpcError(jsonrpc2.CodeInvalidRequest, r.Content.Text())
		}
	}
	return out, err
}

func notFound(uri string) *jsonrpc2.Error {
	e := rpcError(codeNotFound, "resource not found")
	data := json.RawMessage(append(appendString([]byte(`{"uri":`), uri), '}'))
	e.Data = &data
	return e
}

// legacyError is what a client of this era learns of an error.
func (d *handshake) legacyError(ctx context.Context, name string, err error) *jsonrpc2.Error {
	var arguments *engine.ArgumentsError
	var told *engine.ToolError
	switch {
	case errors.As(err, &arguments):
		return rpcError(jsonrpc2.CodeInvalidParams, arguments.Error())
	case errors.As(err, &told):
		return d.toolError(ctx, name, told)
	case errors.Is(err, errSessionEnded), errors.Is(err, errStopping):
		return rpcError(jsonrpc2.CodeInternalError, err.Error())
	}
	return d.wireError(ctx, name, err)
}

// plainResult makes a tool's result one that a revision has.
func plainResult(r revision, in *content.Result) *content.Result {
	out := *in
	out.Content = plainBlocks(r, in.Content)
	structured := jsontext.Value(in.StructuredContent)
	if structured == nil || r.structured() && structured.Kind() == '{' {
		return &out
	}
	// Only objects could be structured results (SEP-2106 allowed the rest). Let a
	// model see what it would.
	out.StructuredContent = nil
	if len(out.Content) == 0 {
		out.Content = content.Blocks{content.Text{Text: string(structured)}}
	}
	return &out
}

func plainBlocks(r revision, in content.Blocks) content.Blocks {
	if r.structured() {
		return in
	}
	out := make(content.Blocks, len(in))
	for i, b := range in {
		out[i] = plainBlock(r, b)
	}
	return out
}

// plainBlock replaces a block that a revision does not have by text.
func plainBlock(r revision, b content.Block) content.Block {
	if r.structured() || b == nil {
		return b
	}
	switch kind := b.BlockType(); {
	case kind == "audio" && !r.audio():
		return content.Text{Text: "(A sound that this version of the protocol cannot carry.)"}
	case kind == "resource_link":
		var link struct {
			URI, Name, Title, Description string
		}
		raw, err := marshal(b)
		if err != nil || jsonv2.Unmarshal(raw, &link, jsonv2.MatchCaseInsensitiveNames(true)) != nil {
			return b
		}
		text := link.Name
		if link.Title != "" {
			text = link.Title
		}
		if link.Description != "" {
			text += " (" + link.Description + ")"
		}
		return content.Text{Text: text + ": " + link.URI}
	}
	return b
}
