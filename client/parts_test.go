package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/memoryhttp"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

const (
	aPart  = `{"state":"suspended","sagaToken":"v%d","steps":[],"content":[{"type":"text","text":"part %d"},{"type":"new","n":12345678901234567890}]}`
	aPause = `{"state":"suspended","sagaToken":"v9","steps":[],"_meta":{"io.github.mcpsaga/retryAfterMs":%s}}`
	theEnd = `{"content":[{"type":"text","text":"the end"}],"_meta":{"x":1}}`
)

// The parts of a result are collected, whatever they are, and however often there is one.
func TestPartsAreCollected(t *testing.T) {
	t.Parallel()
	replies := []reply{}
	for i := range 30 {
		replies = append(replies, result(fmt.Sprintf(aPart, i, i)))
	}
	s := play(t, append(replies, result(theEnd))...)
	var seen []client.Position
	c := client.New(&client.HTTP{URL: s.URL}, client.Options{Protocol: "saga", MaxRounds: 3})
	got, err := c.Call(t.Context(), "tool", nil, client.Handlers{OnPosition: func(_ context.Context, p client.Position) error {
		seen = append(seen, p)
		return nil
	}})
	require.NoError(t, err)
	assert.Len(t, got.Content, 61)
	assert.True(t, strings.HasPrefix(got.Content.Text(), "part 0\n"), got.Content.Text())
	assert.True(t, strings.HasSuffix(got.Content.Text(), "part 29\nthe end"), got.Content.Text())
	assert.Contains(t, string(got.Raw), `{"type":"new","n":12345678901234567890}`)
	assert.Contains(t, string(got.Raw), `"_meta":{"x":1}`)
	require.Len(t, seen, 30)
	assert.Len(t, seen[0].Parts, 2, "nothing changes in a position that was saved")

	// From a position that was saved they are there again.
	s = play(t, result(theEnd))
	raw, err := json.Marshal(seen[1])
	require.NoError(t, err)
	var saved client.Position
	require.NoError(t, json.Unmarshal(raw, &saved))
	got, err = s.client(t).Resume(t.Context(), saved, client.Handlers{})
	require.NoError(t, err)
	assert.Equal(t, "part 0\npart 1\nthe end", got.Content.Text())
}

func TestPartsAreBounded(t *testing.T) {
	t.Parallel()
	s := play(t, result(fmt.Sprintf(aPart, 1, 1)), result(fmt.Sprintf(aPart, 2, 2)))
	c := client.New(&client.HTTP{URL: s.URL}, client.Options{Protocol: "saga", Limits: client.Limits{Items: 3}})
	_, err := c.Call(t.Context(), "tool", nil, client.Handlers{})
	var limit *client.LimitError
	require.ErrorAs(t, err, &limit)
	assert.Equal(t, "blocks in a result", limit.What)
	var stopped *client.InterruptedError
	require.ErrorAs(t, err, &stopped)
	assert.Len(t, stopped.Position.Parts, 2, "what is here is not lost")
}

