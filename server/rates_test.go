package server_test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// byHeader tells anonymous callers apart by a header, as a proxy's.
func byHeader(r *http.Request) string { return r.Header.Get("X-Caller") }

const laterData = `"data":{"retryable":true,"retryAfterMs":60000}`

// Who has come as often as it may is refused in the way of its protocol, and learns when to come again. A saga that is
// refused in its middle continues with the same token. What makes no work passes.
func TestRatesInEachProtocol(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := new(seats)
		r := newRig(t, server.Options{Tools: legacyDefinitions(w.tool()), CallerRate: server.Rate{Count: 1, Per: time.Minute}, CallerKey: byHeader})
		refusedIn := func(body string) {
			t.Helper()
			assert.Contains(t, body, `"code":-31503`)
			assert.Contains(t, body, laterData)
		}
		for name, talk := range talks {
			_, body := talk(r, "", nil)
			token := tokenOf(t, body)
			status, body := talk(r, token, rowSeven)
			assert.Equal(t, http.StatusTooManyRequests, status, name)
			refusedIn(body)
			time.Sleep(time.Minute)
			status, body = talk(r, token, rowSeven)
			assert.Equal(t, http.StatusOK, status, body)
			got := r.send(callTool("sum", nil))
			assert.Equal(t, "60", got.header.Get("Retry-After"))
			for _, method := range []string{"tools/list", "prompts/list", "server/discover"} {
				assert.Equal(t, http.StatusOK, r.send(modernRequest(method, nil)).status)
			}
			status, _ = r.do(http.MethodPost, "/mcp", seatMessage("cancelSaga", tokenOf(t, body), nil), nil)
			assert.Equal(t, http.StatusOK, status, "what ends something passes")
			time.Sleep(time.Minute)
		}

		c := r.connect("2025-11-25", everything)
		assert.Contains(t, c.ask(toolCall(1, "sum", `{}`)), `"result"`)
		refusedIn(c.ask(toolCall(2, "sum", `{}`)))
		assert.Contains(t, c.ask(pingMessage), `"result":{}`)
		time.Sleep(time.Minute)
		c = r.connect("2025-03-26", everything)
		batch := c.ask("[" + toolCall(1, "sum", `{}`) + "," + toolCall(2, "sum", `{}`) + "," + toolCall(3, "sum", `{}`) + "]")
		assert.Equal(t, 1, strings.Count(batch, `"result"`), "each message of a batch counts")
		assert.Equal(t, 2, strings.Count(batch, laterData))

		time.Sleep(time.Minute)
		for _, want := range []bool{true, false} {
			_, err := r.srv.Handle(t.Context(), &server.Request{Method: "tools/call", Params: []byte(`{"name":"sum"}`), Version: "2025-11-25"})
			var public *server.Error
			if errors.As(err, &public); want {
				assert.NoError(t, err)
			} else if assert.NotNil(t, public) {
				assert.EqualValues(t, -31503, public.Code)
				assert.JSONEq(t, `{"retryable":true,"retryAfterMs":60000}`, string(public.Data))
			}
		}
		time.Sleep(time.Minute)
		in, write := io.Pipe()
		read, out := io.Pipe()
		go func() { _ = r.srv.ServeStdio(t.Context(), in, out); out.Close() }()
		lines := bufio.NewReader(read)
		said := func(line string) string {
			_, err := io.WriteString(write, line+"\n")
			require.NoError(t, err)
			answer, err := lines.ReadString('\n')
			require.NoError(t, err)
			return answer
		}
		said(initializeMessage("2025-11-25", everything))
		assert.Contains(t, said(toolCall(1, "sum", `{}`)), `"result"`)
		refusedIn(said(toolCall(2, "sum", `{}`)))
		write.Close()
		assert.Contains(t, r.log.take(), `"requests refused","reason":"rate"`)
	})
}

// A caller that has come as often as it may does not slow others, anonymous or not. Callers that look alike are one. The
// rate of a tool leaves the others.
func TestRatesAreForEachCaller(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		bearer := func(r *http.Request) (saga.Caller, error) {
			return saga.Caller{Subject: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")}, nil
		}
		r := newRig(t, server.Options{
			Tools: legacyDefinitions(), CallerRate: server.Rate{Count: 3, Per: time.Hour}, ToolRates: map[string]server.Rate{"sum": {Count: 1, Per: time.Hour}},
			CallerKey: byHeader, Authenticate: bearer,
		})
		call := func(tool, who, address string) int {
			q := callTool(tool, object{"what": "none"})
			if who != "" {
				q.header.Set("Authorization", "Bearer "+who)
			}
			q.header.Set("X-Caller", address)
			return r.send(q).status
		}
		for _, who := range [][2]string{{"ann", ""}, {"bob", ""}, {"", "10.1.2.3"}, {"", "10.1.2.4"}, {"", ""}} {
			assert.Equal(t, http.StatusOK, call("sum", who[0], who[1]))
			for range 5 {
				assert.Equal(t, http.StatusTooManyRequests, call("sum", who[0], who[1]))
			}
			assert.Equal(t, http.StatusOK, call("list", who[0], who[1]))
			assert.Equal(t, http.StatusOK, call("made up", who[0], who[1]), "an error, and it counts")
			assert.Equal(t, http.StatusTooManyRequests, call("list", who[0], who[1]))
		}
	})
}

func TestRatesThatAreWrong(t *testing.T) {
	for want, o := range map[string]server.Options{
		"CallerRate: the rate 1 per 0s is never":                                    {CallerRate: server.Rate{Count: 1}},
		`ToolRates of "sum": the rate -1 per 1s is never`:                           {ToolRates: map[string]server.Rate{"sum": {Count: -1, Per: time.Second}}},
		`Options.ToolRates has "summ", which is no tool of this server's`:           {ToolRates: map[string]server.Rate{"summ": {Count: 1, Per: time.Second}}},
		`Options.ToolRates has "notes://{name}", which is no tool of this server's`: {ToolRates: map[string]server.Rate{"notes://{name}": {Count: 1, Per: time.Second}}},
	} {
		o.Keys, o.Tools = newKeys(t), legacyDefinitions()
		_, err := server.New(o)
		assert.ErrorContains(t, err, want)
	}
}

func TestRatesAreTexts(t *testing.T) {
	for text, want := range map[string]server.Rate{
		"0": {}, "10/s": {10, time.Second}, "600/m": {600, time.Minute}, "5/h": {5, time.Hour}, "20/10s": {20, 10 * time.Second},
	} {
		var got server.Rate
		require.NoError(t, got.UnmarshalText([]byte(text)), text)
		assert.Equal(t, want, got)
		assert.Equal(t, text, got.String())
	}
	for _, text := range []string{"", "10", "10/", "/s", "0/s", "-1/s", "1/-1s", "1/0s", "1.5/s", "10/day", "10 /s", "0/0s"} {
		assert.ErrorContains(t, new(server.Rate).UnmarshalText([]byte(text)), "is no rate such as 10/s", text)
	}
}
