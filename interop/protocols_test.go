package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

var update = flag.Bool("update", false, "write docs/protocols.md anew")

const (
	protocols         = "../docs/protocols.md"
	protocolsTemplate = "testdata/protocols.md.tmpl"
)

// TestProtocols records one tool's exchange in each dialect and compares it with
// docs/protocols.md, or writes that.
func TestProtocols(t *testing.T) {
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	s, err := server.New(server.Options{
		Tools: []saga.Definition{complextool.Tool, bookRoom()}, Keys: keys, Name: "example", Version: "1.0.0",
	})
	require.NoError(t, err)
	hs := httptest.NewServer(s.Handler())
	defer hs.Close()

	dialect := func(run func(*recorder)) func() string {
		return func() string {
			r := &recorder{t: t, url: hs.URL + server.Endpoint}
			run(r)
			return strings.TrimSpace(r.out.String())
		}
	}
	page, err := template.New("protocols.md.tmpl").Funcs(template.FuncMap{
		"proposal": dialect(recordProposal), "stateless": dialect(recordStateless), "handshake": dialect(recordHandshake),
		"cancel": dialect(recordCancel), "cancelState": dialect(recordCancelState),
	}).ParseFiles(protocolsTemplate)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, page.Execute(&out, nil))
	if *update {
		require.NoError(t, os.WriteFile(protocols, out.Bytes(), 0o644))
	}
	want, err := os.ReadFile(protocols)
	require.NoError(t, err)
	require.Equal(t, string(want), out.String(), "go test ./interop -run TestProtocols -update writes it anew")
}

// The answers that both questions of the tool get.
const (
	targetAnswer = `{"action":"accept","content":{"target":"production"}}`
	modelAnswer  = `{"role":"assistant","model":"a-model","content":{"type":"text","text":"Yes, all systems are green."}}`
)

func recordProposal(r *recorder) {
	first := r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"complex_tool","arguments":{"initial_arg":"value"}}}`)
	const answers = `{"stepId":"step-elicitation-A","result":` + targetAnswer + `}`
	resume := `{"jsonrpc":"2.0","id":%d,"method":"tools/resumeSaga","params":{"sagaToken":%q,"completedSteps":[%s]}}`
	second := r.post(fmt.Sprintf(resume, 2, member(r.t, first, "sagaToken"), answers))
	last := r.post(fmt.Sprintf(resume, 3, member(r.t, second, "sagaToken"), answers+`,{"stepId":"step-sampling-B","result":`+modelAnswer+`}`))
	require.Contains(r.t, last, "initiated successfully")
}

func recordStateless(r *recorder) {
	const (
		meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{}}}`
		call = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"complex_tool","arguments":{"initial_arg":"value"},%s` + meta + `}}`
		back = `"inputResponses":{%q:%s},"requestState":%q,`
	)
	headers := []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: complex_tool"}
	first := r.post(fmt.Sprintf(call, 1, ""), headers...)
	second := r.post(fmt.Sprintf(call, 2, fmt.Sprintf(back, "step-elicitation-A", targetAnswer, member(r.t, first, "requestState"))), headers...)
	last := r.post(fmt.Sprintf(call, 3, fmt.Sprintf(back, "step-sampling-B", modelAnswer, member(r.t, second, "requestState"))), headers...)
	require.Contains(r.t, last, "initiated successfully")
}

func recordHandshake(r *recorder) {
	r.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"sampling":{}},"clientInfo":{"name":"example-client","version":"1.0.0"}}}`)
	headers := []string{"MCP-Protocol-Version: 2025-11-25", "Mcp-Session-Id: " + r.session}
	r.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, headers...)
	events, stop := r.open(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"complex_tool","arguments":{"initial_arg":"value"}}}`, headers...)
	defer stop()
	for _, answer := range []string{targetAnswer, modelAnswer} {
		question := r.event(events)
		r.post(`{"jsonrpc":"2.0","id":`+member(r.t, question, "id")+`,"result":`+answer+`}`, headers...)
	}
	require.Contains(r.t, r.event(events), "initiated successfully")
	r.request(http.MethodDelete, "", headers...)
}

// recorder sends requests and writes down what went over the wire.
type recorder struct {
	t       *testing.T
	url     string
	out     strings.Builder
	tokens  []string
	session string
	// questions are the ids of the server's own requests.
	questions []string
}

// post sends a message and returns the response's body.
func (r *recorder) post(message string, headers ...string) string {
	return r.request(http.MethodPost, message, headers...)
}

func (r *recorder) request(verb, message string, headers ...string) string {
	w := r.send(verb, message, headers...)
	defer w.Body.Close()
	body, err := io.ReadAll(w.Body)
	require.NoError(r.t, err)
	r.block(r.head(w) + r.pretty(string(body)))
	return string(body)
}

// open sends a message whose response is a stream of events.
func (r *recorder) open(message string, headers ...string) (*bufio.Reader, func() error) {
	w := r.send(http.MethodPost, message, headers...)
	require.Equal(r.t, "text/event-stream", w.Header.Get("Content-Type"))
	events := bufio.NewReader(w.Body)
	r.block(r.head(w) + r.read(events))
	return events, w.Body.Close
}

// event waits for the next event of a stream.
func (r *recorder) event(events *bufio.Reader) string {
	r.out.WriteString("On the stream that the call opened:\n\n")
	event := r.read(events)
	r.block(event)
	_, data, found := strings.Cut(event, "data: ")
	require.True(r.t, found, event)
	return data
}

// read reads one event: lines up to an empty one.
func (r *recorder) read(events *bufio.Reader) string {
	var event strings.Builder
	for {
		line, err := events.ReadString('\n')
		require.NoError(r.t, err, event.String())
		if line == "\n" {
			return event.String()
		}
		event.WriteString(line)
	}
}

func (r *recorder) send(verb, message string, headers ...string) *http.Response {
	request, err := http.NewRequestWithContext(r.t.Context(), verb, r.url, strings.NewReader(message))
	require.NoError(r.t, err)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		request.Header.Set(name, value)
	}
	if message != "" {
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json, text/event-stream")
	}
	text := verb + " /mcp\n"
	for _, h := range headers {
		text += h + "\n"
	}
	r.block(text + "\n" + r.pretty(message))
	client := &http.Client{Timeout: time.Minute}
	w, err := client.Do(request)
	require.NoError(r.t, err)
	require.Less(r.t, w.StatusCode, 300)
	if id := w.Header.Get("Mcp-Session-Id"); id != "" {
		r.session = id
	}
	return w
}

// head is what matters of a response's header.
func (r *recorder) head(w *http.Response) string {
	text := w.Status + "\n"
	for _, name := range []string{"Content-Type", "Mcp-Session-Id"} {
		if v := w.Header.Get(name); v != "" {
			text += name + ": " + v + "\n"
		}
	}
	return text + "\n"
}

// block writes down a part of the exchange.
func (r *recorder) block(text string) {
	text = r.abbreviate(strings.TrimSpace(text))
	r.out.WriteString("```http\n" + text + "\n```\n\n")
}

var token = regexp.MustCompile(`"(?:sagaToken|requestState)": ?"([^"]+)"`)

