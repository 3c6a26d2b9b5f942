package interop

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// front is what clients connect to. It passes everything on to a load balancer, and notes it.
type front struct {
	*httptest.Server
	began time.Time
	// accepted, if it is not nil, is called when a replica has accepted an answer, before the
	// client hears of it.
	accepted func(session, question string)
	// outage: whoever wants to go on with the stream of a call gets a 502.
	outage atomic.Bool

	mu   sync.Mutex
	log  []*exchange
	asks map[string]string // questions by session and id
}

// exchange is an HTTP request and what came of it.
type exchange struct {
	at      time.Duration
	session string
	method  string // of HTTP
	what    string // of JSON-RPC
	mark    string // Last-Event-ID
	status  int
	replica string // which answered, as the load balancer says
	stream  bool   // the answer is a stream of events
	calls   bool   // the stream of a call, not the client's general one
	heard   []string
	end     string // of the stream: empty while it is open
	// When the answer began, and when the stream ended.
	answered, ended time.Duration
}

// replicaHeader says which replica has answered. The load balancers of these tests add it.
const replicaHeader = "X-Replica"

// newFront stands before a load balancer at an address.
func newFront(t *testing.T, balancer string) *front {
	t.Helper()
	f := &front{began: time.Now(), asks: map[string]string{}}
	target := &url.URL{Scheme: "http", Host: balancer}
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	pass := &httputil.ReverseProxy{
		FlushInterval: -1, Transport: transport, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target); p.Out.Host = p.In.Host },
		ModifyResponse: func(r *http.Response) error {
			f.answered(r.Request.Context().Value(exchangeKey{}).(*exchange), r)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			e := r.Context().Value(exchangeKey{}).(*exchange)
			f.mu.Lock()
			e.end = "no answer: " + err.Error()
			f.mu.Unlock()
			panic(http.ErrAbortHandler)
		},
	}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		e := f.note(r, body)
		if f.outage.Load() && r.Method == http.MethodGet && f.callStream(e) {
			f.mu.Lock()
			e.calls, e.status, e.end = true, http.StatusBadGateway, "done"
			f.mu.Unlock()
			http.Error(w, "Bad Gateway", http.StatusBadGateway)
			return
		}
		pass.ServeHTTP(w, r.WithContext(withExchange(r.Context(), e)))
	}))
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
		if t.Failed() {
			said := f.wire("")
			if file := os.Getenv("SAGA_WIRE_LOG"); file != "" { // all of it, for whoever looks for a fault
				_ = os.WriteFile(file+strings.NewReplacer("/", "-", " ", "_").Replace(t.Name()), []byte(said), 0o600)
			}
			t.Logf("what passed last:\n%s", said[max(0, len(said)-8000):])
		}
	})
	return f
}

func (f *front) url() string { return f.URL + "/mcp" }

// note begins the entry of a request.
func (f *front) note(r *http.Request, body []byte) *exchange {
	e := &exchange{
		at: time.Since(f.began), session: r.Header.Get("Mcp-Session-Id"), method: r.Method,
		what: summary(body), mark: r.Header.Get("Last-Event-ID"),
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, e)
	return e
}

// summary is what a message is about.
func summary(body []byte) string {
	var m rawMessage
	if json.Unmarshal(body, &m) != nil {
		return ""
	}
	switch {
	case m.Method != "" && m.ID != nil:
		return fmt.Sprintf("%s #%s", m.Method, m.ID)
	case m.Method != "":
		return m.Method
	case m.Error != nil:
		return fmt.Sprintf("error %d to #%s", m.Error.Code, m.ID)
	}
	return fmt.Sprintf("answer to #%s", m.ID)
}

const answerTo = "answer to #"

// answered completes the entry when the answer begins.
func (f *front) answered(e *exchange, r *http.Response) {
	f.mu.Lock()
	replicas := strings.Split(r.Header.Get(replicaHeader), ", ") // nginx says all that it tried
	r.Header.Del(replicaHeader)
	e.status, e.replica, e.answered = r.StatusCode, replicas[len(replicas)-1], time.Since(f.began)
	if s := r.Header.Get("Mcp-Session-Id"); s != "" && e.session == "" {
		e.session = s
	}
	if e.stream = strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream"); e.stream {
		e.calls = e.method == http.MethodPost || f.resumes(e)
		r.Body = &tapped{ReadCloser: r.Body, front: f, exchange: e}
	} else {
		e.end = "done"
	}
	question, accepted := "", f.accepted
	if id, ok := strings.CutPrefix(e.what, answerTo); ok && e.status == http.StatusAccepted {
		question = f.asks[e.session+" "+id]
	}
	f.mu.Unlock()
	if question != "" && accepted != nil {
		accepted(e.session, question)
	}
}

// callStream reports whether a request is for the stream of a call.
func (f *front) callStream(e *exchange) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.resumes(e)
}

// resumes is callStream under the lock.
func (f *front) resumes(e *exchange) bool {
	return e.mark != "" && slices.ContainsFunc(f.log, func(o *exchange) bool {
		return o.calls && o.session == e.session && slices.ContainsFunc(o.heard, func(h string) bool {
			return streamOf(h) != "" && streamOf(h) == streamOf("id "+e.mark)
		})
	})
}

// streamOf is the name of the stream of which something with an id was heard.
func streamOf(heard string) string {
	_, id, _ := strings.Cut(heard, "id ")
	return id[:max(strings.LastIndexByte(id, '_'), 0)]
}

// tapped is the body of a stream.
type tapped struct {
	io.ReadCloser
	front    *front
	exchange *exchange
	line     []byte
}

