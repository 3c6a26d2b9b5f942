package client

import (
	"cmp"
	"context"
	stdjson "encoding/json"
)

// protocolVersion is the MCP revision offered in initialize.
const protocolVersion = "2025-11-25"

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

// implementationOf introduces a client.
func implementationOf(o Options) implementation {
	return implementation{cmp.Or(o.Name, "mcpsaga"), cmp.Or(o.Version, "1")}
}

// initializeParams are the parameters of initialize. The dialects spoken here need
// no capabilities: what a client cannot answer it says when it is asked.
func initializeParams(o Options) any {
	return struct {
		ProtocolVersion string         `json:"protocolVersion"`
		Capabilities    map[string]any `json:"capabilities"`
		ClientInfo      implementation `json:"clientInfo"`
	}{protocolVersion, map[string]any{}, implementationOf(o)}
}

// query sends a request that changes nothing and decodes its result.
func (c *Client) query(ctx context.Context, method string, params, result any) error {
	raw, err := c.send(ctx, request{method: method, params: params, harmless: true})
	if err != nil {
		return err
	}
	return read(raw, result, "the server's answer to "+method)
}
