package server

import (
	"context"
	"encoding/json"

	"github.com/mcpsaga/mcpsaga/internal/engine"
)

// cacheForAll are the caching hints of what is the same for everybody (MCP
// 2026-07-28, server/utilities/caching). Clients that listen hear of changes at
// once, the others within this time.
const cacheForAll = `,"ttlMs":60000,"cacheScope":"public"`

// dontCache are those of what may depend on the caller or on the time.
const dontCache = `,"ttlMs":0,"cacheScope":"private"`

// discover answers server/discover.
func (d *stateless) discover(context.Context, *statelessRequest) ([]byte, error) {
	b, err := marshal(struct {
		Versions     []string       `json:"supportedVersions"`
		Capabilities map[string]any `json:"capabilities"`
		Instructions string         `json:"instructions,omitzero"`
	}{[]string{statelessVersion}, d.capabilities(), d.opts.Instructions})
	if err != nil {
		return nil, err
	}
	return d.finish(append(opened(b), cacheForAll...), resultComplete), nil
}

// capabilities are what the server offers; methods of what it does not offer are
// not found.
func (d *stateless) capabilities() map[string]any {
	type object = map[string]any
	c := object{"experimental": object{SagaMarker: object{}}}
	if len(d.tools.List()) > 0 {
		c["tools"] = object{"listChanged": true}
	}
	if len(d.tools.Of(engine.KindPrompt)) > 0 {
		c["prompts"] = object{"listChanged": true}
	}
	if len(d.tools.Of(engine.KindResource)) > 0 {
		c["resources"] = object{"listChanged": true, "subscribe": true}
	}
	if d.completes() {
		c["completions"] = object{}
	}
	if len(c) > 1 {
		c["logging"] = object{} // whatever is called can log
	}
	return c
}

// list returns the method that lists items under a name.
func (d *stateless) list(name string, items []json.RawMessage) func(context.Context, *statelessRequest) ([]byte, error) {
	return func(_ context.Context, r *statelessRequest) ([]byte, error) {
		var p struct {
			Cursor string `json:"cursor"`
		}
		if fail := decodeParams(r.params, &p); fail != nil {
			return nil, fail
		}
		page, next, fail := d.catalog.page(items, p.Cursor)
		if fail != nil {
			return nil, fail
		}
		return d.finish(append(appendList(name, page, next), cacheForAll...), resultComplete), nil
	}
}
