package server

import (
	"bytes"
	"net/http"
	"slices"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// era is a family of protocol revisions with its own rules on the wire.
type era uint8

const (
	// eraHandshake: MCP 2024-11-05 to 2025-11-25: a handshake, sessions, requests
	// from the server to the client.
	eraHandshake era = iota
	// eraStateless: MCP 2026-07-28: every request stands by itself.
	eraStateless
	// eraSaga: the methods of the saga proposal, which need neither.
	eraSaga
)

// versionKey is where a request of the stateless era names its revision; that it
// is there is what makes it one (MCP 2026-07-28, basic/versioning).
const versionKey = "io.modelcontextprotocol/protocolVersion"

// eraOf decides by whose rules a message is served. header is nil on stdio.
func eraOf(m *wire.Message, header http.Header) era {
	// Most requests of the other eras do not hold the key anywhere.
	if bytes.Contains(m.Params, []byte(versionKey)) && jsonview.Get(jsonview.Get(m.Params, "_meta"), versionKey) != nil {
		return eraStateless
	}
	if m.Method == "tools/callSaga" || m.Method == "tools/resumeSaga" || m.Method == "tools/cancelSaga" {
		return eraSaga
	}
	if modern(header) {
		return eraStateless
	}
	return eraHandshake
}

// modern reports whether the version header names a revision without handshakes,
// which is every one that is not known to have one.
func modern(header http.Header) bool {
	v := header.Values(wire.VersionHeader)
	return len(v) > 0 && !slices.Contains(handshakeVersions, v[0])
}
