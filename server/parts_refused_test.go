package server_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// What fails has no token, whether it could go on or not.
func TestPartsThatFail(t *testing.T) {
	args := object{"pages": 3, "fail": 1}
	eachPaging(t, server.Options{}, func(t *testing.T, _ *rig, call paging) {
		p := call(plainCall(args, nil))
		p = call(plainCall(args, object{"resumeToken": p.NextResumeToken}))
		assert.True(t, p.IsError)
		assert.Equal(t, "it broke after part 1", p.text)
		assert.NotContains(t, p.raw, "esumeToken")
		p = call(plainCall(object{"pages": "many"}, nil))
		assert.True(t, p.IsError)
		assert.NotContains(t, p.raw, "nextResumeToken")
	})
}

func TestResumeTokensRefused(t *testing.T) {
	clock := &clock{now: time.Now()}
	other := pages(func(i *saga.Info) { i.Name = "other" })
	plain := saga.Machine[struct{}, struct{}]{Info: saga.Info{Name: "plain"}, Start: func(t *saga.Turn[struct{}, struct{}]) (saga.Next, error) { return t.Textf("ran") }}
	keys := newKeys(t)
	o := server.Options{Keys: keys, Now: clock.Now, Tools: []saga.Definition{pages(), other, plain}, Authenticate: func(r *http.Request) (saga.Caller, error) {
		return saga.Caller{Subject: r.Header.Get("Authorization")}, nil
	}}
	args := object{"pages": 2, "account": "a", "ask": 1}
	const refused = "the resumeToken is not valid here, or no longer, or the arguments are not those of the first call: call the tool again without it"
	eachPaging(t, o, func(t *testing.T, r *rig, call paging) {
		token := call(plainCall(args, nil)).NextResumeToken
		require.NotEmpty(t, token)
		flipped := []byte(token)
		flipped[len(flipped)/2] ^= 1
		changed := func(name string, v any) object {
			other := maps.Clone(args)
			if other[name] = v; v == nil {
				delete(other, name)
			}
			return other
		}
		tests := []struct {
			name   string
			params object
			want   string
		}{
			{"tampered", plainCall(args, object{"resumeToken": string(flipped)}), refused},
			{"cut", plainCall(args, object{"resumeToken": token[:len(token)-1]}), refused},
			{"made up", plainCall(args, object{"resumeToken": "next"}), refused},
			{"made up in the arguments", plainCall(changed("resumeToken", "next"), nil), refused},
			{"another value", plainCall(changed("account", "b"), object{"resumeToken": token}), refused},
			{"an argument less", plainCall(changed("account", nil), object{"resumeToken": token}), refused},
			{"an argument more", plainCall(changed("nap", "1s"), object{"resumeToken": token}), refused},
			{"no arguments", object{"name": "pages", "resumeToken": token}, refused},
			{"another tool", object{"name": "other", "arguments": args, "resumeToken": token}, refused},
			{"a tool that has no parts", object{"name": "plain", "resumeToken": token}, refused},
			{"a number", plainCall(args, object{"resumeToken": 1}), "params.resumeToken must be the nextResumeToken of a result, a string"},
			{"empty", plainCall(args, object{"resumeToken": ""}), "params.resumeToken must be the nextResumeToken of a result, a string"},
			{"a number in the arguments", plainCall(changed("resumeToken", 1), nil), "params.arguments.resumeToken must be the nextResumeToken of a result, a string"},
			{"an object in _meta", plainCall(args, object{"_meta": object{tokenMeta: object{}}}), "params._meta: " + tokenMeta + " must be the nextResumeToken of a result, a string"},
			{"two", plainCall(changed("resumeToken", token+"A"), object{"resumeToken": token}), "two different resume tokens were sent: send one of them, in params.resumeToken, params.arguments.resumeToken or params._meta"},
			{"two others", plainCall(args, object{"resumeToken": token, "_meta": object{tokenMeta: "x"}}), "two different resume tokens were sent: send one of them, in params.resumeToken, params.arguments.resumeToken or params._meta"},
		}
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				p := call(test.params)
				assert.Equal(t, -32602, p.code, p.raw)
				assert.Equal(t, test.want, p.text)
			})
		}
		t.Run("somebody else's", func(t *testing.T) {
			foreign := r.modernPaging(func(q *request) { q.header.Set("Authorization", "eve") })
			if strings.Contains(t.Name(), "2025") {
				foreign = r.sessionPaging(func(c *legacyClient) { c.header.Set("Authorization", "eve") })
			}
			p := foreign(plainCall(args, object{"resumeToken": token}))
			assert.Equal(t, -32602, p.code, p.raw)
			assert.Equal(t, refused, p.text)
		})
		t.Run("nothing is lost by it", func(t *testing.T) {
			// The same one twice is one; what is null is none; and other spellings are the same.
			p := call(plainCall(changed("resumeToken", token), object{"resumeToken": token, "_meta": object{tokenMeta: nil}}))
			assert.Equal(t, "part 2", p.text, p.raw)
			p = call(object{"name": "pages", "arguments": json.RawMessage(`{ "resumeToken": null, "account" : "\u0061", "ask":1,"pages":2}`), "resumeToken": token})
			assert.Equal(t, "part 2", p.text, p.raw)
		})
		t.Run("models fill in what they need not", func(t *testing.T) {
			for _, none := range []any{"", nil} {
				assert.Equal(t, "part 1", call(plainCall(changed("resumeToken", none), nil)).text)
			}
		})
		t.Run("late", func(t *testing.T) {
			now := clock.Now()
			defer clock.set(now)
			clock.set(now.Add(time.Hour + 2*time.Minute))
			again := r.modernPaging()
			if strings.Contains(t.Name(), "2025") {
				again = r.sessionPaging()
			}
			p := again(plainCall(args, object{"resumeToken": token}))
			assert.Equal(t, -32602, p.code, p.raw)
			assert.Equal(t, refused, p.text)
		})
	})
}

