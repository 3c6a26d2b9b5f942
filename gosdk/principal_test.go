package gosdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// authorized lets in whoever has a bearer token: the token is the user.
func authorized(next http.Handler) http.Handler {
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		info := &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour), Extra: map[string]any{"iss": "https://issuer.example"}}
		switch token {
		case "nobody":
			info.UserID = ""
		case "alice-elsewhere":
			info.UserID, info.Extra["iss"] = "alice", "https://other.example"
		case "alice-by-app":
			info.UserID, info.Extra["client_id"] = "alice", "app"
		case "alice-odd":
			info.UserID, info.Extra["iss"] = "alice", 7
		}
		return info, nil
	}
	return auth.RequireBearerToken(verify, nil)(next)
}

// modernCall calls a tool in MCP 2026-07-28, by plain HTTP.
func modernCall(t *testing.T, url, user string, params object) (int, string) {
	t.Helper()
	params["_meta"] = meta(forms)
	status, _, body := post(t, httpClient, url, message(1, "tools/call", params), "Authorization", "Bearer "+user,
		"MCP-Protocol-Version", modern, "Mcp-Method", "tools/call", "Mcp-Name", params["name"].(string))
	return status, body
}

const (
	refusedState = "the requestState is not valid here, or no longer: send the request again without requestState and inputResponses"
	refusedToken = "the saga token is not valid here, or no longer: unless its saga has ended and acted, start again with tools/callSaga"
)

var yes = object{"sure": object{"action": "accept", "content": object{"sure": true}}}

// A token is good for the user that it was given to, on every replica with the
// same keys. Others learn nothing, and the log says why.
func TestTokensAreOfOneUser(t *testing.T) {
	keys := newKeys(t)
	rooms := new(rooms)
	one, two := mount(t, gosdk.Options{Keys: keys}, rooms.book()), mount(t, gosdk.Options{Keys: keys}, rooms.book())
	urls := []string{one.serve(authorized), two.serve(authorized)}
	_, body := modernCall(t, urls[0], "alice", object{"name": "book"})
	state := last(body).Get("result.requestState").String()
	require.NotEmpty(t, state, body)
	for i, h := range []*host{one, two} {
		for _, other := range []string{"bob", "alice-elsewhere", "alice-by-app", "alice-odd"} {
			status, body := modernCall(t, urls[i], other, object{"name": "book", "requestState": state, "inputResponses": yes})
			assert.Equal(t, 400, status, "the SDK's status for -32602")
			assert.Equal(t, refusedState, last(body).Get("error.message").String(), body)
			assert.Equal(t, int64(-32602), last(body).Get("error.code").Int())
			for _, method := range []string{"tools/resumeSaga", "tools/cancelSaga"} {
				_, _, body = post(t, httpClient, urls[i], message(1, method, object{"sagaToken": state, "completedSteps": []any{}}), "Authorization", "Bearer "+other)
				assert.Equal(t, refusedToken, last(body).Get("error.message").String(), body)
			}
		}
		assert.Contains(t, h.log.String(), "token refused")
		assert.Contains(t, h.log.String(), "authentication")
		assert.NotContains(t, h.log.String(), state)
	}
	held, _ := rooms.count()
	require.Equal(t, 1, held, "nobody else can undo it either")
	_, body = modernCall(t, urls[1], "alice", object{"name": "book", "requestState": state, "inputResponses": yes})
	assert.Equal(t, "yours", last(body).Get("result.content.0.text").String(), body)
}

