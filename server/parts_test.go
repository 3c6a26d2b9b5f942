package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Resume tokens (SEP-1003): results in parts.

type pagesArgs struct {
	// Pages is how many parts there are before the end.
	Pages int `json:"pages"`
	// Ask says after which part the user is asked whether to go on; 0 is never. Fail says after
	// which part the tool fails.
	Ask  int `json:"ask,omitzero"`
	Fail int `json:"fail,omitzero"`
	// Account is an argument that must stay as it is.
	Account string `json:"account,omitzero"`
	// Nap is slept before the end.
	Nap string `json:"nap,omitzero"`
}

type goOnForm struct {
	Yes bool `json:"yes"`
}

var goOn = &steps.Form[goOnForm]{ID: "go_on", Message: "Go on?"}

func pages(change ...func(*saga.Info)) saga.Definition {
	info := saga.Info{Name: "pages", Asks: []steps.Question{goOn}, Yields: true}
	for _, f := range change {
		f(&info)
	}
	return saga.Flow[pagesArgs, string]{Info: info, Run: func(r *saga.Run, in pagesArgs) (string, error) {
		for i := 1; i <= in.Pages; i++ {
			if err := r.Yield(content.Textf("part %d", i)); err != nil {
				return "", err
			}
			if i == in.Fail {
				return "", saga.Failf("it broke after part %d", i)
			}
			if i == in.Ask {
				answer, err := saga.Ask(r, goOn)
				if err != nil {
					return "", err
				}
				if !answer.Yes {
					return "stopped", nil
				}
			}
		}
		if in.Nap != "" {
			d, err := time.ParseDuration(in.Nap)
			if err != nil {
				return "", err
			}
			if err := r.Sleep(d); err != nil {
				return "", err
			}
		}
		return "the end", nil
	}}
}

// part is the result of a call, or its error.
type part struct {
	raw             string
	Content         []content.Text  `json:"content"`
	IsError         bool            `json:"isError"`
	NextResumeToken string          `json:"nextResumeToken"`
	ResultType      string          `json:"resultType"`
	Meta            map[string]any  `json:"_meta"`
	State           string          `json:"state"`
	SagaToken       string          `json:"sagaToken"`
	Steps           json.RawMessage `json:"steps"`

	code int
	text string
}

func partOf(t testing.TB, m legacyMessage, raw string) (p part) {
	t.Helper()
	if m.Error != nil {
		return part{raw: raw, code: m.Error.Code, text: m.Error.Message}
	}
	require.NotNil(t, m.Result, raw)
	require.NoError(t, json.Unmarshal(m.Result, &p), raw)
	p.raw = raw
	if len(p.Content) > 0 {
		p.text = p.Content[0].Text
	}
	return p
}

// paging calls tools in one protocol, and answers what is asked with yes.
type paging func(params object) part

// plainCall are params of a call.
func plainCall(args, extra object) object {
	params := object{"name": "pages", "arguments": args}
	maps.Copy(params, extra)
	return params
}

func (r *rig) modernPaging(change ...func(*request)) paging {
	return func(params object) part {
		r.t.Helper()
		params = maps.Clone(params)
		for {
			meta, _ := params["_meta"].(object)
			q := modernRequest("tools/call", params).with(allCapabilities)
			maps.Copy(q.meta, meta)
			for _, f := range change {
				f(q)
			}
			m := r.send(q)
			var got modernResult
			if m.Error == nil {
				got = m.result(r.t)
			}
			if got.ResultType != "input_required" {
				return partOf(r.t, parseLegacy(r.t, m.raw), m.raw)
			}
			// What it was called with stays, also a resume token.
			params["requestState"] = got.RequestState
			params["inputResponses"] = object{}
			if len(got.InputRequests) > 0 {
				params["inputResponses"] = object{"go_on": object{"action": "accept", "content": object{"yes": true}}}
			}
		}
	}
}

