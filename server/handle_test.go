package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// guestPeer is a client of somebody else's transport.
type guestPeer struct {
	ask func(ctx context.Context, method string, params json.RawMessage) (steps.Answer, error)

	mu   sync.Mutex
	told []string
}

func (p *guestPeer) Notify(method string, _ json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, method)
}

func (p *guestPeer) Ask(ctx context.Context, method string, params json.RawMessage) (steps.Answer, error) {
	return p.ask(ctx, method, params)
}

// mutePeer is a peer that answers nothing.
func mutePeer(asked chan<- struct{}) *guestPeer {
	return &guestPeer{ask: func(ctx context.Context, _ string, _ json.RawMessage) (steps.Answer, error) {
		close(asked)
		<-ctx.Done()
		return steps.Answer{}, context.Cause(ctx)
	}}
}

func newGuest(t *testing.T, o server.Options) (*server.Server, *logBuffer) {
	t.Helper()
	log := new(logBuffer)
	if o.Keys == nil {
		o.Keys = newKeys(t)
	}
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	s, err := server.New(o)
	require.NoError(t, err)
	return s, log
}

func handleCode(t *testing.T, s *server.Server, r *server.Request) int64 {
	t.Helper()
	result, err := s.Handle(t.Context(), r)
	var fail *server.Error
	require.ErrorAs(t, err, &fail)
	assert.Nil(t, result)
	return fail.Code
}

const elicits = `{"elicitation":{}}`

func TestGuestsAreCheckedAsOthers(t *testing.T) {
	s, log := newGuest(t, server.Options{Tools: legacyDefinitions()})
	for _, method := range []string{"initialize", "ping", "server/discover", "subscriptions/listen", "logging/setLevel", "resources/subscribe", ""} {
		for _, version := range []string{"2026-07-28", "2025-11-25"} {
			assert.Equal(t, int64(-32601), handleCode(t, s, &server.Request{Method: method, Version: version}), method)
		}
	}
	const modern = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		for _, params := range []string{
			`[]`, `7`, `null`, `{`, ``, `{} {}`, "{\"name\":\"\xff\"," + modern + `}`,
			`{"name":"ask","name":"talk",` + modern + `}`, `{"name":7,` + modern + `}`, `{"name":"nothing",` + modern + `}`, `{"name":"ask","arguments":[],` + modern + `}`,
		} {
			r := &server.Request{Method: "tools/call", Params: json.RawMessage(params), Version: version}
			assert.Equal(t, int64(-32602), handleCode(t, s, r), "%s %s", version, params)
		}
		for _, method := range []string{"tools/callSaga", "tools/resumeSaga", "tools/cancelSaga"} {
			assert.Equal(t, int64(-32602), handleCode(t, s, &server.Request{Method: method, Version: version}), method)
		}
	}
	assert.Equal(t, int64(-32602), handleCode(t, s, &server.Request{Method: "tools/call", Params: json.RawMessage(`{"name":"ask"}`), Version: "2026-07-28"}), "no _meta")
	future := strings.Replace(`{"name":"ask",`+modern+`}`, "2026-07-28", "2026-07-29", 1)
	assert.Equal(t, int64(-32022), handleCode(t, s, &server.Request{Method: "tools/call", Params: json.RawMessage(future), Version: "2026-07-29"}))
	for _, capabilities := range []string{`7`, `{`, `{"elicitation":7}`} {
		r := &server.Request{Method: "tools/call", Params: json.RawMessage(`{"name":"ask"}`), Version: "2025-11-25", Capabilities: json.RawMessage(capabilities)}
		assert.Equal(t, int64(-32602), handleCode(t, s, r), capabilities)
	}
	assert.NotContains(t, log.take(), "level=ERROR")
}