// A token of one protocol is not one of another: what goes with a question, or carries a saga,
// is no resume token, nor the other way round.
func TestResumeTokensAreTheirOwn(t *testing.T) {
	keys := newKeys(t)
	r := newRig(t, server.Options{Keys: keys, Tools: []saga.Definition{pages()}})
	args := object{"pages": 2, "ask": 1}
	modern, session := r.modernPaging(), r.sessionPaging()
	first := modern(plainCall(args, nil))
	q := modernRequest("tools/call", plainCall(args, object{"resumeToken": first.NextResumeToken}))
	state := r.state(q)
	carried := r.sagaCall("tools/callSaga", object{"name": "pages", "arguments": args}).SagaToken
	for _, call := range []paging{modern, session} {
		for _, wrong := range []string{state, carried} {
			assert.Equal(t, -32602, call(plainCall(args, object{"resumeToken": wrong})).code)
		}
		// But sessions and requests that stand alone are one house.
		assert.Equal(t, "part 2", call(plainCall(args, object{"resumeToken": first.NextResumeToken})).text)
	}
	m := r.send(callTool("pages", args).with(allCapabilities).answering(first.NextResumeToken, object{}))
	assert.Equal(t, -32602, m.code(), m.raw)
	p := r.sagaCall("tools/resumeSaga", object{"sagaToken": first.NextResumeToken, "completedSteps": []any{}})
	assert.Equal(t, -32602, p.code, p.raw)
	p = r.sagaCall("tools/cancelSaga", object{"sagaToken": first.NextResumeToken})
	assert.Equal(t, "Cancelled.", p.text, "who wants no more can say so")
}

// Who comes too late is refused as for any other reason; what the tool had done is undone, and
// the error says so.
func TestLateResumeTokensUndo(t *testing.T) {
	clock := &clock{now: time.Now()}
	s := new(seats)
	hold := &saga.Effect[string, string]{Name: "hold", Do: s.hold, Undo: s.release}
	tool := saga.Flow[struct{}, string]{Info: saga.Info{Name: "pages", Effects: []saga.Declared{hold}, Yields: true}, Run: func(r *saga.Run, _ struct{}) (string, error) {
		if _, err := saga.Do(r, hold, "7"); err != nil {
			return "", err
		}
		return "the end", r.Yield(content.Textf("part"))
	}}
	eachPaging(t, server.Options{Tools: []saga.Definition{tool}, Now: clock.Now}, func(t *testing.T, r *rig, call paging) {
		now := clock.Now()
		defer clock.set(now)
		p := call(plainCall(object{}, nil))
		held, _ := s.now()
		assert.Equal(t, 1, held)
		clock.set(now.Add(30 * time.Minute)) // a session lasts longer
		p = call(plainCall(object{}, object{"resumeToken": p.NextResumeToken}))
		assert.Equal(t, -32602, p.code, p.raw)
		assert.Contains(t, p.raw, `"data":{"io.github.mcpsaga/undo":{"undone":["hold"],"outstanding":[]}}`)
		held, _ = s.now()
		assert.Zero(t, held)
	})
}