// The server's own names of streams and questions are drawn at random.
var (
	stream   = regexp.MustCompile(`(?m)^id: (\S+)_\d+$`)
	question = regexp.MustCompile(`"id": ?(\d{9,})`)
)

// abbreviate puts names in the place of what is long and differs each time.
func (r *recorder) abbreviate(text string) string {
	for _, m := range token.FindAllStringSubmatch(text, -1) {
		if len(r.tokens) == 0 || r.tokens[len(r.tokens)-1] != m[1] {
			r.tokens = append(r.tokens, m[1])
		}
	}
	for i, token := range r.tokens {
		text = strings.ReplaceAll(text, token, fmt.Sprintf("<token %d>", i+1))
	}
	if r.session != "" {
		text = strings.ReplaceAll(text, r.session, "<session>")
	}
	if m := stream.FindStringSubmatch(text); m != nil {
		text = strings.ReplaceAll(text, m[1], "<stream>")
	}
	for _, m := range question.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(r.questions, m[1]) {
			r.questions = append(r.questions, m[1])
		}
	}
	for i, id := range r.questions {
		text = strings.ReplaceAll(text, id, fmt.Sprintf("<id %d>", i+1))
	}
	return text
}

// pretty lays a message out: what fits on a line stays on one.
func (r *recorder) pretty(message string) string {
	require.True(r.t, message == "" || jsonview.Valid([]byte(message)), message)
	return layout(jsontest.Parse(message), 0)
}

const lineWidth = 120

func layout(v jsontest.Value, indent int) string {
	if !v.IsObject() && !v.IsArray() {
		return v.Raw
	}
	var members []string
	if v.IsArray() {
		for _, element := range v.Array() {
			members = append(members, layout(element, indent+2))
		}
	}
	for name, value := range v.Members() {
		members = append(members, strconv.Quote(name)+": "+layout(value, indent+2))
	}
	begin, end := v.Raw[:1], v.Raw[len(v.Raw)-1:]
	line := begin + strings.Join(members, ", ") + end
	if indent+len(line) <= lineWidth && !strings.Contains(line, "\n") || len(members) == 0 {
		return line
	}
	margin := "\n" + strings.Repeat(" ", indent)
	return begin + margin + "  " + strings.Join(members, ","+margin+"  ") + margin + end
}

// member returns a member of a message or of its result, as JSON unless it is a
// string.
func member(t *testing.T, message, name string) string {
	t.Helper()
	var m map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(message), &m))
	if m[name] == nil {
		require.NoError(t, json.Unmarshal(m["result"], &m))
	}
	var s string
	if json.Unmarshal(m[name], &s) == nil {
		return s
	}
	return string(m[name])
}
