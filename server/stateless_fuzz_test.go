package server_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzStatelessHTTP posts any body under any routing headers. Every answer is one
// JSON-RPC message with a status that fits; a request is only served if its headers
// say what its body says.
func FuzzStatelessHTTP(f *testing.F) {
	seed := func(q *request, param string) {
		f.Add([]byte(q.body()), q.header.Get("Mcp-Protocol-Version"), q.header.Get("Mcp-Method"), q.header.Get("Mcp-Name"), param)
	}
	seed(modernRequest("server/discover", nil), "")
	seed(modernRequest("tools/list", object{"cursor": "MQ"}), "")
	seed(callTool("hello", nil), "")
	seed(callTool("headers", object{"region": "eu", "level": 42, "nested": object{"zone": "x"}}), "=?base64?ZXU=?=")
	seed(callTool("ask_all", nil).with(allCapabilities), "")
	seed(callTool("ask_name", nil).with(allCapabilities).answering("AAAA", object{"user_name": accept("name", "x")}), "")
	seed(modernRequest("prompts/get", object{"name": "greeting", "arguments": object{"person": "x"}}), "")
	seed(modernRequest("resources/read", object{"uri": "test://note/1"}).with(allCapabilities), "")
	seed(modernRequest("completion/complete", object{"ref": object{"type": "ref/prompt", "name": "greeting"}, "argument": object{"name": "person", "value": "x"}}), "")
	seed(modernSaga("callSaga", object{"name": "headers", "arguments": object{"region": "eu"}}), "eu")
	seed(modernSaga("callSaga", object{"name": "ask_name"}), "")
	seed(modernSaga("resumeSaga", object{"sagaToken": "AAAA", "completedSteps": []object{targetAnswer}}), "")
	seed(modernSaga("cancelSaga", object{"sagaToken": "AAAA"}), "")
	seed(listenFor(1, object{"toolsListChanged": true}), "")
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`), "2026-07-28", "", "", "")
	f.Add([]byte(`[]`), "2026-07-28", "x", "=?base64?/w==?=", "")
	s := newModernStdio(f)
	s.CloseStreams() // subscriptions end at once
	handler := s.Handler()
	f.Fuzz(func(t *testing.T, body []byte, version, method, name, param string) {
		if bytes.Contains(body, []byte("sleeps")) {
			t.Skip("a tool that takes its time")
		}
		r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		for header, v := range map[string]string{"Mcp-Protocol-Version": version, "Mcp-Method": method, "Mcp-Name": name, "Mcp-Param-Region": param} {
			if v != "" {
				r.Header.Set(header, v)
			}
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		require.Contains(t, []int{200, 202, 400, 404, 406, 413}, w.Code)
		if w.Code == http.StatusAccepted {
			require.Empty(t, w.Body.Bytes())
			return
		}
		messages := []string{w.Body.String()}
		if w.Header().Get("Content-Type") == "text/event-stream" {
			messages = nil
			for line := range strings.Lines(w.Body.String()) {
				if data, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "data: "); ok {
					messages = append(messages, data)
				} else {
					require.Equal(t, "\n", line)
				}
			}
		}
		for _, m := range messages {
			require.True(t, json.Valid([]byte(m)), m)
			require.NotContains(t, m, "\n")
		}
		var request struct {
			Method string
			Params struct {
				Meta map[string]any `json:"_meta"`
			}
		}
		if json.Unmarshal(body, &request) == nil && w.Code == 200 && request.Params.Meta[versionMeta] != nil && json.Valid(body) &&
			!strings.Contains(messages[0], `"error"`) {
			require.Equal(t, "2026-07-28", strings.Trim(version, " \t"))
			require.Equal(t, request.Method, strings.Trim(method, " \t"))
		}
	})
}

// FuzzStatelessStdio feeds lines of any content to a server that also has
// subscriptions: it neither crashes nor hangs nor stops serving.
func FuzzStatelessStdio(f *testing.F) {
	for _, q := range []*request{
		callTool("hello", nil), callTool("ask_all", nil).with(allCapabilities), listenFor("a", object{"toolsListChanged": true}),
		modernRequest("server/discover", nil),
	} {
		f.Add([]byte(q.body() + "\n" + q.body()))
	}
	f.Add([]byte(listenFor(1, object{}).body() + "\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`))
	s := newModernStdio(f)
	f.Fuzz(func(t *testing.T, input []byte) {
		if bytes.Contains(input, []byte("sleeps")) {
			t.Skip("a tool that takes its time")
		}
		last := callTool("hello", nil)
		last.id = "last"
		var out bytes.Buffer
		require.NoError(t, s.ServeStdio(t.Context(), strings.NewReader(string(input)+"\n"+last.body()+"\n"), &out))
		require.Contains(t, out.String(), `{"jsonrpc":"2.0","id":"last","result":{"content":[{"type":"text","text":"Hello!"}]`)
	})
}