// What a gateway may have gone by is compared for guests, too, where their transports
// do not know that it could be there.
func TestGuestsHeaders(t *testing.T) {
	s, _ := newGuest(t, server.Options{Tools: []saga.Definition{headerTool()}})
	const (
		modern = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}`
		call   = `{"name":"headers","arguments":{"region":"eu"}`
	)
	for _, c := range []struct {
		method, meta, header, value string
		refused                     bool
	}{
		{"tools/callSaga", modern, "Mcp-Param-Region", "eu", false},
		{"tools/callSaga", modern, "Mcp-Param-Region", "us", true},
		{"tools/callSaga", modern, "Mcp-Param-Level", "1", true},
		{"tools/callSaga", modern, "Mcp-Name", "headers", false},
		{"tools/callSaga", modern, "Mcp-Name", "else", true},
		{"tools/callSaga", "}", "Mcp-Name", "else", true},
		{"tools/callSaga", "}", "Mcp-Method", "tools/call", true},
		{"tools/call", "}", "Mcp-Name", "else", true},
		{"tools/call", "}", "Mcp-Name", "headers", false},
	} {
		r := &server.Request{Method: c.method, Version: "2025-11-25", Params: json.RawMessage(call + c.meta), Header: http.Header{c.header: {c.value}}}
		if c.refused {
			assert.Equal(t, int64(-32020), handleCode(t, s, r), "%+v", c)
			continue
		}
		result, err := s.Handle(t.Context(), r)
		require.NoError(t, err, "%+v", c)
		assert.Contains(t, string(result), "region=eu")
	}
}

// JSON may have spaces anywhere.
func TestGuestsMayWriteSpaces(t *testing.T) {
	s, _ := newGuest(t, server.Options{Tools: legacyDefinitions()})
	for version, params := range map[string]string{
		"2025-11-25": " {\n \"name\" : \"talk\" }\n",
		"2026-07-28": "\t{ \"name\" : \"talk\", \"_meta\" : { \"io.modelcontextprotocol/protocolVersion\" : \"2026-07-28\" , \"io.modelcontextprotocol/clientCapabilities\" : { \"elicitation\" : { } } } }",
	} {
		p := &guestPeer{ask: func(context.Context, string, json.RawMessage) (steps.Answer, error) {
			return steps.Answer{Result: json.RawMessage(`{"action":"accept","content":{"name":"a"}}`)}, nil
		}}
		result, err := s.Handle(t.Context(), &server.Request{Method: "tools/call", Params: json.RawMessage(params), Version: version, Capabilities: json.RawMessage(" { \"elicitation\" : {} } "), Peer: p})
		require.NoError(t, err)
		assert.True(t, jsontest.Get(result, "content").Exists() || jsontest.Get(result, "inputRequests").Exists(), string(result))
	}
}

// Without a peer nobody is asked, whatever was declared.
func TestGuestsWithoutPeer(t *testing.T) {
	held := map[saga.Key]bool{}
	s, _ := newGuest(t, server.Options{Tools: []saga.Definition{roomTool(1, held)}})
	result, err := s.Handle(t.Context(), &server.Request{Method: "tools/call", Params: json.RawMessage(`{"name":"room"}`), Version: "2025-11-25", Capabilities: json.RawMessage(elicits)})
	require.NoError(t, err)
	assert.True(t, jsontest.Get(result, "isError").Bool(), string(result))
	assert.Empty(t, held)
}

// Whatever ends the wait for an answer, what was done is undone; and what is nobody's
// fault is not logged as one.
func TestGuestsThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	call := func(p server.Peer) *server.Request {
		return &server.Request{Method: "tools/call", Params: json.RawMessage(`{"name":"room"}`), Version: "2025-11-25", Capabilities: json.RawMessage(elicits), Peer: p}
	}
	for name, c := range map[string]struct {
		options server.Options
		end     func(s *server.Server, cancel context.CancelCauseFunc)
		peer    server.Peer
		text    string
	}{
		"the client is gone": {peer: &guestPeer{ask: func(context.Context, string, json.RawMessage) (steps.Answer, error) {
			return steps.Answer{}, errors.New("secret detail")
		}}, text: "the session ended before the client had answered"},
		"the connection broke":      {end: func(_ *server.Server, cancel context.CancelCauseFunc) { cancel(io.ErrUnexpectedEOF) }, text: "internal error"},
		"the request was cancelled": {end: func(_ *server.Server, cancel context.CancelCauseFunc) { cancel(nil) }, text: "internal error"},
		"the server stops":          {end: func(s *server.Server, _ context.CancelCauseFunc) { s.CloseStreams() }, text: "the server stops; call again"},
		"it takes too long":         {options: server.Options{TokenTTL: time.Second}, end: func(*server.Server, context.CancelCauseFunc) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held := map[saga.Key]bool{}
			o := c.options
			o.Tools = []saga.Definition{roomTool(1, held)}
			s, log := newGuest(t, o)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			peer := c.peer
			if peer == nil {
				asked := make(chan struct{})
				peer = mutePeer(asked)
				go func() { <-asked; c.end(s, cancel) }()
			}
			result, err := s.Handle(ctx, call(peer))
			if c.text == "" {
				require.NoError(t, err)
				assert.True(t, jsontest.Get(result, "isError").Bool(), string(result))
			} else {
				var fail *server.Error
				require.ErrorAs(t, err, &fail)
				assert.Equal(t, c.text, fail.Message)
			}
			assert.Empty(t, held)
			assert.NotContains(t, log.take(), "level=ERROR")
		})
	}
}

// What a guest is shown in lists is what it can ask for.
func TestGuestEntries(t *testing.T) {
	s, _ := newGuest(t, server.Options{Tools: legacyDefinitions()})
	names := func(method, name string) (all []string) {
		for _, e := range s.Entries(method) {
			all = append(all, jsontest.Get(e, name).String())
		}
		return all
	}
	assert.Contains(t, names("tools/list", "name"), "ask")
	assert.False(t, slices.Contains(names("tools/list", "name"), ""))
	for _, method := range []string{"prompts/list", "resources/list", "resources/templates/list"} {
		assert.NotContains(t, names(method, "name"), "ask")
	}
	assert.Contains(t, names("prompts/list", "name"), "greeting")
	assert.Nil(t, s.Entries("tools/call"))
}
