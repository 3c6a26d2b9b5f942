package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/server"
)

// noSession is what opens a session where none can be opened; it counts.
type noSession struct{ opened int }

func (n *noSession) open(context.Context, client.SessionConfig) (client.Session, error) {
	n.opened++
	return nil, &client.Error{Code: -1, Message: "a session"}
}

// A client finds out what its server speaks, once, and takes the best of it.
func TestNegotiation(t *testing.T) {
	t.Parallel()
	const saga = `"experimental":{"io.github.mcpsaga/saga":{}}`
	const tasks = `"extensions":{"io.modelcontextprotocol/tasks":{}}`
	says := func(versions, capabilities string) reply {
		return result(`{"resultType":"complete","supportedVersions":[` + versions + `],"capabilities":{` + capabilities + `}}`)
	}
	unsupported := func(versions string) reply {
		return func(w http.ResponseWriter, r asked) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"no","data":{"supported":[%s]}}}`, r.ID, versions)
		}
	}
	for name, c := range map[string]struct {
		reply    reply
		protocol string
		prefer   bool
		// method is of the request that follows; "session" if one is opened; else why not.
		method, problem string
	}{
		"saga":                     {reply: says(`"2026-07-28"`, saga), method: "tools/callSaga"},
		"saga and tasks":           {reply: says(`"2026-07-28"`, saga+","+tasks), method: "tools/callSaga"},
		"tasks preferred":          {reply: says(`"2026-07-28"`, saga+","+tasks), prefer: true, method: "tools/call"},
		"tasks preferred, none":    {reply: says(`"2026-07-28"`, saga), prefer: true, method: "tools/callSaga"},
		"rounds":                   {reply: says(`"2025-11-25","2026-07-28"`, ""), method: "tools/call"},
		"a newer one":              {reply: says(`"2030-01-01"`, ""), problem: "the server speaks MCP [2030-01-01]"},
		"an older one, it says":    {reply: says(`"2025-11-25"`, ""), method: "session"},
		"an older one, by refusal": {reply: unsupported(`"2025-06-18"`), method: "session"},
		"refused once":             {reply: unsupported(`"2026-07-28"`), method: "tools/call"},
		"a newer one, by refusal":  {reply: unsupported(`"2030-01-01"`), problem: "-32022"},
		"no such method":           {reply: refuse(-32601, "no such method"), method: "session"},
		"no session":               {reply: refuse(-32000, "no session id"), method: "session"},
		"no session, in words":     {reply: body(http.StatusBadRequest, "text/plain", "Missing session ID"), method: "session"},
		"no POST":                  {reply: body(http.StatusMethodNotAllowed, "text/plain", ""), method: "session"},
		"no credential":            {reply: body(http.StatusUnauthorized, "text/plain", ""), problem: "bearer token"},
		"broken":                   {reply: body(http.StatusInternalServerError, "text/plain", ""), problem: "500"},
		"not MCP":                  {reply: body(http.StatusOK, "text/html", "<html>"), problem: "MCP endpoint"},
		"forced saga":              {protocol: "saga", method: "tools/callSaga"},
		"forced rounds":            {protocol: "2026-07-28", method: "tools/call"},
		"forced sessions":          {protocol: "2024-11-05", method: "session"},
		"forced nonsense":          {protocol: "smoke", problem: `there is no protocol "smoke"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := play(t)
			if c.reply != nil {
				s.then(c.reply)
			}
			if name == "refused once" {
				s.then(says(`"2026-07-28"`, ""))
			}
			if c.method != "" && c.method != "session" {
				if c.method == "tools/call" {
					s.then(result(`{"tools":[]}`))
				}
				s.then(result(deployed), result(deployed))
			}
			opener := &noSession{}
			o := client.New(&client.HTTP{URL: s.URL}, client.Options{Protocol: c.protocol, PreferTasks: c.prefer, Retries: -1, Sessions: opener.open})
			t.Cleanup(func() { _ = o.Close() })
			_, err := o.Call(t.Context(), "deploy", nil, client.Handlers{})
			switch c.method {
			case "":
				require.ErrorContains(t, err, c.problem)
			case "session":
				require.ErrorContains(t, err, "a session")
				assert.Equal(t, 1, opener.opened)
			default:
				require.NoError(t, err)
				_, err = o.Call(t.Context(), "deploy", nil, client.Handlers{})
				require.NoError(t, err)
				methods := s.methods()
				assert.Equal(t, []string{c.method, c.method}, methods[len(methods)-2:], "it is asked once")
			}
			if c.method == "session" {
				without := play(t)
				if c.reply != nil {
					without.then(c.reply)
				}
				o := client.New(&client.HTTP{URL: without.URL}, client.Options{Protocol: c.protocol})
				t.Cleanup(func() { _ = o.Close() })
				_, err := o.Call(t.Context(), "deploy", nil, client.Handlers{})
				require.ErrorContains(t, err, "Options.Sessions")
			}
		})
	}
}