// What a server sends in parts is bounded in bytes, and what came beside them is not kept.
func TestPartsAreBoundedInBytes(t *testing.T) { // alone: it measures the heap
	beside, parts := strings.Repeat("x", 4<<20), 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ ID json.RawMessage }
		_ = json.NewDecoder(r.Body).Decode(&q)
		w.Header().Set("Content-Type", "application/json")
		parts++
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"state":"suspended","sagaToken":"%d","steps":[],"content":[{"type":"text","text":"%01000d"}],"other":%q}}`, q.ID, parts, parts, beside)
	}))
	defer s.Close()
	c := client.New(&client.HTTP{URL: s.URL}, client.Options{Protocol: "saga", Limits: client.Limits{PartBytes: 100_000}})
	_, err := c.Call(t.Context(), "tool", nil, client.Handlers{})
	var limit *client.LimitError
	require.ErrorAs(t, err, &limit)
	assert.Equal(t, client.LimitError{What: "bytes in the parts of a result", Limit: 100_000}, *limit)
	assert.InDelta(t, 97, parts, 3)
	var stopped *client.InterruptedError
	require.ErrorAs(t, err, &stopped)
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	assert.Less(t, m.HeapAlloc, uint64(150<<20), "not all of the %d responses", parts)
	runtime.KeepAlive(stopped)
}

// A server that ends a result in parts with what is no result is refused.
func TestPartsWithoutAnEnd(t *testing.T) {
	t.Parallel()
	for _, end := range []string{`null`, `{"content":7}`, `{"content":[7]}`, `[]`} {
		s := play(t, result(fmt.Sprintf(aPart, 1, 1)), result(end))
		_, err := s.client(t).Call(t.Context(), "tool", nil, client.Handlers{})
		if end == `{"content":[7]}` {
			require.NoError(t, err, "an odd block is kept")
			continue
		}
		require.ErrorAs(t, err, new(*client.ProtocolError), end)
	}
}

// A client comes back when it was told to, and what is no time is none.
func TestPausesAreWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := playAtOnce(t, result(fmt.Sprintf(aPause, "300")), result(fmt.Sprintf(aPause, `"soon"`)), result(fmt.Sprintf(aPause, "-5")), result(theEnd))
		began := time.Now()
		_, err := s.client(t).Call(t.Context(), "tool", nil, client.Handlers{})
		require.NoError(t, err)
		assert.GreaterOrEqual(t, time.Since(began), 300*time.Millisecond)
		assert.Less(t, time.Since(began), 5*time.Second)

		s = playAtOnce(t, result(fmt.Sprintf(aPause, "9223372036854775807")))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err = s.client(t).Call(ctx, "tool", nil, client.Handlers{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var stopped *client.InterruptedError
		require.ErrorAs(t, err, &stopped)
		assert.Equal(t, "v9", stopped.Position.Token)
	})
}

// A tool that sleeps, or waits for an event, may have its client come back as often as it takes: only what it asks
// counts as a round.
func TestPausesAreNoRounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var replies []reply
		for n := range 3 {
			replies = append(replies, slices.Repeat([]reply{result(fmt.Sprintf(aPause, "46000"))}, 50)...)
			replies = append(replies, result(suspended("v", stepOf("elicitation", fmt.Sprint("s", n), emptyForm))))
		}
		s := playAtOnce(t, replies...)
		c := client.New(&client.HTTP{URL: s.URL, RoundTripper: s.through}, client.Options{Protocol: "saga", MaxRounds: 2})
		t.Cleanup(func() { _ = c.Close() })
		var who people
		began := time.Now()
		_, err := c.Call(t.Context(), "tool", nil, who.handlers())
		require.ErrorAs(t, err, new(*client.LimitError))
		assert.Equal(t, 2, who.elicited, "the third round is not asked")
		assert.Len(t, s.got(), len(replies))
		assert.GreaterOrEqual(t, time.Since(began), 3*50*46*time.Second)
	})
}

// With a real server: parts and sleeps.
func TestPartsOfAServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keys, err := codec.NewKeyset()
		require.NoError(t, err)
		const turn = time.Second
		tool := saga.Flow[struct{}, string]{Info: saga.Info{Name: "pages", Yields: true}, Run: func(r *saga.Run, _ struct{}) (string, error) {
			for i := range 3 {
				if err := r.Yield(content.Textf("part %d", i)); err != nil {
					return "", err
				}
				if err := r.Sleep(turn + turn/5); err != nil {
					return "", err
				}
			}
			return "the end", nil
		}}
		srv, err := server.New(server.Options{Keys: keys, Tools: []saga.Definition{tool}, TurnTimeout: turn})
		require.NoError(t, err)
		t.Cleanup(srv.Close)
		url, through := memoryhttp.Serve(t, srv.Handler())
		got, err := client.New(&client.HTTP{URL: url + "/mcp", RoundTripper: through}, client.Options{Protocol: "saga"}).Call(t.Context(), "pages", nil, client.Handlers{})
		require.NoError(t, err)
		assert.Equal(t, "part 0\npart 1\npart 2\nthe end", got.Content.Text())
	})
}
