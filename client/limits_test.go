package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/internal/memoryhttp"
)

// many repeats a text, which may hold %d, with commas in between.
func many(n int, text string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		if strings.Contains(text, "%d") {
			fmt.Fprintf(&b, text, i)
		} else {
			b.WriteString(text)
		}
	}
	return b.String()
}

func formOf(properties string) string {
	return suspended("v1", stepOf("elicitation", "e", `{"message":"m","requestedSchema":{"type":"object","properties":{`+properties+`}}}`))
}

// A server decides how much it asks; the client, how much of that it takes. Nothing
// of what is too much reaches a handler.
func TestHostileSuspensions(t *testing.T) {
	t.Parallel()
	limits := client.Limits{Steps: 3, Fields: 4, Choices: 5, FormBytes: 2000, Items: 6}
	for name, c := range map[string]struct {
		answer, what string
		limit        int64
	}{
		"steps":           {suspended("v1", many(4, `{"type":"roots","stepId":"%d"}`)), "steps at once", 3},
		"fields":          {formOf(many(5, `"f%d":{"type":"string"}`)), "fields in a form", 4},
		"choices":         {formOf(many(3, `"f%d":{"type":"string","enum":["a","b"]}`)), "choices in a form", 5},
		"titled choices":  {formOf(`"f":{"type":"string","oneOf":[` + many(6, `{"const":"%d","title":"t"}`) + `]}`), "choices in a form", 5},
		"several choices": {formOf(`"f":{"type":"array","items":{"anyOf":[` + many(6, `{"const":"%d","title":"t"}`) + `]}}`), "choices in a form", 5},
		"several of enum": {formOf(`"f":{"type":"array","items":{"type":"string","enum":[` + many(6, `"%d"`) + `]}}`), "choices in a form", 5},
		"a long message":  {suspended("v1", stepOf("elicitation", "e", `{"message":"`+strings.Repeat("x", 2000)+`"}`)), "bytes in a form", 2000},
		"blocks":          {`{"content":[` + many(7, `{"type":"text","text":"x"}`) + `]}`, "blocks in a result", 6},
	} {
		t.Run(name, func(t *testing.T) {
			c2 := client.New(&client.HTTP{URL: play(t, result(c.answer)).URL}, client.Options{Protocol: "saga", Limits: limits})
			t.Cleanup(func() { _ = c2.Close() })
			var who people
			_, err := c2.Call(t.Context(), "x", nil, who.handlers())
			var wrong *client.ProtocolError
			require.ErrorAs(t, err, &wrong)
			var much *client.LimitError
			require.ErrorAs(t, err, &much)
			assert.Equal(t, &client.LimitError{What: c.what, Limit: c.limit}, much)
			assert.ErrorContains(t, err, "the server sends too much: more than ")
			assert.Zero(t, who.elicited)
			assert.Empty(t, interrupted(t, err).Token, "the position is that before the suspension")
		})
	}
	// What is exactly at the limits is asked.
	form := stepOf("elicitation", "e", `{"message":"m","requestedSchema":{"type":"object","properties":{`+
		`"a":{"type":"string","enum":["a","b"]},"b":{"type":"string","enum":["a","b","c"]},"c":{"type":"string"},"d":{"type":"string"}}}}`)
	s := play(t, result(suspended("v1", form, stepOf("roots", "r", `{}`), stepOf("roots", "r2", `{}`))),
		result(`{"content":[`+many(6, `{"type":"text","text":"x"}`)+`]}`))
	c := client.New(&client.HTTP{URL: s.URL}, client.Options{Protocol: "saga", Limits: limits})
	t.Cleanup(func() { _ = c.Close() })
	var who people
	_, err := c.Call(t.Context(), "x", nil, who.handlers())
	require.NoError(t, err)
	assert.Equal(t, 1, who.elicited)
}

