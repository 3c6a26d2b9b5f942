package handshake

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// codeNotFound says that there is no such resource; MCP 2026-07-28 dropped it.
const codeNotFound = -32002

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
		return nil, wire.NewError(wire.CodeInvalidParams, "there is no prompt of that name; prompts/list lists the prompts of this server")
	}
	return c.promptResult(c.driveStrings(ctx, t, p.Arguments))
}

// promptResult is the response to prompts/get.
func (c *call) promptResult(out turns.End, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, c.plainError(err)
	}
	messages := *out.Messages
	messages.Messages = make([]content.Message, len(out.Messages.Messages))
	for i, m := range out.Messages.Messages {
		m.Content = c.peer.revision.Block(m.Content)
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
	return c.resourceResult(uri, out, err)
}

// resourceResult is the response to resources/read.
func (c *call) resourceResult(uri string, out turns.End, err error) (json.RawMessage, error) {
	if errors.Is(err, saga.ErrNotFound) {
		return nil, notFound(uri)
	}
	if err != nil {
		return nil, c.plainError(err)
	}
	return append(dialect.AppendContents([]byte(`{"contents":`), out.Contents), '}'), nil
}

// plainError is an error of a prompt or a resource. Their results cannot say that they are
// errors, so what a tool's result would say is an error here.
func (c *call) plainError(err error) error {
	if r := c.stopped(err); r != nil {
		return wire.NewError(wire.CodeInvalidRequest, r.Content.Text())
	}
	return err
}

// driveStrings drives a prompt or a resource.
func (c *call) driveStrings(ctx context.Context, t *engine.Program, args map[string]string) (turns.End, error) {
	raw := json.RawMessage("{}")
	if len(args) > 0 {
		var err error
		if raw, err = wire.Marshal(args); err != nil {
			return turns.End{}, err
		}
	}
	return c.drive(ctx, t, raw, nil)
}

func notFound(uri string) *wire.Error {
	return wire.NewError(codeNotFound, "resource not found").WithData(`{"uri":`, uri)
}
