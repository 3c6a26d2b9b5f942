package client

import (
	"cmp"
	"context"
	stdjson "encoding/json"
)

// protocolVersion is the MCP revision offered in initialize.
const protocolVersion = "2025-11-25"

// Tool describes a tool of the server. All texts are the server's.
type Tool struct {
	// Name is what [Client.Call] takes.
	Name string `json:"name"`
	// Title is a name to show, or empty.
	Title string `json:"title,omitempty"`
	// Description is for the model and the user.
	Description string `json:"description,omitempty"`
	// InputSchema is the JSON schema of the arguments.
	InputSchema stdjson.RawMessage `json:"inputSchema"`
	// OutputSchema is the JSON schema of the structured result, or nil.
	OutputSchema stdjson.RawMessage `json:"outputSchema,omitempty"`
	// Meta is MCP's _meta, by namespaced key. A server marks its sagas there.
	Meta map[string]stdjson.RawMessage `json:"_meta,omitempty"`
}

// sagaMarker is the key in a tool's _meta that says how to call it.
const sagaMarker = "io.github.mcpsaga/saga"

// IsSaga reports whether the server says that the tool may ask the client for
// something before it has a result. [Client.Call] is for these.
func (t *Tool) IsSaga() bool {
	_, marked := t.Meta[sagaMarker]
	return marked
}

// ServerInfo is how a server introduces itself.
type ServerInfo struct {
	// Name and Version are the server's.
	Name, Version string
	// ProtocolVersion is the MCP revision the server chose.
	ProtocolVersion string
	// Instructions are the server's advice to the model, or empty.
	Instructions string
	// Capabilities are what the server can do, by capability name.
	Capabilities map[string]stdjson.RawMessage
}

// Tools lists the server's tools, all pages of them.
func (c *Client) Tools(ctx context.Context) ([]Tool, error) {
	return list[Tool](ctx, c, "tools/list", "tools", false)
}

// Ping asks whether the server answers at all.
func (c *Client) Ping(ctx context.Context) error {
	return c.query(ctx, "ping", struct{}{}, &struct{}{})
}

// Initialize introduces the client to the server and the server to the client.
// Calls do not need it.
func (c *Client) Initialize(ctx context.Context) (*ServerInfo, error) {
	var wire struct {
		ProtocolVersion string                        `json:"protocolVersion"`
		Capabilities    map[string]stdjson.RawMessage `json:"capabilities"`
		ServerInfo      implementation                `json:"serverInfo"`
		Instructions    string                        `json:"instructions"`
	}
	if err := c.query(ctx, "initialize", initializeParams(c.options), &wire); err != nil {
		return nil, err
	}
	return &ServerInfo{
		Name: wire.ServerInfo.Name, Version: wire.ServerInfo.Version,
		ProtocolVersion: wire.ProtocolVersion, Instructions: wire.Instructions, Capabilities: wire.Capabilities,
	}, nil
}

// implementation is MCP's Implementation.
type implementation struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// initializeParams are the parameters of initialize. The dialects spoken here need
// no capabilities: what a client cannot answer it says when it is asked.
func initializeParams(o Options) any {
	return struct {
		ProtocolVersion string         `json:"protocolVersion"`
		Capabilities    map[string]any `json:"capabilities"`
		ClientInfo      implementation `json:"clientInfo"`
	}{protocolVersion, map[string]any{}, implementation{cmp.Or(o.Name, "mcpsaga"), cmp.Or(o.Version, "1")}}
}

// query sends a request that changes nothing and decodes its result.
func (c *Client) query(ctx context.Context, method string, params, result any) error {
	raw, err := c.send(ctx, request{method: method, params: params, harmless: true})
	if err != nil {
		return err
	}
	return read(raw, result, "the server's answer to "+method)
}