// The same by the saga methods, with and without a session: the principal is that
// of each request.
func TestSagaTokensAreOfOneUser(t *testing.T) {
	rooms := new(rooms)
	h := mount(t, gosdk.Options{}, rooms.book())
	url := h.serve(authorized)
	alice, bob := newSession(t, url, "alice", forms), newSession(t, url, "bob", forms)
	_, body := alice.do(http.MethodPost, message(1, "tools/callSaga", object{"name": "book"}))
	token := last(body).Get("result.sagaToken").String()
	require.NotEmpty(t, token, body)
	resume := message(2, "tools/resumeSaga", object{"sagaToken": token, "completedSteps": []any{step("sure", `{"action":"accept","content":{"sure":true}}`)}})
	_, body = bob.do(http.MethodPost, resume)
	assert.Equal(t, refusedToken, last(body).Get("error.message").String(), body)
	status, body := alice.do(http.MethodPost, resume, "Authorization", "Bearer bob")
	assert.Equal(t, 403, status, "the session is of one user, too: %s", body)
	status, _ = alice.do(http.MethodDelete, "", "Authorization", "Bearer bob")
	assert.Equal(t, 403, status)
	_, _, body = post(t, httpClient, url, resume, "Authorization", "Bearer alice")
	assert.Equal(t, "yours", last(body).Get("result.content.0.text").String(), body)
}

// Nobody ends the questions of another user's session.
func TestSessionsEndForTheirUserOnly(t *testing.T) {
	rooms := new(rooms)
	h := mount(t, gosdk.Options{}, rooms.book())
	alice := newSession(t, h.serve(authorized), "alice", forms)
	next := alice.stream(message(1, "tools/call", object{"name": "book"}))
	question := next()
	require.Equal(t, "elicitation/create", question.Get("method").String())
	status, _ := alice.do(http.MethodDelete, "", "Authorization", "Bearer bob")
	assert.Equal(t, 403, status)
	status, _ = alice.do(http.MethodPost, `{"jsonrpc":"2.0","id":`+question.Get("id").Raw+`,"result":{"action":"accept","content":{"sure":true}}}`)
	assert.Equal(t, 202, status)
	assert.Equal(t, "yours", next().Get("result.content.0.text").String())
}

// A user who ends a session in the middle of a question is asked no more: what was
// done is undone before the SDK ends the session, not when the patience is over.
func TestUsersEndTheirOwnSessions(t *testing.T) {
	rooms := new(rooms)
	h := mount(t, gosdk.Options{}, rooms.book())
	alice := newSession(t, h.serve(authorized), "alice", forms)
	next := alice.stream(message(1, "tools/call", object{"name": "book"}))
	require.Equal(t, "elicitation/create", next().Get("method").String())
	status, body := alice.do(http.MethodDelete, "")
	require.Equal(t, 204, status, body)
	rooms.requireReleased(t)
}

// A user without a name would share tokens with all the others of that kind.
func TestUsersWithoutNameAreRefused(t *testing.T) {
	h := mount(t, gosdk.Options{}, talk(1))
	url := h.serve(authorized)
	check := func(body string) {
		assert.Equal(t, "internal error", last(body).Get("error.message").String(), body)
		assert.Equal(t, int64(-32603), last(body).Get("error.code").Int())
		assert.NotContains(t, body, "UserID")
	}
	_, body := modernCall(t, url, "nobody", object{"name": "talk"})
	check(body)
	_, _, body = post(t, httpClient, url, message(1, "tools/callSaga", object{"name": "talk"}), "Authorization", "Bearer nobody")
	check(body)
	_, body = newSession(t, url, "nobody", forms).do(http.MethodPost, message(1, "tools/call", object{"name": "talk"}))
	check(body)
	assert.Contains(t, h.log.String(), "have it set one, or give Options.Caller")
}

func TestOwnPrincipal(t *testing.T) {
	h := mount(t, gosdk.Options{Caller: func(i *auth.TokenInfo) (saga.Caller, error) {
		switch i.UserID {
		case "mallory":
			return saga.Caller{}, errors.New("not of this house")
		case "panic":
			panic("no such claim")
		}
		return saga.Caller{Subject: "the family"}, nil
	}}, talk(1))
	url := h.serve(authorized)
	_, body := modernCall(t, url, "alice", object{"name": "talk"})
	state := last(body).Get("result.requestState").String()
	_, body = modernCall(t, url, "bob", object{"name": "talk", "requestState": state, "inputResponses": object{"word1": object{"action": "accept", "content": object{"word": "a"}}}})
	assert.Equal(t, "a", last(body).Get("result.content.0.text").String(), body)
	for _, refused := range []string{"mallory", "panic"} {
		_, body = modernCall(t, url, refused, object{"name": "talk"})
		assert.Equal(t, "internal error", last(body).Get("error.message").String(), body)
	}
	assert.Contains(t, h.log.String(), "not of this house")
	assert.Contains(t, h.log.String(), "no such claim")
}