// What an 8 MB answer makes in memory is bounded by the number of things in it.
func TestHostileAnswersTakeLittleMemory(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"fields": formOf(many(50_000, `"f%d":{"type":"string"}`)),
		"steps":  suspended("v1", many(200_000, `{"type":"roots","stepId":"%d"}`)),
		"blocks": `{"content":[` + many(1_000_000, `{}`) + `]}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := play(t, result(answer))
			c := s.client(t)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := c.Call(t.Context(), "x", nil, client.Handlers{})
			runtime.ReadMemStats(&after)
			require.ErrorAs(t, err, new(*client.LimitError))
			// Reading alone takes a few times the answer's size, as buffers grow.
			assert.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(120), "MB allocated")
		})
	}
}

// endless is a server whose list of tools has always one more page.
func endless(t *testing.T, page func(n int) string) (*httptest.Server, *int) {
	t.Helper()
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n++
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,"result":%s}`, n, page(n))
	}))
	t.Cleanup(s.Close)
	return s, &n
}

func TestEndlessLists(t *testing.T) {
	t.Parallel()
	limits := client.Limits{Pages: 20, Items: 100, ListBytes: 10_000}
	tool := `{"name":"t","inputSchema":{}}`
	for name, c := range map[string]struct {
		page  func(n int) string
		pages int
		want  string
	}{
		"the same cursor": {func(int) string { return `{"tools":[],"nextCursor":"c"}` }, 2, `"c" comes twice`},
		"a circle":        {func(n int) string { return fmt.Sprintf(`{"tools":[],"nextCursor":"c%d"}`, n%3) }, 4, "comes twice"},
		"other cursors":   {func(n int) string { return fmt.Sprintf(`{"tools":[],"nextCursor":"c%d"}`, n) }, 20, "more than 20 pages of tools"},
		"many items":      {func(n int) string { return fmt.Sprintf(`{"tools":[%s],"nextCursor":"c%d"}`, many(30, tool), n) }, 4, "more than 100 tools in a list"},
		"large pages": {func(n int) string {
			return fmt.Sprintf(`{"tools":[{"name":"%s","inputSchema":{}}],"nextCursor":"c%d"}`, strings.Repeat("x", 3000), n)
		}, 4, "more than 10000 bytes in a list"},
	} {
		t.Run(name, func(t *testing.T) {
			s, asked := endless(t, c.page)
			lister := client.New(&client.HTTP{URL: s.URL}, client.Options{Protocol: "saga", Limits: limits})
			t.Cleanup(func() { _ = lister.Close() })
			_, err := lister.Tools(t.Context())
			require.ErrorAs(t, err, new(*client.ProtocolError))
			require.ErrorContains(t, err, c.want)
			assert.Equal(t, c.pages, *asked)
		})
	}
	// The time is that of the whole list, however soon each page comes.
	s, _ := endless(t, func(n int) string {
		time.Sleep(20 * time.Millisecond)
		return fmt.Sprintf(`{"tools":[],"nextCursor":"c%d"}`, n)
	})
	slow := client.New(&client.HTTP{URL: s.URL}, client.Options{Protocol: "saga", Timeout: 300 * time.Millisecond})
	t.Cleanup(func() { _ = slow.Close() })
	began := time.Now()
	_, err := slow.Tools(t.Context())
	require.ErrorIs(t, err, client.ErrTimeout)
	assert.Less(t, time.Since(began), 5*time.Second)
}

func TestHugeHeaders(t *testing.T) {
	t.Parallel()
	s := play(t, func(w http.ResponseWriter, r asked) {
		w.Header().Set("X-Huge", strings.Repeat("x", 300<<10))
		result(deployed)(w, r)
	})
	_, err := s.client(t).Call(t.Context(), "x", nil, client.Handlers{})
	require.ErrorAs(t, err, new(*client.TransportError))
	require.ErrorContains(t, err, "header")
}

