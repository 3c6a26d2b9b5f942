package legacy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/client/legacy"
)

// floodHTTP is a server that opens a session, and then writes without end.
type floodHTTP struct {
	piece string // what it writes, over and over; %d is a number
	begin string
	kind  string // the type of the content
	get   bool   // on the stream that belongs to no request
	deaf  bool   // it does not take answers
	mute  bool   // it does not say whether there is such a stream
	slow  bool   // the handler of its messages takes as long as the call
}

// ServeHTTP implements [http.Handler].
func (f *floodHTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	_ = json.NewDecoder(r.Body).Decode(&m)
	w.Header().Set("Mcp-Session-Id", "s")
	switch {
	case m.Method == "initialize":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}`, m.ID)
	case m.Method == "tools/call" && f.get:
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case m.Method == "tools/call", r.Method == http.MethodGet && f.get:
		w.Header().Set("Content-Type", f.kind)
		f.flood(w)
	case r.Method == http.MethodPost && m.Method == "" && f.deaf, r.Method == http.MethodGet && f.mute:
		<-r.Context().Done()
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func (f *floodHTTP) flood(w io.Writer) {
	out := bufio.NewWriterSize(w, 64<<10)
	_, err := out.WriteString(f.begin)
	for i := 0; err == nil; i++ {
		piece := f.piece
		if strings.Contains(piece, "%d") {
			piece = fmt.Sprintf(piece, i)
		}
		_, err = out.WriteString(piece)
	}
}

// A session over HTTP does not keep what a server sends faster than it is handled, nor an event without an end: the call
// ends with a plain error, or when its caller says, and the session is closed at once.
func TestFloodsInSessionsOverHTTP(t *testing.T) {
	const events = "text/event-stream"
	note := func(method, params string) string {
		return `data: {"jsonrpc":"2.0","method":"notifications/` + method + `","params":` + params + "}\n\n"
	}
	log, ping, kilobyte := note("message", `{"level":"info","data":"x"}`), `data: {"jsonrpc":"2.0","id":"%d","method":"ping"}`+"\n\n", strings.Repeat("x", 1<<10)
	const late, long = "context deadline exceeded", "more than 8388608 bytes in an event"
	const owed = "more than 1000 messages while it waits for no answers"
	for name, c := range map[string]struct {
		flood floodHTTP
		want  string
	}{
		"logs":             {floodHTTP{kind: events, piece: log}, late},
		"progress":         {floodHTTP{kind: events, piece: note("progress", `{"progressToken":1,"progress":%d}`)}, late},
		"a slow handler":   {floodHTTP{kind: events, piece: note("progress", `{"progressToken":1,"progress":%d}`), slow: true}, late},
		"pings":            {floodHTTP{kind: events, piece: ping}, late + "|" + owed}, // as fast as answers go out
		"pings, all alone": {floodHTTP{kind: events, piece: ping, deaf: true}, owed},
		"comments":         {floodHTTP{kind: events, piece: ": x\n\n"}, late},
		"empty lines":      {floodHTTP{kind: events, piece: "\r\n"}, late},
		"ids":              {floodHTTP{kind: events, piece: "id: %d\n\n"}, late},
		"one event":        {floodHTTP{kind: events, begin: "data: ", piece: kilobyte}, long},
		"one comment":      {floodHTTP{kind: events, begin: ": ", piece: kilobyte}, long},
		"many lines":       {floodHTTP{kind: events, piece: "data: xxxxxxxxxxxxxxxxxxx\n"}, long},
		"a response":       {floodHTTP{kind: "application/json", begin: `{"jsonrpc":"2.0","id":2,"result":"`, piece: kilobyte}, "more than 8388608 bytes in an answer"},
		"nothing beside":   {floodHTTP{mute: true}, late},
		"logs beside":      {floodHTTP{get: true, kind: events, piece: log}, late},
		"one event beside": {floodHTTP{get: true, kind: events, begin: "data: ", piece: kilobyte}, long},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(&c.flood)
			defer s.Close()
			defer s.CloseClientConnections()
			caller := client.New(&client.HTTP{URL: s.URL}, client.Options{Protocol: "2025-11-25", Sessions: legacy.Open})
			patience := 2 * time.Second
			if c.flood.slow {
				patience = 6 * time.Second
			}
			if !strings.HasPrefix(c.want, late) {
				patience = time.Minute // it need not be fast, but it has to end by itself
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			heap := peak(ctx)
			began := time.Now()
			_, err := caller.Call(ctx, "deploy", nil, client.Handlers{OnProgress: func(client.Progress) {
				if c.flood.slow {
					<-ctx.Done()
				}
			}})
			require.Error(t, err)
			assert.Regexp(t, c.want, err.Error())
			assert.Equal(t, strings.Contains(err.Error(), "more than"), errors.As(err, new(*client.ProtocolError)))
			_ = caller.Close()
			assert.Less(t, time.Since(began), patience+5*time.Second)
			cancel()
			assert.Less(t, <-heap>>20, uint64(400), "MB of heap, garbage included: thousands without a bound")
		})
	}
}

// peak sends the largest size of the heap until ctx ends.
func peak(ctx context.Context) <-chan uint64 {
	found := make(chan uint64, 1)
	go func() {
		most, now := uint64(0), runtime.MemStats{}
		for tick := time.NewTicker(20 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
		}
		found <- most
	}()
	return found
}