// Read implements io.Reader.
func (b *tapped) Read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	b.front.mu.Lock()
	defer b.front.mu.Unlock()
	b.line = append(b.line, p[:n]...)
	for {
		i := bytes.IndexByte(b.line, '\n')
		if i < 0 {
			break
		}
		b.heard(strings.TrimSuffix(string(b.line[:i]), "\r"))
		b.line = b.line[i+1:]
	}
	if err != nil && b.exchange.end == "" {
		b.exchange.end = "ended"
		if err != io.EOF {
			b.exchange.end = "broke"
		}
		b.exchange.ended = time.Since(b.front.began)
	}
	return n, err
}

// Close implements io.Closer.
func (b *tapped) Close() error {
	b.front.mu.Lock()
	if b.exchange.end == "" {
		b.exchange.end = "left"
	}
	b.front.mu.Unlock()
	return b.ReadCloser.Close()
}

// heard notes a line of a stream.
func (b *tapped) heard(line string) {
	field, value, _ := strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	e := b.exchange
	switch field {
	case "id":
		e.heard = append(e.heard, "id "+value)
	case "retry":
		e.heard = append(e.heard, "retry "+value)
	case "":
		if line != "" {
			e.heard = append(e.heard, "comment")
		}
	case "data":
		if value == "" {
			return
		}
		e.heard = append(e.heard, summary([]byte(value)))
		var m rawMessage
		if json.Unmarshal([]byte(value), &m) == nil && m.Method != "" && m.ID != nil {
			b.front.asks[e.session+" "+string(m.ID)] = questionIn(m)
		}
	}
}

// questionIn is what a request of the server's asks, as the users of these tests know it.
func questionIn(m rawMessage) string {
	var p struct {
		Message  string
		Messages []struct{ Content struct{ Text string } }
	}
	_ = json.Unmarshal(m.Params, &p)
	if len(p.Messages) > 0 {
		p.Message = p.Messages[0].Content.Text
	}
	first, _, _ := strings.Cut(p.Message, "\n")
	return first
}

// entries are those of a session, or all.
func (f *front) entries(session string) (list []exchange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.log {
		if session == "" || e.session == session {
			c := *e
			c.heard = slices.Clone(e.heard)
			list = append(list, c)
		}
	}
	return list
}

// forget begins a new log.
func (f *front) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log, f.began = nil, time.Now()
}

// sessions are those that were seen, in the order in which they began.
func (f *front) sessions() (all []string) {
	for _, e := range f.entries("") {
		if e.session != "" && !slices.Contains(all, e.session) {
			all = append(all, e.session)
		}
	}
	return all
}

// errOver says that there is nothing to wait for any more.
var errOver = errors.New("the call has ended")

// holder waits for the stream of a call that is open, and returns which replica has it.
// A session is needed only where there are several at once.
func (f *front) holder(session string) (replica string, err error) {
	for deadline := time.Now().Add(time.Minute); ; {
		list := f.entries(session)
		slices.Reverse(list)
		for _, e := range list {
			if e.calls && e.end == "" {
				return e.replica, nil
			}
			if e.calls && slices.ContainsFunc(e.heard, func(h string) bool { return strings.HasPrefix(h, answerTo) }) {
				return "", errOver
			}
		}
		if time.Now().After(deadline) {
			return "", fmt.Errorf("no stream is open")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// wire is the log as text.
func (f *front) wire(session string) string {
	names := map[string]string{}
	for i, s := range f.sessions() {
		names[s] = fmt.Sprintf("s%d", i+1)
	}
	var b strings.Builder
	for _, e := range f.entries(session) {
		fmt.Fprintf(&b, "%7.3f %-3s %-6s %-40s -> %s %3d after %.3f", e.at.Seconds(), names[e.session], e.method, strings.TrimSpace(e.what+" "+prefixed("after ", e.mark)), e.replica, e.status, max(0, e.answered-e.at).Seconds())
		if e.stream {
			fmt.Fprintf(&b, " [%s] %s", strings.Join(e.heard, "; "), e.end)
		} else if e.end != "done" {
			fmt.Fprintf(&b, " %s", e.end)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func prefixed(with, s string) string {
	if s == "" {
		return ""
	}
	return with + s
}

// requireSpread: each POST of a session went to another replica than the one before, and all
// replicas had their share. Requests at the same time may reach the load balancer in another order
// than this log has, so only those are compared before which all was answered, and which no two others
// can have overtaken; on a machine with much to do that may be few.
func (f *front) requireSpread(t *testing.T, replicas int) {
	t.Helper()
	require.NotEmpty(t, f.sessions())
	had, posts, pairs := map[string]int{}, 0, 0
	var answered time.Duration // all before
	list := f.entries("")
	for i, e := range list {
		inTurn := i > 0 && answered > 0 && answered < e.at
		answered = max(answered, e.answered)
		if e.answered == 0 {
			answered = time.Hour
		}
		if e.method != http.MethodPost || e.answered == 0 { // a client that closes does not wait for all
			continue
		}
		require.NotEmpty(t, e.replica)
		posts++
		had[e.replica]++
		inTurn = inTurn && (i+2 >= len(list) || list[i+2].at > e.answered)
		if before := list[max(0, i-1)]; inTurn && before.method == http.MethodPost && before.session == e.session {
			pairs++
			require.NotEqual(t, before.replica, e.replica, "%s went to the same replica as the POST before:\n%s", e.what, f.wire(e.session))
		}
	}
	require.Len(t, had, replicas, "of %d POSTs", posts)
	for replica, n := range had {
		require.GreaterOrEqual(t, n, posts/replicas/2, "POSTs to %s, of %d", replica, posts)
	}
	require.Positive(t, pairs, "of %d POSTs", posts)
	t.Logf("%d POSTs, %d compared", posts, pairs)
}
