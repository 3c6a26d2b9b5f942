package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
)

// Target is a server that is measured.
type Target struct {
	handler      http.Handler
	sessions     map[string]string // by version
	token, state string
}

// NewTarget prepares a server that serves [Definitions] for requests: it opens
// sessions, and begins sagas that can be resumed.
func NewTarget(h http.Handler) (*Target, error) {
	t := &Target{handler: h, sessions: map[string]string{}}
	for _, version := range []string{session, batches} {
		_, header, err := t.Send(t.plain(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{}}}`))
		if err != nil {
			return nil, err
		}
		if t.sessions[version] = header.Get("Mcp-Session-Id"); t.sessions[version] == "" {
			return nil, fmt.Errorf("hostile: no session of %s was opened", version)
		}
	}
	body, _, err := t.Send(t.plain(`{"jsonrpc":"2.0","id":0,"method":"tools/callSaga","params":{"name":"ask","arguments":{}}}`))
	if err != nil {
		return nil, err
	}
	modern := t.plain(`{"jsonrpc":"2.0","id":0,"method":"tools/call","params":` + withMeta(`{"name":"ask"`, everything, `"x":0`) + `}`)
	modern.Header.Set("Mcp-Protocol-Version", stateless)
	modern.Header.Set("Mcp-Method", "tools/call")
	setName(modern, "tools/call")
	asked, _, err := t.Send(modern)
	if err != nil {
		return nil, err
	}
	var result struct {
		Result struct{ SagaToken, RequestState string }
	}
	if _, data, ok := bytes.Cut(asked, []byte("data: ")); ok { // a stream of one event
		asked = data
	}
	for _, raw := range [][]byte{body, bytes.TrimSpace(asked)} {
		if err := json.Unmarshal(raw, &result); err != nil {
			return nil, fmt.Errorf("hostile: no saga was begun: %w: %s", err, raw)
		}
	}
	if t.token, t.state = result.Result.SagaToken, result.Result.RequestState; t.token == "" || t.state == "" {
		return nil, fmt.Errorf("hostile: no saga was begun: %s %s", body, asked)
	}
	return t, nil
}

func (t *Target) plain(body string) *Request {
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json, text/event-stream")
	return &Request{Name: "plain", Header: h, Body: []byte(body)}
}

// Requests are the requests of about a size, of all methods in all dialects: those
// whose names are wanted, or all if wanted is nil.
func (t *Target) Requests(size int, wanted func(name string) bool) iter.Seq[*Request] {
	if wanted == nil {
		wanted = func(string) bool { return true }
	}
	return func(yield func(*Request) bool) {
		m := maker{t, size, wanted, yield}
		_ = m.places("saga", sagaPlaces(t.token)) && m.places(stateless, statelessPlaces(t.state)) &&
			m.places(session, sessionPlaces()) && m.places(batches, batchPlaces()) && m.headers()
	}
}

// maker makes requests. Its methods report whether to go on.
type maker struct {
	*Target
	size   int
	wanted func(name string) bool
	yield  func(*Request) bool
}

// headers are requests whose cost is in their header, which has 64 KiB at most.
func (m *maker) headers() bool {
	size := min(m.size, 60<<10)
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for _, name := range []string{"Accept", "Mcp-Method", "Mcp-Name", "Origin", "Last-Event-Id", "Mcp-Session-Id", "Mcp-Protocol-Version", "Content-Type", "X"} {
		for _, unit := range []string{"a", "a,", "a;b=c,", "=?base64?", "=?base64?QUJD?=", "http://a,", "é"} {
			for _, many := range []bool{false, true} {
				r := m.plain(list)
				r.Name = strings.Join([]string{"header", name, unit, "many: " + strconv.FormatBool(many)}, ", ")
				if !m.wanted(r.Name) {
					continue
				}
				r.Header.Del(name)
				if many {
					for range size / (len(unit) + len(name) + 4) {
						r.Header.Add(name, unit)
					}
				} else {
					r.Header.Set(name, fill(unit, size))
				}
				if !m.yield(r) {
					return false
				}
			}
		}
	}
	return true
}

// Send has a request answered, and returns the response.
func (t *Target) Send(r *Request) ([]byte, http.Header, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	q := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/mcp", bytes.NewReader(r.Body))
	q.Header = r.Header
	// A stream without an end is left when it has said something.
	w := &leaver{ResponseRecorder: httptest.NewRecorder(), leave: cancel, listens: bytes.Contains(r.Body, []byte("subscriptions/listen"))}
	t.handler.ServeHTTP(w, q)
	if w.Code >= 500 || bytes.Contains(w.Body.Bytes(), []byte(`"code":-32603`)) {
		return nil, nil, fmt.Errorf("hostile: %s: the server takes the fault on itself: %d %.300s", r.Name, w.Code, w.Body.String())
	}
	return w.Body.Bytes(), w.Header(), nil
}

// leaver is a client that leaves a subscription at its first words.
type leaver struct {
	*httptest.ResponseRecorder
	leave   func()
	listens bool
}

func (l *leaver) Write(b []byte) (int, error) {
	if l.listens {
		defer l.leave()
	}
	return l.ResponseRecorder.Write(b)
}
