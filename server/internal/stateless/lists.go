package stateless

import (
	"context"
	"encoding/json"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// cacheForAll are the caching hints of what is the same for everybody (MCP
// 2026-07-28, server/utilities/caching). Clients that listen hear of changes at
// once, the others within this time.
const cacheForAll = `,"ttlMs":60000,"cacheScope":"public"`

// dontCache are those of what may depend on the caller or on the time.
const dontCache = `,"ttlMs":0,"cacheScope":"private"`

// discover answers server/discover.
func (d *stateless) discover(context.Context, *request) ([]byte, error) {
	b, err := wire.Marshal(struct {
		Versions     []string       `json:"supportedVersions"`
		Capabilities map[string]any `json:"capabilities"`
		Instructions string         `json:"instructions,omitzero"`
	}{[]string{version}, d.capabilities(), d.Instructions})
	if err != nil {
		return nil, err
	}
	return d.finish(append(opened(b), cacheForAll...), resultComplete), nil
}

// capabilities are what the server offers; methods of what it does not offer are
// not found.
func (d *stateless) capabilities() map[string]any {
	type object = map[string]any
	c := object{"experimental": object{dialect.SagaMarker: object{}}}
	if len(d.Tools.Of(engine.KindTool)) > 0 {
		c["tools"] = object{"listChanged": true}
	}
	if len(d.Tools.Of(engine.KindPrompt)) > 0 {
		c["prompts"] = object{"listChanged": true}
	}
	if len(d.Tools.Of(engine.KindResource)) > 0 {
		c["resources"] = object{"listChanged": true, "subscribe": true}
	}
	if d.Completes() {
		c["completions"] = object{}
	}
	if len(c) > 1 {
		c["logging"] = object{} // whatever is called can log
	}
	return c
}

// list returns the method that lists items under a name.
func (d *stateless) list(name string, items []json.RawMessage) func(context.Context, *request) ([]byte, error) {
	return func(_ context.Context, r *request) ([]byte, error) {
		var p struct {
			Cursor string `json:"cursor"`
		}
		if rerr := wire.DecodeParams(r.Message.Params, &p); rerr != nil {
			return nil, rerr
		}
		page, next, rerr := d.Catalogue.Page(items, p.Cursor)
		if rerr != nil {
			return nil, rerr
		}
		return d.finish(append(dialect.AppendList(name, page, next), cacheForAll...), resultComplete), nil
	}
}

// complete answers completion/complete.
func (d *stateless) complete(ctx context.Context, r *request) ([]byte, error) {
	b, err := d.Complete(ctx, r.Message.Params)
	if err != nil {
		return nil, err
	}
	return d.finish(opened(b), resultComplete), nil
}
