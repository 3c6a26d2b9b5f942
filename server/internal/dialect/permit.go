package dialect

import (
	"cmp"
	"context"
	"errors"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// permitted returns a program that was found, nil if it is hidden from the caller, and an error if the caller may not use
// it.
func (h *Host) permitted(ctx context.Context, t *engine.Program) (*engine.Program, error) {
	err := h.Turns.Permitted(ctx, t)
	if err == nil {
		return t, nil
	}
	h.Log.InfoContext(ctx, "request refused", "reason", "not permitted", "kind", t.Kind.String(), "name", t.Name, "error", cmp.Or(errors.Unwrap(err), err))
	if errors.Is(err, turns.ErrHidden) {
		err = nil
	}
	return nil, err
}

// Resource finds what is at a URI, with the values of its variables; nil is nothing.
func (h *Host) Resource(ctx context.Context, uri string) (t *engine.Program, variables map[string]string, err error) {
	t, variables = h.Tools.At(uri)
	t, err = h.permitted(ctx, t)
	return t, variables, err
}

// Serves reports whether there is a resource at a URI for the caller.
func (h *Host) Serves(ctx context.Context, uri string) bool {
	if h.Turns.Permit == nil || !h.Tools.Serves(uri) {
		return h.Tools.Serves(uri)
	}
	t, _, err := h.Resource(ctx, uri)
	return t != nil && err == nil
}

// Refusal is the error with which a request for a tool, a prompt or a resource by its name is to be refused before anything
// is sent, as the caller lacks a permission; nil if it is not.
func (h *Host) Refusal(ctx context.Context, m *wire.Message) *wire.Error {
	if h.Turns.Permit == nil {
		return nil
	}
	var err error
	switch name, _ := jsonview.String(jsonview.Get(m.Params, namingMembers[m.Method])); m.Method {
	case "tools/call", MethodCall:
		_, err = h.permitted(ctx, h.Tools.Find(engine.KindTool, name))
	case "prompts/get":
		_, err = h.permitted(ctx, h.Tools.Find(engine.KindPrompt, name))
	case "resources/read":
		_, _, err = h.Resource(ctx, name)
	}
	if err == nil {
		return nil
	}
	return h.Translate(ctx, m.Method, err)
}

// visible returns those items of a list that the caller may see. What has no program is for all.
func (h *Host) visible(ctx context.Context, items []Entry) (list []Entry, err error) {
	if h.Turns.Permit == nil {
		return items, nil
	}
	for _, item := range items {
		switch err := h.Turns.Permitted(ctx, item.Program); {
		case errors.Is(err, turns.ErrHidden):
			continue
		case err != nil && !turns.WantsPermission(err): // what takes a permission is there to be asked for
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}
