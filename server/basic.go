package server

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// SagaMarker is the key in a tool's _meta, and in the server's experimental
// capabilities, that says: this is a saga, call it with tools/callSaga.
const SagaMarker = "io.github.mcpsaga/saga"

// Protocol versions with a handshake that this server answers, newest first.
var handshakeVersions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

type implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitzero"`
	Version string `json:"version"`
}

// initialize lets a plain MCP client look around (MCP 2025-11-25,
// basic/lifecycle). It opens no session: nothing is remembered of it.
func (s *Server) initialize(_ context.Context, _ caller, params jsontext.Value) (json.RawMessage, error) {
	var p struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	if err := decodeParams(params, &p); err != nil {
		return nil, err
	}
	version := handshakeVersions[0]
	if slices.Contains(handshakeVersions, p.ProtocolVersion) {
		version = p.ProtocolVersion
	}
	type object map[string]any
	return marshal(struct {
		ProtocolVersion string         `json:"protocolVersion"`
		Capabilities    object         `json:"capabilities"`
		ServerInfo      implementation `json:"serverInfo"`
		Instructions    string         `json:"instructions,omitzero"`
	}{
		version,
		object{"tools": object{}, "experimental": object{SagaMarker: object{}}},
		implementation{s.opts.Name, s.opts.Title, s.opts.Version},
		s.opts.Instructions,
	})
}

func (s *Server) ping(context.Context, caller, jsontext.Value) (json.RawMessage, error) {
	return json.RawMessage("{}"), nil
}

func (s *Server) toolsList(_ context.Context, _ caller, params jsontext.Value) (json.RawMessage, error) {
	var p struct {
		Cursor string `json:"cursor"`
	}
	if err := decodeParams(params, &p); err != nil {
		return nil, err
	}
	items, next, fail := s.catalog.page(s.catalog.plainTools, p.Cursor)
	if fail != nil {
		return nil, fail
	}
	return append(appendList("tools", items, next), '}'), nil
}
