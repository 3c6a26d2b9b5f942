package server_test

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/server"
)

var update = flag.Bool("update", false, "write the recorded transcripts anew")

const asyncTranscript = "../testdata/transcripts/asynchronous-tools.txt"

// TestAsyncTranscript records an operation that asks, in a session and without one.
func TestAsyncTranscript(t *testing.T) {
	r := newAsyncRig(t, func(o *server.Options) { o.Name, o.Version = "example", "1.0.0" })
	var out strings.Builder
	out.WriteString("Asynchronous tools (SEP-1391), over HTTP: → is what the client sends, ← what it gets.\n")
	c := r.connect("2025-11-25", asyncTools, byUser("ann"))
	say := func(message string) (got []string) {
		t.Helper()
		out.WriteString("\n→ " + message + "\n")
		resp := c.post(message)
		if resp.Header.Get("Content-Type") != "text/event-stream" {
			if body := readAll(t, resp); body != "" {
				got = append(got, body)
			}
		} else {
			s := c.read(resp)
			for e := s.message(); ; e = s.message() {
				if got = append(got, e.data); e.Method == "" {
					break
				}
			}
		}
		for _, m := range got {
			out.WriteString("← " + m + "\n")
		}
		return got
	}
	quietly := func(token, status string, questions int) {
		t.Helper()
		until(t, func() bool { // what is asked before is asked again in the session that is recorded
			m := r.send(modernRequest("tools/async/status", object{"token": token}).by("ann"))
			return strings.Contains(string(m.Result), status) && strings.Count(string(m.Result), `"elicitation/create"`) == questions
		})
	}
	out.WriteString("\n# In a session of MCP 2025-11-25, begun with {\"capabilities\":{\"elicitation\":{},\"experimental\":{\"asyncTools\":{}}}}\n")
	say(operation(1, "twice", `{}`, `{"token":"deploy-7","keepAlive":600}`))
	quietly("deploy-7", "input_required", 1)
	asked := parseLegacy(t, say(asyncMessage(2, "status", "deploy-7"))[0])
	answer := `{"jsonrpc":"2.0","id":` + string(asked.ID) + `,"result":` + acceptedFor("deploy-7", `{"sure":true}`) + `}`
	say(answer)
	quietly("deploy-7", "input_required", 1)
	asked = parseLegacy(t, say(asyncMessage(3, "status", "deploy-7"))[0])
	say(`{"jsonrpc":"2.0","id":` + string(asked.ID) + `,"result":` + acceptedFor("deploy-7", `{"sure":true}`) + `}`)
	quietly("deploy-7", "completed", 0)
	say(asyncMessage(4, "status", "deploy-7"))
	say(asyncMessage(5, "result", "deploy-7"))
	out.WriteString("\n# Cancelled by the id of the call\n")
	say(operation(6, "nap", `{"millis":60000}`, `{"token":"deploy-8"}`))
	say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":6}}`)
	say(asyncMessage(7, "status", "deploy-8"))

	out.WriteString("\n# MCP 2026-07-28: the questions are in the status, the answers in a call\n")
	modern := func(q *request) {
		t.Helper()
		out.WriteString("\n→ " + q.body() + "\n← " + strings.TrimSpace(r.send(q).raw) + "\n")
	}
	call := func() *request {
		q := callTool("both", object{}).with(object{"elicitation": object{}}).by("ann")
		q.params["operation"] = object{"token": "deploy-9"}
		return q
	}
	modern(call())
	quietly("deploy-9", "input_required", 2)
	modern(modernRequest("tools/async/status", object{"token": "deploy-9"}).by("ann"))
	modern(call().answering("", object{"nick": formed(object{"nick": "Ann"}), "sure": formed(object{"sure": true})}))
	quietly("deploy-9", "completed", 0)
	modern(modernRequest("tools/async/result", object{"token": "deploy-9"}).by("ann"))

	// Whether a worker was faster than the response is chance.
	got := regexp.MustCompile(`"status":"(submitted|working)"`).ReplaceAllString(out.String(), `"status":"submitted"`)
	if *update {
		require.NoError(t, os.WriteFile(asyncTranscript, []byte(got), 0o644))
	}
	want, err := os.ReadFile(asyncTranscript)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "go test ./server -run TestAsyncTranscript -update writes it anew")
}

// by has the request come from a user.
func (r *request) by(user string) *request {
	r.header.Set("User", user)
	return r
}
