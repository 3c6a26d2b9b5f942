package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
)

func TestMemoryIsWiped(t *testing.T) {
	var m memory
	room := m.lend()
	response := append(*room, "a secret of somebody"...)
	m.takeBack(room, response)
	assert.NotContains(t, string(response), "s")

	// Also what was begun and then replaced by something shorter.
	room = m.lend()
	begun := append(*room, "a secret of somebody"...)
	m.takeBack(room, append((*room)[:0], "an error"...))
	assert.NotContains(t, string(begun), "s")
	assert.Empty(t, *m.lend())
}

// holder is a writer whose client has gone while it was at work on what it got.
type holder struct {
	http.ResponseWriter
	got []byte
}

func (h *holder) Write(b []byte) (int, error) {
	h.got = b
	return 0, errors.New("the client has gone")
}

func TestMemoryThatAFailedWriterMayHoldIsNotLentAgain(t *testing.T) {
	l := newLayered(t)
	handler := l.s.Handler()
	mine := map[string]string{
		"saga":      `{"jsonrpc":"2.0","id":1,"method":"tools/resumeSaga","params":{"sagaToken":"mine"}}`,
		"stateless": `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
	}
	for name, body := range mine {
		for range 20 { // a pool may lose what it holds
			post := func(w http.ResponseWriter) {
				r := httptest.NewRequest(http.MethodPost, Endpoint, strings.NewReader(body))
				r.Host = "localhost"
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Accept", "application/json, text/event-stream")
				if name == "stateless" {
					r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
					r.Header.Set("Mcp-Method", "tools/list")
				}
				handler.ServeHTTP(w, r)
			}
			h := &holder{ResponseWriter: httptest.NewRecorder()}
			post(h)
			before := string(h.got)
			require.Contains(t, before, `"id":1`, name)
			other := httptest.NewRecorder()
			post(other)
			require.Equal(t, before, other.Body.String(), name)
			require.Equal(t, before, string(h.got), name)
			b := l.s.memory.lend()
			_ = append((*b)[:0], "what somebody else is told"...)
			require.Equal(t, before, string(h.got), name)
		}
	}
}

func TestLargeMemoryIsNotKept(t *testing.T) {
	var m memory
	for range 100 {
		room := m.lend()
		m.takeBack(room, append(*room, make([]byte, largestKept+1)...))
		require.LessOrEqual(t, cap(*m.lend()), largestKept)
	}
}

func TestToolResultsAreWrittenAsByReflection(t *testing.T) {
	for _, r := range []*content.Result{
		content.Resultf("Done."), content.Resultf(""), {}, {Content: content.Blocks{}}, {IsError: true},
		content.Resultf("%s", "quotes \" \\ </script> & \u2028 \x00 \x1f é 😀 \xff"),
		{Content: content.Blocks{content.Text{Text: "a", Meta: json.RawMessage(`{ "b": 1 }`)}, content.Image{Data: []byte{1, 2}, MIMEType: "image/png"}}, IsError: true},
		{Content: content.Blocks{content.Text{Text: "{}"}}, StructuredContent: json.RawMessage(`{ "n": 1 }`)},
		{Meta: map[string]any{"b": 1, "a": []int(nil)}},
	} {
		want, err := marshal(r)
		require.NoError(t, err)
		got, err := appendToolResult([]byte("before "), r)
		require.NoError(t, err)
		assert.Equal(t, "before "+string(want), string(got))
	}
	for _, r := range []*content.Result{
		{Content: content.Blocks{nil}}, {StructuredContent: json.RawMessage(`{`)}, {Content: content.Blocks{content.Text{Meta: json.RawMessage(`[]`)}}},
	} {
		_, err := marshal(r)
		require.Error(t, err)
		_, err = appendToolResult(nil, r)
		require.Error(t, err)
	}
}

func TestTokensNeedNoEscapes(t *testing.T) {
	l := newLayered(t)
	assert.Equal(t, appendString(nil, l.token), appendToken(nil, l.token))
	assert.False(t, bytes.ContainsAny(appendToken(nil, l.token)[1:len(l.token)+1], "\"\\\x00 <>&"))
}