func (r *rig) sessionPaging(change ...func(*legacyClient)) paging {
	c := r.connect("2025-11-25", everything, change...)
	return func(params object) part {
		r.t.Helper()
		raw, err := json.Marshal(object{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
		require.NoError(r.t, err)
		resp := c.post(string(raw))
		if resp.Header.Get("Content-Type") != "text/event-stream" {
			body := readAll(r.t, resp)
			return partOf(r.t, parseLegacy(r.t, body), body)
		}
		events := c.read(resp)
		defer events.close()
		for {
			e := events.message()
			if e.Method == "" {
				return partOf(r.t, e.legacyMessage, e.data)
			}
			require.Equal(r.t, "elicitation/create", e.Method)
			c.reply(e.ID, `{"action":"accept","content":{"yes":true}}`)
		}
	}
}

// eachPaging runs a test in both kinds of protocols that have plain calls.
func eachPaging(t *testing.T, o server.Options, test func(t *testing.T, r *rig, call paging)) {
	if o.Tools == nil {
		o.Tools = []saga.Definition{pages()}
	}
	t.Run("2026-07-28", func(t *testing.T) {
		r := newRig(t, o)
		test(t, r, r.modernPaging())
	})
	t.Run("2025-11-25", func(t *testing.T) {
		r := newRig(t, o)
		test(t, r, r.sessionPaging())
	})
}

const (
	tokenMeta     = "io.github.mcpsaga/resumeToken"
	nextTokenMeta = "io.github.mcpsaga/nextResumeToken"
	tokenTTLMeta  = "io.github.mcpsaga/resumeTokenTtlMs"
)

// Where a client may put a token.
var tokenPlaces = map[string]func(args object, token string) object{
	"params": func(args object, token string) object {
		return plainCall(args, object{"resumeToken": token})
	},
	"arguments": func(args object, token string) object {
		args = maps.Clone(args)
		args["resumeToken"] = token
		return plainCall(args, nil)
	},
	"_meta": func(args object, token string) object {
		return plainCall(args, object{"_meta": object{tokenMeta: token}})
	},
}

func TestParts(t *testing.T) {
	args := object{"pages": 2, "account": "a"}
	eachPaging(t, server.Options{}, func(t *testing.T, r *rig, call paging) {
		for place, with := range tokenPlaces {
			t.Run(place, func(t *testing.T) {
				first := call(plainCall(args, nil))
				assert.Equal(t, "part 1", first.text)
				require.NotEmpty(t, first.NextResumeToken)
				assert.Equal(t, first.NextResumeToken, first.Meta[nextTokenMeta])
				assert.InDelta(t, (10 * time.Minute).Milliseconds(), first.Meta[tokenTTLMeta], 5000)
				// A model that sees nothing but text learns how to go on.
				require.Len(t, first.Content, 2)
				assert.True(t, strings.HasSuffix(first.Content[1].Text, "resumeToken: "+first.NextResumeToken), first.raw)
				assert.Equal(t, []content.Role{content.Assistant}, first.Content[1].Annotations.Audience)

				second := call(with(args, first.NextResumeToken))
				assert.Equal(t, "part 2", second.text)
				assert.NotEqual(t, first.NextResumeToken, second.NextResumeToken)
				assert.Len(t, second.Content, map[string]int{"params": 1, "arguments": 2, "_meta": 1}[place],
					"a client that knows of tokens is not told how to go on")

				end := call(with(args, second.NextResumeToken))
				assert.Equal(t, "the end", end.text)
				assert.Len(t, end.Content, 1)
				assert.Empty(t, end.NextResumeToken, "nothing is left")
				assert.NotContains(t, end.raw, "esumeToken")

				// The same point gives the same answer.
				again := call(with(args, first.NextResumeToken))
				assert.Equal(t, "part 2", again.text)
				assert.Equal(t, "the end", call(with(args, again.NextResumeToken)).text)
			})
		}
		assert.Empty(t, r.log.take())
	})
}

// A modern result says what it is; an older one has no such member.
func TestPartsResultType(t *testing.T) {
	eachPaging(t, server.Options{}, func(t *testing.T, _ *rig, call paging) {
		p := call(plainCall(object{"pages": 1}, nil))
		assert.Equal(t, strings.HasSuffix(t.Name(), "2026-07-28"), p.ResultType == "complete")
	})
}

// A question in the middle goes the way of the protocol, and then it is parts again.
func TestPartsWithAQuestion(t *testing.T) {
	args := object{"pages": 3, "ask": 2}
	eachPaging(t, server.Options{}, func(t *testing.T, _ *rig, call paging) {
		for place, with := range tokenPlaces {
			t.Run(place, func(t *testing.T) {
				p := call(plainCall(args, nil))
				var got []string
				for ; p.NextResumeToken != ""; p = call(with(args, p.NextResumeToken)) {
					got = append(got, p.text)
				}
				assert.Equal(t, "part 1, part 2, part 3, the end", strings.Join(append(got, p.text), ", "))
			})
		}
	})
}

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
	o := server.Options{Keys: keys, Now: clock.Now, Tools: []saga.Definition{pages(), other, plain}, Authenticate: func(r *http.Request) (server.Principal, error) {
		return server.Principal{Subject: r.Header.Get("Authorization")}, nil
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

func (r *rig) sagaCall(method string, params object) part {
	r.t.Helper()
	raw, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	require.NoError(r.t, err)
	body := r.post(string(raw))
	return partOf(r.t, parseLegacy(r.t, body), body)
}

// Clients of the saga proposal get a part with the saga's token.
func TestPartsOfSagas(t *testing.T) {
	r := newRig(t, server.Options{Tools: []saga.Definition{pages()}, TurnTimeout: time.Second})
	args := object{"pages": 2, "ask": 1, "nap": "1h"}
	send := map[string]func(method string, params object) part{
		"saga": r.sagaCall,
		"saga in 2026-07-28": func(method string, params object) part {
			m := r.send(modernRequest(method, params))
			return partOf(t, parseLegacy(t, m.raw), m.raw)
		},
	}
	for name, send := range send {
		t.Run(name, func(t *testing.T) {
			p := send("tools/callSaga", object{"name": "pages", "arguments": args})
			assert.Equal(t, "suspended", p.State)
			assert.Equal(t, "[]", string(p.Steps))
			assert.Equal(t, "part 1", p.text)
			assert.NotContains(t, p.raw, "esumeToken")
			resume := func(completed ...object) {
				if completed == nil {
					completed = []object{}
				}
				p = send("tools/resumeSaga", object{"sagaToken": p.SagaToken, "completedSteps": completed})
			}
			resume()
			assert.Equal(t, "suspended", p.State)
			assert.Contains(t, string(p.Steps), `"stepId":"go_on"`)
			assert.Empty(t, p.Content)
			resume(object{"stepId": "go_on", "result": object{"action": "accept", "content": object{"yes": true}}})
			assert.Equal(t, "part 2", p.text)
			resume()
			assert.Equal(t, "suspended", p.State)
			assert.Equal(t, "[]", string(p.Steps))
			assert.InDelta(t, time.Hour.Milliseconds(), p.Meta["io.github.mcpsaga/retryAfterMs"], 5000)
			early := p
			resume()
			assert.Equal(t, early.SagaToken, p.SagaToken, "who comes too early is told again")
		})
	}
}

// A sleep that is longer than a request says when to come back.
func TestSleepsInRounds(t *testing.T) {
	clock := &clock{now: time.Now()}
	r := newRig(t, server.Options{Tools: []saga.Definition{pages()}, TurnTimeout: time.Second, Now: clock.Now})
	args := object{"pages": 1, "nap": "90m"}
	p := r.modernPaging()(plainCall(args, nil))
	q := modernRequest("tools/call", plainCall(args, object{"resumeToken": p.NextResumeToken}))
	m := r.send(q)
	got := m.result(t)
	assert.Equal(t, "input_required", got.ResultType)
	assert.Contains(t, m.raw, `"inputRequests":{}`)
	assert.Equal(t, fmt.Sprint((90 * time.Minute).Milliseconds()), string(got.Meta["io.github.mcpsaga/retryAfterMs"]))
	clock.set(clock.Now().Add(90 * time.Minute))
	q.params["requestState"] = got.RequestState
	assert.Equal(t, "the end", r.send(q).result(t).text(), "and its token is good for an hour from then on")
}

func TestPartsAreListed(t *testing.T) {
	own := saga.Machine[struct {
		Token string `json:"token"`
	}, struct{}]{Info: saga.Info{Name: "own"}, Start: func(t *saga.Turn[struct {
		Token string `json:"token"`
	}, struct{}]) (saga.Next, error) {
		return t.Textf("ran")
	}}
	bare := saga.Machine[struct{}, struct{}]{Info: saga.Info{Name: "bare", Yields: true, RawInputSchema: json.RawMessage(`{"type":"object"}`)}, Start: func(t *saga.Turn[struct{}, struct{}]) (saga.Next, error) { return t.Textf("ran") }}
	structured := saga.Flow[struct{}, struct {
		N int `json:"n"`
	}]{Info: saga.Info{Name: "structured", Yields: true}, Run: func(r *saga.Run, _ struct{}) (out struct {
		N int `json:"n"`
	}, err error) {
		return out, r.Yield(content.Textf("part"))
	}}
	r := newRig(t, server.Options{Tools: []saga.Definition{pages(), own, bare, structured}, TokenTTL: 20 * time.Minute})
	type entry struct {
		Name         string
		InputSchema  struct{ Properties map[string]object }
		OutputSchema json.RawMessage
		Meta         map[string]any `json:"_meta"`
	}
	var lists [2]struct{ Tools []entry }
	require.NoError(t, json.Unmarshal(r.send(modernRequest("tools/list", nil)).Result, &lists[0]))
	require.NoError(t, json.Unmarshal(parseLegacy(t, r.connect("2025-11-25", everything).ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)).Result, &lists[1]))
	for _, list := range lists {
		for _, tool := range list.Tools {
			token := tool.InputSchema.Properties["resumeToken"]
			if tool.Name == "own" {
				assert.Nil(t, token)
				assert.NotContains(t, tool.Meta, tokenTTLMeta)
				continue
			}
			assert.Equal(t, "string", token["type"], tool.Name)
			assert.EqualValues(t, 1_200_000, tool.Meta[tokenTTLMeta])
			assert.Empty(t, tool.OutputSchema, "a part does not conform to it")
		}
	}
	assert.Len(t, lists[0].Tools[0].InputSchema.Properties, 6)
	p := r.modernPaging()(object{"name": "structured"})
	assert.Equal(t, "part", p.text)
}

// With a ledger a token can be short, for models that must repeat it.
func TestShortResumeTokens(t *testing.T) {
	store := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	o := server.Options{Ledger: store, Tools: []saga.Definition{pages(func(i *saga.Info) { i.ShortTokens = true })}}
	eachPaging(t, o, func(t *testing.T, _ *rig, call paging) {
		args := object{"pages": 2, "ask": 1, "account": strings.Repeat("a long argument, ", 100)}
		first := call(plainCall(args, nil))
		assert.Less(t, len(first.NextResumeToken), 250)
		second := call(tokenPlaces["arguments"](args, first.NextResumeToken))
		assert.Equal(t, "part 2", second.text)
		assert.Less(t, len(second.NextResumeToken), 250)
		assert.Equal(t, "the end", call(tokenPlaces["arguments"](args, second.NextResumeToken)).text)
	})
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

// The transcript that the documents show is what is said. Tokens are named by their order.
func TestResumeTranscript(t *testing.T) {
	r := newRig(t, server.Options{Tools: []saga.Definition{pages()}})
	c := r.connect("2025-11-25", everything)
	var got strings.Builder
	names := strings.NewReplacer()
	var pairs []string
	say := func(params object) part {
		raw, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
		require.NoError(t, err)
		body := c.ask(string(raw))
		p := partOf(t, parseLegacy(t, body), body)
		if p.NextResumeToken != "" {
			pairs = append(pairs, p.NextResumeToken, fmt.Sprintf("TOKEN%d", len(pairs)/2+1))
		}
		names = strings.NewReplacer(pairs...)
		fmt.Fprintf(&got, "→ %s\n← %s\n", names.Replace(string(raw)), regexp.MustCompile(`TtlMs":\d+`).ReplaceAllString(names.Replace(body), `TtlMs":600000`))
		return p
	}
	args := object{"pages": 2}
	p := say(plainCall(args, nil))
	p = say(plainCall(args, object{"resumeToken": p.NextResumeToken}))
	p = say(tokenPlaces["arguments"](args, p.NextResumeToken))
	say(plainCall(object{"pages": 3}, object{"resumeToken": pairs[0]}))
	want, err := os.ReadFile("../testdata/transcripts/resume-tokens.txt")
	require.NoError(t, err)
	_, exchanged, _ := strings.Cut(string(want), "stand for tokens.\n")
	assert.Equal(t, exchanged, got.String())
	assert.Equal(t, "the end", p.text)
}