// Without a user there is no principal: middleware that loses the request's context
// would make everybody the same.
func TestLostContextIsRefused(t *testing.T) {
	s := newSDK(nil)
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(_ context.Context, method string, r mcp.Request) (mcp.Result, error) {
			return next(context.Background(), method, r)
		}
	})
	h := mountOn(t, s, gosdk.Options{}, talk(1))
	_, _, body := post(t, httpClient, h.serve(authorized), message(1, "tools/callSaga", object{"name": "talk"}), "Authorization", "Bearer alice")
	assert.Equal(t, "internal error", last(body).Get("error.message").String(), body)
	assert.Contains(t, h.log.String(), "middleware has replaced the request's context")
}

// Tokens are of one tool, one audience and one way of asking, and not changed.
func TestTokensOfElsewhere(t *testing.T) {
	keys := newKeys(t)
	rooms := new(rooms)
	here := mount(t, gosdk.Options{Keys: keys, Audience: "here"}, rooms.book(), talk(1))
	there := mount(t, gosdk.Options{Keys: keys, Audience: "there"}, rooms.book())
	strange := mount(t, gosdk.Options{Audience: "here"}, rooms.book())
	ask := func(h *host, params object) string {
		params["_meta"] = meta(forms)
		return h.wire().ask("tools/call", params).Raw
	}
	state := last(ask(here, object{"name": "book"})).Get("result.requestState").String()
	saga := last(here.wire().ask("tools/callSaga", object{"name": "book", "_meta": meta(forms)}).Raw).Get("result.sagaToken").String()
	for name, body := range map[string]string{
		"another tool":      ask(here, object{"name": "talk", "requestState": state, "inputResponses": yes}),
		"another audience":  ask(there, object{"name": "book", "requestState": state, "inputResponses": yes}),
		"other keys":        ask(strange, object{"name": "book", "requestState": state, "inputResponses": yes}),
		"other arguments":   ask(here, object{"name": "book", "arguments": object{"x": 1}, "requestState": state, "inputResponses": yes}),
		"of a saga":         ask(here, object{"name": "book", "requestState": saga, "inputResponses": yes}),
		"changed":           ask(here, object{"name": "book", "requestState": state[:len(state)-2] + "AA", "inputResponses": yes}),
		"something behind":  ask(here, object{"name": "book", "requestState": state + "A", "inputResponses": yes}),
		"a state as a saga": here.wire().ask("tools/resumeSaga", object{"sagaToken": state, "completedSteps": []any{}, "_meta": meta(forms)}).Raw,
	} {
		text := last(body).Get("error.message").String()
		assert.True(t, text == refusedState || text == refusedToken, "%s: %s", name, body)
	}
	_, ever := rooms.count()
	assert.Equal(t, 2, ever)
}

// A saga that began on a server of the SDK goes on on one of ours, and the other way
// round, if keys, audience and principal are the same.
func TestSagasMoveBetweenServers(t *testing.T) {
	keys := newKeys(t)
	h := mount(t, gosdk.Options{Keys: keys, Audience: "here"}, talk(3))
	own, err := server.New(server.Options{Keys: keys, Audience: "here", Tools: []saga.Definition{talk(3)}})
	require.NoError(t, err)
	w := h.wire()
	onSDK := func(params object) jsontest.Value { return w.ask("tools/call", params).Get("result") }
	onOurs := func(params object) jsontest.Value {
		raw, err := json.Marshal(params)
		require.NoError(t, err)
		result, err := own.Handle(t.Context(), &server.Request{Method: "tools/call", Params: raw, Version: modern})
		require.NoError(t, err)
		return jsontest.Parse(result)
	}
	for _, turns := range [][]func(object) jsontest.Value{{onSDK, onOurs, onSDK, onOurs}, {onOurs, onSDK, onOurs, onSDK}} {
		params := object{"name": "talk", "_meta": meta(forms)}
		var r jsontest.Value
		for n, take := range turns {
			r = take(params)
			params["requestState"] = r.Get("requestState").String()
			params["inputResponses"] = object{fmt.Sprintf("word%d", n+1): object{"action": "accept", "content": object{"word": "w"}}}
		}
		assert.Equal(t, "w w w", r.Get("content.0.text").String(), r.Raw)
	}
}

