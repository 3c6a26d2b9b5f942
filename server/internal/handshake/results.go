package handshake

import (
	"context"
	"encoding/json"
	"errors"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// codeNotFound says that there is no such resource; MCP 2026-07-28 dropped it.
const codeNotFound = -32002

func (c *call) toolsCall(ctx context.Context) (json.RawMessage, error) {
	var p struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	}
	if rerr := wire.DecodeParams(c.Message.Params, &p); rerr != nil {
		return nil, rerr
	}
	t, args, err := c.Tool(p.Name, p.Arguments)
	if err != nil {
		return nil, err
	}
	out, err := c.drive(ctx, t, args)
	if err != nil {
		if out.Result = c.stopped(err); out.Result == nil {
			return nil, err
		}
	}
	return wire.Marshal(plainResult(c.peer.revision, out.Result))
}

func (c *call) promptsGet(ctx context.Context) (json.RawMessage, error) {
	var p struct {
		Name      string            `json:"name"`
		Arguments map[string]string `json:"arguments"`
	}
	if rerr := wire.DecodeParams(c.Message.Params, &p); rerr != nil {
		return nil, rerr
	}
	t := c.Tools.Find(engine.KindPrompt, p.Name)
	if t == nil {
		return nil, wire.NewError(wire.CodeInvalidParams, "there is no prompt of that name; prompts/list has those there are")
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
	return wire.Marshal(messages)
}

func (c *call) resourcesRead(ctx context.Context) (json.RawMessage, error) {
	uri, rerr := c.uri()
	if rerr != nil {
		return nil, rerr
	}
	t, variables := c.Tools.At(uri)
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
	return append(dialect.AppendContents([]byte(`{"contents":`), out.Contents), '}'), nil
}

// driveStrings drives a prompt or a resource. Their results cannot say that they
// are errors, so what a tool's result would say is an error here.
func (c *call) driveStrings(ctx context.Context, t *engine.Program, args map[string]string) (engine.Outcome, error) {
	raw := json.RawMessage("{}")
	if len(args) > 0 {
		var err error
		if raw, err = wire.Marshal(args); err != nil {
			return engine.Outcome{}, err
		}
	}
	out, err := c.drive(ctx, t, raw)
	if err != nil {
		if r := c.stopped(err); r != nil {
			return out, wire.NewError(wire.CodeInvalidRequest, r.Content.Text())
		}
	}
	return out, err
}

func notFound(uri string) *wire.Error {
	return wire.NewError(codeNotFound, "resource not found").WithMember("uri", wire.AppendString(nil, uri))
}

// translate is what a client of this era learns of an error.
func (d *handshake) translate(ctx context.Context, name string, err error) *wire.Error {
	var arguments *engine.ArgumentsError
	var told *engine.ToolError
	switch {
	case errors.As(err, &arguments):
		return wire.NewError(wire.CodeInvalidParams, arguments.Error())
	case errors.As(err, &told):
		return dialect.ToolError(told)
	case errors.Is(err, dialect.ErrSessionEnded), errors.Is(err, dialect.ErrStopping):
		return wire.NewError(wire.CodeInternalError, err.Error())
	}
	return d.Translate(ctx, name, err)
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
		raw, err := wire.Marshal(b)
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