// drip sends one byte after the other, and never comes to an end.
func drip(contentType, begin string) reply {
	return func(w http.ResponseWriter, _ asked) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write([]byte(begin))
		for {
			if _, err := w.Write([]byte(" ")); err != nil {
				return
			}
			if err := http.NewResponseController(w).Flush(); err != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func TestDrippingResponses(t *testing.T) {
	t.Parallel()
	s := play(t, drip("application/json", "{"))
	c := client.New(&client.HTTP{URL: s.URL, Stall: 100 * time.Millisecond}, client.Options{Protocol: "saga"})
	t.Cleanup(func() { _ = c.Close() })
	began := time.Now()
	_, err := c.Call(t.Context(), "x", nil, client.Handlers{})
	var lost *client.TransportError
	require.ErrorAs(t, err, &lost)
	require.ErrorIs(t, err, client.ErrTimeout)
	assert.ErrorContains(t, err, "does not go on")
	assert.True(t, lost.Sent)
	assert.Less(t, time.Since(began), 5*time.Second)

	// A stream of events may wait for the tool, within the time of a turn.
	s = play(t, drip("text/event-stream", ": "))
	timed := client.New(&client.HTTP{URL: s.URL, Stall: 50 * time.Millisecond}, client.Options{Protocol: "saga", Timeout: 300 * time.Millisecond})
	t.Cleanup(func() { _ = timed.Close() })
	_, err = timed.Call(t.Context(), "x", nil, client.Handlers{})
	require.ErrorIs(t, err, client.ErrTimeout)
}

// A response that is slow but goes on is waited for, and so is one that has not begun.
func TestSlowResponsesArrive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const stall = 2 * time.Second
		url, through := memoryhttp.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			var r asked
			assert.NoError(t, json.NewDecoder(q.Body).Decode(&r))
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(stall + stall/4) // the tool is at work
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, r.ID)
			for range 12 {
				_, _ = w.Write(bytes.Repeat([]byte("x"), 2000))
				_ = http.NewResponseController(w).Flush()
				time.Sleep(stall / 8)
			}
			_, _ = w.Write([]byte(`"}]}}`))
		}))
		c := client.New(&client.HTTP{URL: url, RoundTripper: through, Stall: stall}, client.Options{Protocol: "saga"})
		t.Cleanup(func() { _ = c.Close() })
		got, err := c.Call(t.Context(), "x", nil, client.Handlers{})
		require.NoError(t, err)
		assert.Len(t, got.Content.Text(), 24_000)
	})
}

// A tool that always asks once more ends with the rounds.
func TestEndlessSuspensions(t *testing.T) {
	t.Parallel()
	s, asked := endless(t, func(n int) string { return suspended("v", fmt.Sprintf(`{"type":"roots","stepId":"%d"}`, n)) })
	c := client.New(&client.HTTP{URL: s.URL}, client.Options{Protocol: "saga", MaxRounds: 5})
	t.Cleanup(func() { _ = c.Close() })
	_, err := c.Call(context.Background(), "x", nil, client.Handlers{})
	require.ErrorAs(t, err, new(*client.LimitError))
	assert.Equal(t, 6, *asked)
}

// A server that pauses without end is asked ten times a second at most, until the context ends.
func TestEndlessPauses(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		suspended("v"), fmt.Sprintf(aPause, "0.001"), fmt.Sprintf(aPause, "-1"),
		`{"state":"suspended","sagaToken":"v","content":[]}`,
		`{"resultType":"input_required","requestState":"v"}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			protocol := "saga"
			if strings.Contains(answer, "resultType") {
				protocol = "2026-07-28"
			}
			var turns atomic.Int64
			url, through := memoryhttp.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				var r asked
				assert.NoError(t, json.NewDecoder(q.Body).Decode(&r))
				if turns.Add(1); r.Method == "tools/list" {
					result(`{"tools":[]}`)(w, r)
					return
				}
				result(answer)(w, r)
			}))
			c := client.New(&client.HTTP{URL: url, RoundTripper: through}, client.Options{Protocol: protocol, MaxRounds: 5})
			t.Cleanup(func() { _ = c.Close() })
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := c.Call(ctx, "x", nil, client.Handlers{})
			require.ErrorIs(t, err, context.DeadlineExceeded, answer)
			assert.InDelta(t, 100, turns.Load(), 2, answer)
		})
	}
}