// What comes too late is undone, for as long as the options say.
func TestExpiry(t *testing.T) {
	for grace, undone := range map[time.Duration]bool{0: true, -1: false, time.Minute: false} {
		var later atomic.Int64
		rooms := new(rooms)
		h := mount(t, gosdk.Options{UndoGrace: grace, TokenTTL: time.Hour, Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }}, rooms.book())
		w := h.wire()
		params := object{"name": "book", "_meta": meta(forms)}
		params["requestState"] = w.ask("tools/call", params).Get("result.requestState").String()
		params["inputResponses"] = yes
		later.Store(int64(2 * time.Hour))
		r := w.ask("tools/call", params)
		held, _ := rooms.count()
		assert.Equal(t, undone, held == 0, r.Raw)
		assert.Equal(t, undone, r.Get("result.isError").Bool(), r.Raw)
		assert.Equal(t, !undone, r.Get("error.message").String() == refusedState, r.Raw)
	}
}

// A clock that was set back ends no saga: what it has done would stay done.
func TestMountedTokensOfTheFutureAreTakenLater(t *testing.T) {
	var later atomic.Int64
	rooms := new(rooms)
	h := mount(t, gosdk.Options{Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }}, rooms.book())
	w := h.wire()
	begin := func() object {
		params := object{"name": "book", "_meta": meta(forms)}
		params["requestState"] = w.ask("tools/call", params).Get("result.requestState").String()
		params["inputResponses"] = yes
		later.Store(int64(-time.Hour))
		return params
	}
	params := begin()
	refused := w.ask("tools/call", params)
	assert.EqualValues(t, -31503, refused.Get("error.code").Int(), refused.Raw)
	assert.True(t, refused.Get("error.data.retryable").Bool(), refused.Raw)
	later.Store(0)
	assert.Equal(t, "yours", w.ask("tools/call", params).Get("result.content.0.text").String())
	held, _ := rooms.count()
	assert.Equal(t, 1, held)

	params = begin()
	cancelled := w.ask("tools/cancelSaga", object{"sagaToken": params["requestState"], "_meta": meta(forms)})
	assert.Contains(t, cancelled.Get("result.content.0.text").String(), "Cancelled.", cancelled.Raw)
	held, _ = rooms.count()
	assert.Equal(t, 1, held, "the other one's room")
}

// Keys are replaced without a restart.
func TestMountedRotation(t *testing.T) {
	old := newKeys(t)
	h := mount(t, gosdk.Options{Keys: old}, talk(1))
	w := h.wire()
	begin := func() object {
		params := object{"name": "talk", "_meta": meta(forms)}
		params["requestState"] = w.ask("tools/call", params).Get("result.requestState").String()
		params["inputResponses"] = object{"word1": object{"action": "accept", "content": object{"word": "a"}}}
		return params
	}
	before := begin()
	both, id, err := old.Add(codec.XAES256GCM)
	require.NoError(t, err)
	both, err = both.Promote(id)
	require.NoError(t, err)
	h.mounted.SetKeys(both)
	assert.Equal(t, "a", w.ask("tools/call", before).Get("result.content.0.text").String(), "the old key opens still")
	h.mounted.SetKeys(newKeys(t))
	assert.Equal(t, refusedState, w.ask("tools/call", before).Get("error.message").String())
	assert.Equal(t, "a", w.ask("tools/call", begin()).Get("result.content.0.text").String())
}
