package hostile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// Target is a server that is measured.
type Target struct {
	handler  http.Handler
	sessions map[string]string // by version
	tokens   map[string]string // of a saga that waits, by dialect
	task     string            // the id of a task that waits; empty if the server has none
}

// NewTarget prepares a server that serves the tools of Definitions for requests: it opens
// sessions, and begins sagas that can be resumed.
func NewTarget(h http.Handler) (*Target, error) {
	t := &Target{handler: h, sessions: map[string]string{}, tokens: map[string]string{}}
	for _, version := range []string{session, batches} {
		_, header, err := t.Send(t.request("initialize", "", "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{}}}`))
		if err != nil {
			return nil, err
		}
		if t.sessions[version] = header.Get("Mcp-Session-Id"); t.sessions[version] == "" {
			return nil, fmt.Errorf("hostile: no session of %s was opened", version)
		}
	}
	for dialect, method := range map[string]string{proposal: "tools/callSaga", stateless: "tools/call"} {
		body, _, err := t.Send(t.request("begin", dialect, method, messageOf(dialect, method, `{"name":"ask"}`)))
		if err != nil {
			return nil, err
		}
		if _, data, ok := bytes.Cut(body, []byte("data: ")); ok { // a stream of one event
			body = data
		}
		var reply struct {
			Result struct{ SagaToken, RequestState string }
		}
		err = json.Unmarshal(bytes.TrimSpace(body), &reply)
		if t.tokens[dialect] = reply.Result.SagaToken + reply.Result.RequestState; t.tokens[dialect] == "" {
			return nil, fmt.Errorf("hostile: no saga was begun: %w: %s", err, body)
		}
	}
	return t, t.begin()
}

// begin begins a task, if the server has tasks, and waits until it asks.
func (t *Target) begin() error {
	body, _, err := t.Send(t.request("begin", stateless, "tools/call", messageOf(stateless, "tools/call", `{"name":"later"}`)))
	if err != nil {
		return err
	}
	id, ok := jsonview.String(jsonview.Get(body, "result", "taskId"))
	for t.task = id; ok; time.Sleep(time.Millisecond) {
		get := t.request("begin", stateless, "tasks/get", messageOf(stateless, "tasks/get", `{"taskId":"`+id+`"}`))
		if body, _, err = t.Send(get); err != nil || jsonview.Is(jsonview.Get(body, "result", "status"), "input_required") {
			return err
		}
	}
	return nil
}

// messageOf is a request whose params are JSON, with what the dialect adds to them.
func messageOf(dialect, method, params string) string {
	if dialect == stateless && strings.HasSuffix(params, "}") {
		params = strings.TrimSuffix(params, "}") + `,"_meta":` + metaOf(`{"elicitation":{"form":{}},"sampling":{},"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`) + "}"
	}
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`
}

// Requests are the requests of about a size, of all methods in all dialects: those
// whose names are wanted, or all if wanted is nil.
func (t *Target) Requests(size int, wanted func(name string) bool) iter.Seq[*Request] {
	return func(yield func(*Request) bool) {
		for _, dialect := range []string{proposal, stateless, session, batches} {
			for _, s := range samples(dialect) {
				places := holes(s.json)
				for _, path := range slices.Sorted(maps.Keys(places)) {
					p := places[path]
					shapes := p.shapes
					if p.list || path == "" {
						shapes = slices.Concat(shapes, s.extra)
					}
					for _, shape := range shapes {
						name := strings.Join([]string{dialect, s.method, strings.TrimPrefix(s.where+path, "."), shape.name}, ", ")
						if wanted != nil && !wanted(name) {
							continue
						}
						message := strings.Replace(s.whole, hole, p.around, 1)
						if s.whole == "" {
							message = messageOf(dialect, s.method, strings.Replace(s.params, hole, p.around, 1))
						}
						message = strings.Replace(strings.ReplaceAll(message, token, t.tokens[dialect]), hole, shape.make(size), 1)
						message = strings.ReplaceAll(message, task, t.task)
						if !yield(t.request(name, dialect, s.method, message)) {
							return
						}
					}
				}
			}
		}
		t.headers(min(size, 60<<10), wanted, yield)
	}
}

// headers are requests whose cost is in their header, which has 64 KiB at most.
func (t *Target) headers(size int, wanted func(name string) bool, yield func(*Request) bool) {
	for _, name := range []string{"Accept", "Mcp-Method", "Mcp-Name", "Origin", "Last-Event-Id", "Mcp-Session-Id", "Mcp-Protocol-Version", "Content-Type", "X"} {
		for _, unit := range []string{"a", "a,", "a;b=c,", "=?base64?", "=?base64?QUJD?=", "http://a,", "é"} {
			for _, many := range []bool{false, true} {
				r := t.request(strings.Join([]string{"header", name, unit, "many: " + strconv.FormatBool(many)}, ", "), "", "", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
				if wanted != nil && !wanted(r.Name) {
					continue
				}
				r.Header.Set(name, fill(unit, size))
				if many {
					r.Header[name] = slices.Repeat([]string{unit}, size/(len(unit)+len(name)+4))
				}
				if !yield(r) {
					return
				}
			}
		}
	}
}

// Send has a request answered, and returns the response.
func (t *Target) Send(r *Request) ([]byte, http.Header, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	q := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/mcp", bytes.NewReader(r.Body))
	q.Header = r.Header
	w := &leaver{httptest.NewRecorder(), func() {}}
	if bytes.Contains(r.Body, []byte("subscriptions/listen")) {
		w.leave = cancel // a stream without an end is left when it has said something
	}
	t.handler.ServeHTTP(w, q)
	if w.Code >= 500 || bytes.Contains(w.Body.Bytes(), []byte(`"code":-32603`)) {
		return nil, nil, fmt.Errorf("hostile: %s: the server takes the fault on itself: %d %.300s", r.Name, w.Code, w.Body.String())
	}
	return w.Body.Bytes(), w.Header(), nil
}

// leaver is a client that may leave at the first words.
type leaver struct {
	*httptest.ResponseRecorder
	leave func()
}

func (l *leaver) Write(b []byte) (int, error) {
	defer l.leave()
	return l.ResponseRecorder.Write(b)
}
