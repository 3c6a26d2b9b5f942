package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/server"
)

// resumable declares everything, and that requests can be resumed.
const resumable = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"resumableRequests":{}}`

// resumer is a client that can resume requests.
func (r *rig) resumer(name, version string) *legacyClient {
	r.t.Helper()
	return r.connect(version, resumable, func(c *legacyClient) { c.header.Set("User", name) })
}

// resumePolicy is what a client is told of a request.
type resumePolicy struct {
	RequestID   json.RawMessage `json:"requestId"`
	ResumeToken string          `json:"resumeToken"`
	MaxWait     int             `json:"maxWait"`
}

// policy reads the first message of a request's stream.
func (s *sseReader) policy() resumePolicy {
	s.t.Helper()
	m := s.message()
	require.Equal(s.t, "notifications/requests/resumePolicy", m.Method, m.data)
	require.NotEmpty(s.t, m.id)
	var p resumePolicy
	require.NoError(s.t, json.Unmarshal(m.Params, &p))
	require.NotEmpty(s.t, p.ResumeToken)
	require.Positive(s.t, p.MaxWait)
	return p
}

// resume is the message that resumes a request, and status the one that asks after it.
func (p resumePolicy) resume() string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"requests/resume","params":{"resumeToken":%q}}`, p.RequestID, p.ResumeToken)
}

func (p resumePolicy) status(id int) string {
	return methodCall(id, "requests/getStatus", fmt.Sprintf(`{"requestId":%s,"resumeToken":%q}`, p.RequestID, p.ResumeToken))
}

// resumeStatus is what a client is told of how far a request is.
type resumeStatus struct {
	Status            string
	HasPendingMessage *bool
	HasInputRequest   *bool
}

func (s resumeStatus) String() string {
	return fmt.Sprintf("%s %t %t", s.Status, *s.HasPendingMessage, *s.HasInputRequest)
}

func (c *legacyClient) requestStatus(p resumePolicy) string {
	c.t.Helper()
	m := parseLegacy(c.t, c.ask(p.status(77)))
	require.Nil(c.t, m.Error, "%+v", m.Error)
	var s resumeStatus
	require.NoError(c.t, json.Unmarshal(m.Result, &s))
	return s.String()
}

// after is a request that shows the last event that the client has.
func after(id string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Last-Event-ID", id) }
}

const yesSure = `{"action":"accept","content":{"sure":true}}`

// A client loses its connection, looks, resumes, and is asked and answered as if nothing had
// happened; with the replica that served it gone as well.
func TestResume(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart=%t", restart), func(t *testing.T) {
			store, keys := inMemory(t), newKeys(t)
			both := func(o *server.Options) { o.Ledger, o.Keys = store, keys }
			first := newTaskRig(t, both)
			next := first
			c := first.resumer("ann", "2025-11-25")
			s := c.stream(toolCall(7, "twice", "{}"))
			p := s.policy()
			assert.JSONEq(t, `7`, string(p.RequestID))
			assert.Equal(t, 3600, p.MaxWait)
			asked := s.wait("elicitation/create")
			s.close()
			if restart {
				first.srv.Close()
				next = newTaskRig(t, both)
				c = c.at(next)
			}
			assert.Equal(t, "processing true true", c.requestStatus(p))
			s = c.stream(p.resume())
			again := s.wait("elicitation/create")
			assert.Equal(t, asked.ID, again.ID, "it is the same question")
			c.reply(asked.ID, yesSure)
			second := s.wait("elicitation/create")
			assert.NotEqual(t, asked.ID, second.ID)
			s.close()
			s = c.stream(p.resume())
			c.reply(s.wait("elicitation/create").ID, yesSure)
			end := s.wait("")
			assert.Equal(t, "7", string(end.ID))
			said, _ := text(t, end.Result)
			assert.Equal(t, "sure enough", said)
			s.end()
			assert.Equal(t, "completed true false", c.requestStatus(p))
			resp := c.request("POST", p.status(5), after(end.id))
			assert.Contains(t, readAll(t, resp), `"hasPendingMessage":false`)
			// The result can be had again.
			said, _ = text(t, parseLegacy(t, c.ask(p.resume())).Result)
			assert.Equal(t, "sure enough", said)
		})
	}
}