// A tool that must be a task, which the saga proposal has none of, is called as one.
func TestToolThatMustBeATask(t *testing.T) {
	t.Parallel()
	s := play(t, result(`{"supportedVersions":["2026-07-28"],"capabilities":{"experimental":{"io.github.mcpsaga/saga":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`),
		refuse(-32602, "send tools/call"), result(`{"tools":[{"name":"deploy","inputSchema":{}},{"name":"other","inputSchema":{},"_meta":{"io.github.mcpsaga/saga":{}}}]}`), result(deployed),
		refuse(-32602, "bad arguments"))
	c := client.New(&client.HTTP{URL: s.URL}, client.Options{})
	t.Cleanup(func() { _ = c.Close() })
	_, err := c.Call(t.Context(), "deploy", nil, client.Handlers{})
	require.NoError(t, err)
	assert.Equal(t, []string{"server/discover", "tools/callSaga", "tools/list", "tools/call"}, s.methods())
	s.then(result(`{"tools":[{"name":"other","inputSchema":{},"_meta":{"io.github.mcpsaga/saga":{}}}]}`))
	_, err = c.Call(t.Context(), "other", nil, client.Handlers{})
	require.ErrorContains(t, err, "bad arguments")
}

// Tools are called by rounds of 2026-07-28 on every kind of server that has them, and a
// call goes on elsewhere.
func TestToolsByRounds(t *testing.T) {
	t.Parallel()
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	own, h := replica(t, keys)
	_ = own
	self, err := os.Executable()
	require.NoError(t, err)
	for name, open := range map[string]func() client.Transport{
		"HTTP": func() client.Transport { return &client.HTTP{URL: h.URL + server.Endpoint} },
		"stdio": func() client.Transport {
			return &client.Stdio{Command: self, Env: append(os.Environ(), childMode+"=tools"), Stderr: io.Discard}
		},
	} {
		t.Run(name, func(t *testing.T) {
			speak := func() *client.Client {
				c := client.New(open(), client.Options{Protocol: "2026-07-28"})
				t.Cleanup(func() { _ = c.Close() })
				return c
			}
			tools, err := speak().Tools(t.Context())
			require.NoError(t, err)
			require.NotEmpty(t, tools)
			var who people
			handlers := who.handlers()
			one := speak()
			got, err := one.Call(t.Context(), "complex_tool", map[string]any{"initial_arg": "value"}, handlers)
			require.NoError(t, err)
			assert.Contains(t, got.Content.Text(), "initiated successfully")

			pause := handlers
			pause.OnPosition = func(_ context.Context, p client.Position) error { return client.ErrPause }
			_, err = one.Call(t.Context(), "complex_tool", map[string]any{"initial_arg": "value"}, pause)
			require.ErrorIs(t, err, client.ErrPause)
			position := throughJSON(t, interrupted(t, err))
			assert.NotEmpty(t, position.Token)
			if name == "stdio" {
				return // its keys end with it
			}
			got, err = speak().Resume(t.Context(), position, handlers)
			require.NoError(t, err)
			assert.Contains(t, got.Content.Text(), "initiated successfully")
			_, err = speak().Cancel(t.Context(), position)
			require.ErrorAs(t, err, new(*client.PositionError))
		})
	}
}

// Servers may ask without a state, and want nothing but the answers.
func TestRoundsWithoutState(t *testing.T) {
	t.Parallel()
	s := play(t, result(`{"tools":[]}`), result(`{"resultType":"input_required","inputRequests":{"q":`+taskForm+`}}`), result(deployed))
	c := client.New(&client.HTTP{URL: s.URL}, client.Options{Protocol: "2026-07-28"})
	t.Cleanup(func() { _ = c.Close() })
	var who people
	pause := who.handlers()
	pause.OnPosition = func(context.Context, client.Position) error { return client.ErrPause }
	_, err := c.Call(t.Context(), "deploy", nil, pause)
	require.ErrorIs(t, err, client.ErrPause)
	_, err = c.Resume(t.Context(), throughJSON(t, interrupted(t, err)), who.handlers())
	require.NoError(t, err)
	var params map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(s.got()[2].Params, &params))
	assert.JSONEq(t, `{"q":{"action":"accept","content":{"target":"production"}}}`, string(params["inputResponses"]))
	assert.NotContains(t, params, "requestState")
	assert.NotContains(t, string(params["_meta"]), "idempotencyKey", "of first requests only")
}

// The first request of a tool is not sent again if it may have arrived.
func TestToolsAreCalledOnce(t *testing.T) {
	t.Parallel()
	s := play(t, result(`{"tools":[]}`), cut)
	c := client.New(&client.HTTP{URL: s.URL}, client.Options{Protocol: "2026-07-28", RetryPause: time.Millisecond})
	t.Cleanup(func() { _ = c.Close() })
	_, err := c.Call(t.Context(), "deploy", nil, client.Handlers{})
	require.ErrorAs(t, err, new(*client.TransportError))
	assert.Equal(t, []string{"tools/list", "tools/call"}, s.methods())
}

