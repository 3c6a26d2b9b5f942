package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// at is a client that goes on at another replica, in the same session.
func (c *legacyClient) at(r *rig) *legacyClient {
	other := *c
	other.url = r.url + "/mcp"
	return &other
}

// replicas are servers with the same keys.
func replicas(t *testing.T, n int, o server.Options) (all []*rig) {
	if o.Keys == nil {
		o.Keys = newKeys(t)
	}
	if o.Tools == nil {
		o.Tools = legacyDefinitions()
	}
	for range n {
		all = append(all, newRig(t, o))
	}
	return all
}

// Any replica serves any request of a session that was opened at another, as what both
// sides have agreed on.
func TestSessionsOnAnyReplica(t *testing.T) {
	r := replicas(t, 3, server.Options{})
	c := r[0].connect("2025-11-25", everything)
	for i, test := range []struct{ message, want string }{
		{pingMessage, `"result":{}`},
		{listTools, `"complex_tool"`},
		{toolCall(1, "sum", `{}`), `"sum":3`},
		{`{"jsonrpc":"2.0","id":1,"method":"prompts/list"}`, `"greeting"`},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/list"}`, `"static://one"`},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"static://one"}}`, `"contents"`},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"static://one"}}`, `"result":{}`},
		{`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`, `"result":{}`},
	} {
		assert.Contains(t, c.at(r[(i+1)%3]).ask(test.message), test.want)
		assert.Contains(t, c.at(r[(i+2)%3]).ask(test.message), test.want)
	}
	stream := c.at(r[2]).get("")
	r[2].srv.ResourceUpdated("static://one")
	stream.wait("notifications/resources/updated")
	s := c.at(r[1]).stream(toolCall(1, "complex_tool", `{}`))
	c.at(r[1]).reply(s.wait("elicitation/create").ID, accepted(`{"target":"x"}`))
	c.at(r[1]).reply(s.wait("sampling/createMessage").ID, yes)
	s.wait("")

	for version, want := range map[string]string{
		"2025-11-25": "has not declared elicitation.form", "2025-03-26": "protocol version 2025-03-26 does not have elicitation.form",
	} {
		c := r[0].connect(version, `{}`)
		got, isError := text(t, parseLegacy(t, c.at(r[1]).ask(toolCall(1, "complex_tool", `{}`))).Result)
		assert.True(t, isError)
		assert.Contains(t, got, want)
		resp := c.at(r[2]).post("[" + pingMessage + "]")
		readAll(t, resp)
		assert.Equal(t, version == "2025-03-26", resp.StatusCode == 200)
	}
}

// What a client has in one replica has other names than what it has in another: no answer
// and no event reaches a call that it is not for. Who asks elsewhere is told.
func TestReplicasAreNotMistaken(t *testing.T) {
	r := replicas(t, 2, server.Options{})
	c := r[0].connect("2025-11-25", everything)
	first, second := c.stream(toolCall(1, "complex_tool", `{}`)), c.at(r[1]).stream(toolCall(2, "complex_tool", `{}`))
	a, b := first.wait("elicitation/create"), second.wait("elicitation/create")
	assert.NotEqual(t, a.ID, b.ID)
	assert.NotEqual(t, a.id, b.id)
	r[1].log.take()
	c.at(r[1]).vain(a.ID, accepted(`{"target":"a"}`))
	log := r[1].log.take()
	assert.Contains(t, log, "runs in another replica")
	assert.NotContains(t, log, `"WARN"`, "every client can cause it")
	c.reply(a.ID, accepted(`{"target":"a"}`))
	c.at(r[1]).reply(b.ID, accepted(`{"target":"b"}`))
	assert.Contains(t, string(first.wait("sampling/createMessage").Params), "'a'")
	assert.Contains(t, string(second.wait("sampling/createMessage").Params), "'b'")

	resp := c.at(r[1]).request("GET", "", func(q *http.Request) { q.Header.Set("Last-Event-ID", a.id) })
	assert.Contains(t, readAll(t, resp), "nothing to resume")
	assert.Equal(t, 400, resp.StatusCode)
	general := c.get("")
	opening, err := general.next()
	require.NoError(t, err)
	general.close()
	elsewhere := c.at(r[1]).get(opening.id)
	moved, err := elsewhere.next()
	require.NoError(t, err)
	assert.NotEqual(t, opening.id, moved.id)
	r[1].srv.ToolsChanged()
	elsewhere.wait("notifications/tools/list_changed")
}

