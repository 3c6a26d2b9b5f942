package program

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/sessionid"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// session begins a session at a server and returns its id.
func session(t *testing.T, address string) string {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"elicitation":{},"sampling":{}},"clientInfo":{"name":"x","version":"1"}}}`))
	require.NoError(t, err)
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json, text/event-stream")
	response, err := http.DefaultClient.Do(q)
	require.NoError(t, err)
	defer response.Body.Close()
	id := response.Header.Get("Mcp-Session-Id")
	require.NotEmpty(t, id, response.Status)
	return id
}

// The id of a session is explained, and lasts as long as the server was told.
func TestExplainSession(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.ok("keys", "new", "--keyset", "k.json")
	address, _ := h.serve("--keyset", "k.json", "--session-ttl", "90m")
	out := h.ok("token", "explain", session(t, address), "--keyset", "k.json")
	assert.Contains(t, out, `"madeFor": "a session"`)
	assert.Contains(t, out, `, the primary"`)
	assert.NotContains(t, out, `"tool"`)
	var explained struct{ Expires time.Time }
	require.NoError(t, json.Unmarshal([]byte(out), &explained))
	assert.WithinDuration(t, time.Now().Add(90*time.Minute), explained.Expires, time.Minute)

	c := sealer(t, h)
	late := time.Now().Add(-time.Hour)
	terms := sessionid.Terms{Revision: 2}
	id, err := c.Seal(tokens.Binding{Purpose: sessionid.Purpose}, late, &tokens.Contents{Claims: tokens.Claims{IssuedAt: late, ExpiresAt: late}, State: terms.Bytes()})
	require.NoError(t, err)
	out, stderr, code := h.run("token", "explain", id, "--keyset", "k.json")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "(expired)")
	assert.Contains(t, out, "a session")
}

// sealer seals with the keys in k.json.
func sealer(t *testing.T, h *home) *tokens.Codec {
	t.Helper()
	keys, err := codec.LoadKeyset(filepath.Join(h.dir, "k.json"))
	require.NoError(t, err)
	c, err := tokens.New(keys, tokens.Options{})
	require.NoError(t, err)
	return c
}

// The token that resumes a request is explained, but for whose it is.
func TestExplainResumeToken(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.ok("keys", "new", "--keyset", "k.json")
	c := sealer(t, h)
	seal := func(principal string) string {
		token, err := c.Seal(tokens.Binding{Purpose: sessionid.ResumePurpose, Principal: principal}, time.Now(), &tokens.Contents{State: []byte(`{"t":"the-task","i":"\"req-7\""}`)})
		require.NoError(t, err)
		return token
	}
	out := h.ok("token", "explain", seal(""), "--keyset", "k.json")
	assert.Contains(t, out, `"madeFor": "resuming a request"`)
	assert.NotContains(t, out, "expires")
	assert.NotContains(t, out, "the-task")
	out, stderr, code := h.run("token", "explain", seal("ann"), "--keyset", "k.json")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "authentication")
	assert.NotContains(t, stderr, "a server would refuse this token", "it takes it from ann")
	assert.Contains(t, stderr, "cannot say whether")
	assert.NotContains(t, out, "ann")
}

// The token for the next part of a result is that of a saga.
func TestExplainTokenOfAPart(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.ok("keys", "new", "--keyset", "k.json")
	pos := engine.Position{ID: [16]byte{1}, Turn: 2, Tool: "search", Revision: 3}
	parts := pos.Encode()
	claims := tokens.Claims{ID: tokens.ID(pos.ID), Turn: pos.Turn, Tool: "search", Revision: pos.Revision}
	token, err := sealer(t, h).Seal(tokens.Binding{Purpose: turns.Paged.Purpose}, time.Now(), &tokens.Contents{Claims: claims, State: parts.Body, Apart: parts.State, Plain: parts.Effects, Secret: parts.Secrets})
	require.NoError(t, err)
	out := h.ok("token", "explain", token, "--keyset", "k.json")
	assert.Contains(t, out, `"madeFor": "the next part of a result"`)
	assert.Contains(t, out, `"tool": "search"`)
	assert.Contains(t, out, `"revision": 3`)
	assert.NotContains(t, out, "request")
}