// Servers that want arguments repeated in headers get them, and tools that say so in a
// forbidden way are not there.
func TestArgumentsInHeaders(t *testing.T) {
	t.Parallel()
	schema := func(properties string) string { return `{"type":"object","properties":{` + properties + `}}` }
	tool := func(name, properties string) string {
		return `{"name":"` + name + `","inputSchema":` + schema(properties) + `}`
	}
	var headers http.Header
	s := play(t, result(`{"tools":[`+
		tool("good", `"region":{"type":"string","x-mcp-header":"Region"},"deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"},"b":{"type":"boolean","x-mcp-header":"B"}}},
			"none":{"type":"string","x-mcp-header":"None"},"null":{"type":"string","x-mcp-header":"Null"},"plain":{"type":"string"},"odd":{"type":"string","x-mcp-header":"Odd"}`)+","+
		tool("twice", `"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}`)+","+
		tool("number", `"a":{"type":"number","x-mcp-header":"A"}`)+","+
		tool("space", `"a":{"type":"string","x-mcp-header":"A B"}`)+","+
		tool("empty", `"a":{"type":"string","x-mcp-header":""}`)+","+
		tool("items", `"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}`)+","+
		tool("named", `"x-mcp-header":{"type":"string"}`)+
		`]}`), result(deployed))
	s.Config.Handler = func(inner http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			headers = r.Header
			inner.ServeHTTP(w, r)
		})
	}(s.Config.Handler)
	c := client.New(&client.HTTP{URL: s.URL}, client.Options{Protocol: "2026-07-28"})
	t.Cleanup(func() { _ = c.Close() })
	tools, err := c.Tools(t.Context())
	require.NoError(t, err)
	var names []string
	for _, tool := range tools {
		names = append(names, tool.Name)
	}
	assert.Equal(t, []string{"good", "named"}, names)
	_, err = c.Call(t.Context(), "good", json.RawMessage(`{"region":"eu-1","deep":{"n":42.0,"b":true},"null":null,"plain":"x","odd":" größe"}`), client.Handlers{})
	require.NoError(t, err)
	assert.Equal(t, map[string][]string{"Region": {"eu-1"}, "N": {"42"}, "B": {"true"}, "Odd": {"=?base64?IGdyw7bDn2U=?="}}, map[string][]string{
		"Region": headers["Mcp-Param-Region"], "N": headers["Mcp-Param-N"], "B": headers["Mcp-Param-B"], "Odd": headers["Mcp-Param-Odd"]})
	for _, absent := range []string{"None", "Null", "Plain"} {
		assert.NotContains(t, headers, "Mcp-Param-"+absent)
	}
	assert.Equal(t, "good", headers.Get("Mcp-Name"))
}

// Who wants to know how far a call is hears what servers say, and nothing of others.
func TestProgress(t *testing.T) {
	t.Parallel()
	events := func(final string) reply {
		return func(w http.ResponseWriter, r asked) {
			var params struct {
				Meta struct {
					Token string `json:"progressToken"`
				} `json:"_meta"`
			}
			assert.NoError(t, json.Unmarshal(r.Params, &params))
			w.Header().Set("Content-Type", "text/event-stream")
			say := func(token, rest string) {
				fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%q%s}}\n\n", token, rest)
			}
			say(params.Meta.Token, `,"progress":1,"total":4,"message":"one"`)
			say("of another", `,"progress":2`)
			say(params.Meta.Token, `,"progress":"x"`)
			say(params.Meta.Token, `,"progress":3,"total":-1`)
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", r.ID, final)
		}
	}
	for name, protocol := range map[string]string{"saga": "saga", "rounds": "2026-07-28"} {
		t.Run(name, func(t *testing.T) {
			s := play(t)
			if protocol != "saga" {
				s.then(result(`{"tools":[]}`))
			}
			s.then(events(deployed))
			c := client.New(&client.HTTP{URL: s.URL}, client.Options{Protocol: protocol})
			t.Cleanup(func() { _ = c.Close() })
			var seen []client.Progress
			_, err := c.Call(t.Context(), "deploy", nil, client.Handlers{OnProgress: func(p client.Progress) { seen = append(seen, p) }})
			require.NoError(t, err)
			assert.Equal(t, []client.Progress{{Done: 1, Total: 4, Message: "one"}, {Done: 3}}, seen)
		})
	}
	t.Run("stdio", func(t *testing.T) {
		self, err := os.Executable()
		require.NoError(t, err)
		c := client.New(&client.Stdio{Command: self, Env: append(os.Environ(), childMode+"=tools"), Stderr: io.Discard}, client.Options{Protocol: "2026-07-28", Timeout: 20 * time.Second})
		t.Cleanup(func() { _ = c.Close() })
		seen := 0
		var who people
		h := who.handlers()
		h.OnProgress = func(p client.Progress) { seen++ }
		_, err = c.Call(t.Context(), "count", nil, h)
		require.NoError(t, err)
		assert.Equal(t, 3, seen)
	})
}