// What a client declares takes next to no room in the session's id, whatever it is.
func TestSessionIDsAreShort(t *testing.T) {
	r := newRig(t, server.Options{Tools: legacyDefinitions()})
	var lengths []int
	for _, capabilities := range []string{
		`{}`, everything,
		`{"elicitation":{},"experimental":{"x":"` + strings.Repeat("x", 500_000) + `"}}`,
		`{"roots":{"listChanged":true},"sampling":{"` + strings.Repeat("y", 500_000) + `":{}}}`,
	} {
		c := r.connect("2025-11-25", capabilities)
		assert.Regexp(t, `^[\x21-\x7e]{100,300}$`, c.session)
		lengths = append(lengths, len(c.session))
	}
	assert.Equal(t, []int{lengths[0], lengths[0], lengths[0], lengths[0]}, lengths)
	t.Log("an id has", lengths[0], "characters")
}

// An id opens for whom it was made and where, and nowhere else.
func TestSessionIDsAreBound(t *testing.T) {
	keys := newKeys(t)
	o := server.Options{Keys: keys, Authenticate: who, Audience: "one"}
	r := replicas(t, 2, o)
	o.Audience = "two"
	audience := replicas(t, 1, o)[0]
	o.Audience, o.Keys = "one", newKeys(t)
	stranger := replicas(t, 1, o)[0]
	c := r[0].connect("2025-11-25", everything, as("ann"))
	status := func(r *rig, session, name string) int {
		resp := c.at(r).request("POST", listTools, func(q *http.Request) {
			q.Header.Set("Mcp-Session-Id", session)
			q.Header.Set("Who", name)
		})
		readAll(t, resp)
		return resp.StatusCode
	}
	assert.Equal(t, 200, status(r[1], c.session, "ann"))
	assert.Equal(t, 403, status(r[1], c.session, "bob"))
	assert.Equal(t, 404, status(audience, c.session, "ann"))
	assert.Equal(t, 404, status(stranger, c.session, "ann"))
	altered := []byte(c.session)
	for i := range altered {
		altered[i] ^= 1
		assert.Equal(t, 404, status(r[1], string(altered), "ann"), i)
		altered[i] ^= 1
	}
	assert.Equal(t, 404, status(r[1], c.session+"A", "ann"))
	assert.Equal(t, 404, status(r[1], strings.Repeat("1", 100_000), "ann"))
	token := parse(t, r[0].post(`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"complex_tool"}}`)).Result.SagaToken
	assert.Equal(t, 404, status(r[0], token, ""), "a token of a saga is none")
	assert.Contains(t, r[0].post(`{"jsonrpc":"2.0","id":1,"method":"tools/cancelSaga","params":{"sagaToken":"`+c.session+`"}}`), `"error"`, "and no token of a saga")
}

// Ids open as long as the key is enabled that sealed them, in memory or not.
func TestSessionsOutliveRotations(t *testing.T) {
	keys := newKeys(t)
	r := replicas(t, 2, server.Options{Keys: keys})
	c := r[0].connect("2025-11-25", everything)
	s := c.stream(toolCall(1, "complex_tool", `{}`))
	form := s.wait("elicitation/create")
	added, id, err := keys.Add(codec.XChaCha20Poly1305)
	require.NoError(t, err)
	promoted, err := added.Promote(id)
	require.NoError(t, err)
	for _, r := range r {
		r.srv.SetKeys(promoted)
		assert.Contains(t, c.at(r).ask(listTools), `"tools"`)
	}
	c.reply(form.ID, accepted(`{"target":"x"}`))
	s.wait("sampling/createMessage")
	disabled, err := promoted.Disable(keys.Primary().ID)
	require.NoError(t, err)
	for _, r := range r {
		r.srv.SetKeys(disabled)
		resp := c.at(r).post(listTools)
		assert.Contains(t, readAll(t, resp), "initialize again")
		assert.Equal(t, 404, resp.StatusCode)
	}
	for err = nil; err == nil; { // the call in it has ended
		_, err = s.next()
	}
	assert.Contains(t, r[0].connect("2025-11-25", everything).at(r[1]).ask(listTools), `"tools"`)
}

