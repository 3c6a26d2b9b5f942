package client_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

func TestToolsReadsAllPages(t *testing.T) {
	s := play(t,
		result(`{"tools":[{"name":"a","inputSchema":{"type":"object"},"_meta":{"io.github.mcpsaga/saga":{}}}],"nextCursor":"c"}`),
		result(`{"tools":[{"name":"b","inputSchema":{"type":"object"},"title":"B","later":1}]}`))
	tools, err := s.client(t).Tools(t.Context())
	require.NoError(t, err)
	require.Len(t, tools, 2)
	assert.Equal(t, "B", tools[1].Title)
	assert.True(t, tools[0].IsSaga())
	assert.False(t, tools[1].IsSaga())
	assert.JSONEq(t, `{}`, string(s.got()[0].Params))
	assert.JSONEq(t, `{"cursor":"c"}`, string(s.got()[1].Params))
}

func TestToolsMalformed(t *testing.T) {
	s := play(t, result(`{"tools":7}`))
	_, err := s.client(t).Tools(t.Context())
	var wrong *client.ProtocolError
	require.ErrorAs(t, err, &wrong)
}

// serverOf is a server with one tool, "place".
func serverOf[Args any](t *testing.T) http.Handler {
	t.Helper()
	place := saga.Flow[Args, string]{Info: saga.Info{Name: "place"}, Run: func(*saga.Run, Args) (string, error) { return "placed", nil }}
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	s, err := server.New(server.Options{Tools: []saga.Definition{place}, Keys: keys, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return s.Handler()
}

// A list of tools that the client has kept may be out of date: the server that refuses the headers is asked for
// another one, once.
func TestHeadersOfAnOldList(t *testing.T) {
	t.Parallel()
	type before struct {
		Region string `json:"region" header:"Region"`
		Zone   string `json:"zone"`
	}
	type after struct {
		Region string `json:"region"`
		Zone   string `json:"zone" header:"Zone"`
	}
	var now atomic.Pointer[http.Handler]
	var methods []string
	put := func(h http.Handler) {
		now.Store(&h)
		methods = nil
	}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		methods = append(methods, r.Header.Get("Mcp-Method"))
		(*now.Load()).ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	put(serverOf[before](t))
	c := client.New(&client.HTTP{URL: h.URL + server.Endpoint}, client.Options{Protocol: "2026-07-28"})
	t.Cleanup(func() { _ = c.Close() })
	arguments := map[string]string{"region": "eu", "zone": "a"}
	call := func() error {
		_, err := c.Call(t.Context(), "place", arguments, client.Handlers{})
		return err
	}
	require.NoError(t, call())

	put(serverOf[after](t))
	require.NoError(t, call())
	assert.Equal(t, []string{"tools/call", "tools/list", "tools/call"}, methods)
	methods = nil
	require.NoError(t, call())
	assert.Equal(t, []string{"tools/call"}, methods)

	// A gateway that drops the header: the same list leads nowhere, and what it leads to is not sent.
	real := *now.Load()
	put(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Mcp-Param-Zone")
		real.ServeHTTP(w, r)
	}))
	var refused *client.Error
	require.ErrorAs(t, call(), &refused)
	assert.EqualValues(t, -32020, refused.Code)
	assert.Equal(t, []string{"tools/call", "tools/list"}, methods)

	// A server whose list is of another replica refuses the second attempt as well.
	old, later := serverOf[before](t), serverOf[after](t)
	put(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == "tools/list" {
			old.ServeHTTP(w, r)
			return
		}
		r.Header.Del("Mcp-Param-Zone")
		later.ServeHTTP(w, r)
	}))
	require.ErrorAs(t, call(), &refused)
	assert.Equal(t, []string{"tools/call", "tools/list", "tools/call"}, methods)
}
