package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
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