// Without a ledger the end of a session is known where the client has said so. What is left
// of it elsewhere is an id that its owner can go on using.
func TestSessionEndsWithoutLedger(t *testing.T) {
	now := &clock{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	r := replicas(t, 2, server.Options{Now: now.Now, Authenticate: func(r *http.Request) (saga.Caller, error) {
		return saga.Caller{Subject: r.Header.Get("X-User")}, nil
	}})
	c := r[0].connect("2025-11-25", everything, func(c *legacyClient) { c.header.Set("X-User", "ann") })
	resp := c.at(r[1]).request("DELETE", "", nil)
	resp.Body.Close()
	assert.Equal(t, 204, resp.StatusCode)
	for _, method := range []string{"POST", "GET", "DELETE"} {
		resp := c.at(r[1]).request(method, listTools, nil)
		readAll(t, resp)
		assert.Equal(t, 404, resp.StatusCode)
	}
	assert.Contains(t, c.ask(listTools), `"tools"`)
	c.header.Set("X-User", "eve")
	resp = c.post(listTools)
	readAll(t, resp)
	assert.Equal(t, 403, resp.StatusCode, "it is its owner's alone")
	c.header.Set("X-User", "ann")
	now.set(now.Now().Add(25 * time.Hour))
	resp = c.post(listTools)
	readAll(t, resp)
	assert.Equal(t, 404, resp.StatusCode, "and ends with its time")
}

// With a ledger a session ends everywhere, with what is in memory of it.
func TestSessionEndsEverywhere(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		store := newTroubled(ledger.NewMemory(ledger.MemoryOptions{}))
		t.Cleanup(func() { _ = store.Store.Close() })
		w := new(world)
		r := replicas(t, 3, server.Options{Ledger: store, Tools: legacyDefinitions(w.tool(newGate()))})
		c := r[0].connect("2025-11-25", everything)
		s := c.stream(toolCall(1, "hold", `{}`))
		form := s.wait("elicitation/create")
		go func() { // or its client would seem to be gone
			for err := error(nil); err == nil; {
				_, err = s.next()
			}
		}()

		store.setDown(true)
		resp := c.at(r[1]).request("DELETE", "", nil)
		assert.Contains(t, readAll(t, resp), "send the same request again")
		assert.Equal(t, 503, resp.StatusCode)
		assert.Contains(t, c.at(r[2]).ask(listTools), `"tools"`, "sessions need no ledger")
		store.setDown(false)
		resp = c.at(r[1]).request("DELETE", "", nil)
		readAll(t, resp)
		require.Equal(t, 204, resp.StatusCode)
		time.Sleep(1100 * time.Millisecond) // the ledger is not asked again at once
		for _, r := range r {
			resp := c.at(r).post(listTools)
			assert.Contains(t, readAll(t, resp), "initialize again")
			assert.Equal(t, 404, resp.StatusCode)
		}
		resp = c.post(`{"jsonrpc":"2.0","id":` + string(form.ID) + `,"result":` + accepted(`{"name":"n"}`) + `}`)
		readAll(t, resp)
		assert.Equal(t, 404, resp.StatusCode)
		until(t, func() bool { return w.was() == "+first -first" })
	})
}

// A stream notices by itself that its session has ended elsewhere.
func TestStreamsEndWithTheirSessionElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := ledger.NewMemory(ledger.MemoryOptions{})
		defer store.Close()
		o := server.Options{Ledger: store}
		here := newBubble(t, o)
		o.Keys = here.keys
		there := newBubble(t, o)
		ended := make(chan time.Time, 1)
		go func() {
			r := httptest.NewRequest("GET", "http://localhost/mcp", nil)
			r.Header.Set("Mcp-Session-Id", there.session)
			here.handler.ServeHTTP(httptest.NewRecorder(), r)
			ended <- time.Now()
		}()
		time.Sleep(time.Minute)
		start := time.Now()
		assert.Equal(t, 204, there.do("DELETE", "").Code)
		assert.LessOrEqual(t, (<-ended).Sub(start), 15*time.Second)
		here.srv.Close()
		there.srv.Close()
	})
}

// Sessions take no memory unless there is something to remember: as many as there may be in
// memory are never too many.
func TestIdleSessionsTakeNoMemory(t *testing.T) {
	r := newRig(t, server.Options{Tools: legacyDefinitions(), MaxSessions: 2, MaxSessionsPerPrincipal: 2})
	var all []*legacyClient
	for i := range 20 {
		c := r.connect("2025-11-25", everything)
		assert.Contains(t, c.ask(toolCall(i, "sum", `{}`)), `"sum":3`)
		all = append(all, c)
	}
	for i, c := range all {
		assert.Contains(t, c.ask(toolCall(i, "sum", `{}`)), `"sum":3`, fmt.Sprint(i))
	}
}
