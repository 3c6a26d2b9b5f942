package server_test

import (
	"bufio"
	"bytes"
	"encoding/json"
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

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// announced is a body that comes slowly, and notes how much memory was set aside for
// what has not come.
type announced struct {
	text      []byte
	come, out int
}

func (b *announced) Read(p []byte) (int, error) {
	b.out = max(b.out, len(p)-b.come)
	if len(b.text) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.text[:min(len(b.text), 100)])
	b.text = b.text[n:]
	b.come += n
	return n, nil
}

// What a client announces is no reason to set memory aside: any number of clients
// could announce a mebibyte and send nothing.
func TestBodiesTakeMemoryAsTheyArrive(t *testing.T) {
	handler := newModern(t).srv.Handler()
	message := []byte(pingMessage + strings.Repeat(" ", 1<<20-len(pingMessage)))
	for name, length := range map[string]int64{"announced": 1 << 20, "not announced": -1} {
		t.Run(name, func(t *testing.T) {
			body := &announced{text: message}
			r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", body)
			r.ContentLength = length
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			assert.Equal(t, 200, w.Code)
			assert.Equal(t, `{"jsonrpc":"2.0","id":1,"result":{}}`, w.Body.String())
			assert.LessOrEqual(t, body.out, 4096, "bytes set aside beyond those that had come")
		})
	}
	t.Run("too large", func(t *testing.T) {
		body := &announced{text: message}
		r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", body)
		r.ContentLength = 1<<20 + 1
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		assert.Equal(t, 413, w.Code)
		assert.Zero(t, body.come, "nothing of it was read")
	})
	t.Run("cut off", func(t *testing.T) {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", io.MultiReader(strings.NewReader(pingMessage), errReader{}))
		r.ContentLength = 100
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		assert.Equal(t, 400, w.Code)
	})
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// An id is kept as long as its request is open, and repeated in much of what is said
// meanwhile. It has a limit, whatever the transport and the revision.
func TestIDsAreBounded(t *testing.T) {
	r := newModern(t)
	c := r.connect("2025-11-25", everything)
	fits, long := strings.Repeat("i", 1022), strings.Repeat("i", 1023)
	message := func(id string) string { return `{"jsonrpc":"2.0","id":"` + id + `","method":"ping"}` }
	status, body := r.do(http.MethodPost, "/mcp", message(fits), nil)
	assert.Equal(t, 200, status, body)
	const want = `"code":-32600,"message":"the id is too long: 1024 bytes are the most"`
	status, body = r.do(http.MethodPost, "/mcp", message(long), nil)
	assert.Equal(t, 400, status)
	assert.Contains(t, body, want)
	assert.NotContains(t, body, long)
	resp := c.post(message(long))
	assert.Contains(t, readAll(t, resp), want)
	q := modernRequest("tools/list", nil)
	q.id = long
	got := r.send(q)
	assert.Equal(t, 400, got.status)
	assert.Contains(t, got.raw, want)
	q = callTool("hello", nil)
	q.meta["progressToken"] = long
	assert.Equal(t, -32602, r.send(q).code(), "a progress token is an id, too")
	assert.Contains(t, c.ask(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"hello","_meta":{"progressToken":"`+long+`"}}}`), "-32602")
	var out bytes.Buffer
	require.NoError(t, r.srv.ServeStdio(t.Context(), strings.NewReader(message(long)+"\n"+message(fits)+"\n"), &out))
	assert.Contains(t, out.String(), want)
	assert.Contains(t, out.String(), fits)
}

// Numbers near to what float64 has no room for take long to read, wherever they are.
func TestFarNumbersAreFew(t *testing.T) {
	r := newModern(t)
	far := `{"x":[` + strings.Repeat("5e-324,", 10_000) + "5e-324]}"
	status, body := r.do(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":7,"method":"ping","params":`+far+`}`, nil)
	assert.Equal(t, 400, status)
	assert.Contains(t, body, "too many numbers")
	assert.Contains(t, readAll(t, r.connect("2025-03-26", "{}").post(`[{"jsonrpc":"2.0","id":7,"method":"ping","params":`+far+`}]`)), "too many numbers")
	_, err := r.srv.Handle(t.Context(), &server.Request{Method: "tools/call", Params: json.RawMessage(far)})
	assert.ErrorContains(t, err, "too many numbers")
}

// Whoever reads a value from the outside to the inside works for each level.
func TestNestingIsBounded(t *testing.T) {
	r := newModern(t)
	nested := func(n int) string {
		return `{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":` + strings.Repeat("[", n-2) + strings.Repeat("]", n-2) + `}}`
	}
	status, _ := r.do(http.MethodPost, "/mcp", nested(256), nil)
	assert.Equal(t, 200, status)
	status, body := r.do(http.MethodPost, "/mcp", nested(257), nil)
	assert.Equal(t, 400, status)
	assert.Equal(t, `{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"the message is nested too deep: 256 levels are the most"}}`, body)
	c := r.connect("2025-03-26", "{}")
	assert.Contains(t, readAll(t, c.post("["+nested(256)+"]")), `"result":{}`)
	assert.Contains(t, readAll(t, c.post("["+nested(257)+"]")), "nested too deep")
	_, err := r.srv.Handle(t.Context(), &server.Request{Method: "tools/call", Params: json.RawMessage(strings.Repeat("[", 300) + strings.Repeat("]", 300))})
	assert.ErrorContains(t, err, "nested too deep")
}

// patientTool takes anything and asks several questions.
func patientTool() saga.Definition {
	type args struct {
		Text string `json:"text,omitempty"`
	}
	one, two := &steps.Form[struct{}]{ID: "one", Message: "One?"}, &steps.Form[struct{}]{ID: "two", Message: "Two?"}
	return saga.Machine[args, struct{}]{
		Info: saga.Info{Name: "patient", Asks: []steps.Question{one, two}},
		Start: func(t *saga.Turn[args, struct{}]) (saga.Next, error) {
			return t.Ask("asked", one, two)
		},
		Steps: saga.Steps[args, struct{}]{"asked": func(t *saga.Turn[args, struct{}]) (saga.Next, error) {
			return t.Textf("done")
		}},
	}
}

// heap is what the program holds.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// One session cannot hold more than a few mebibytes, with whatever its requests are
// filled: calls that wait, and answers that wait for others.
func TestASessionHoldsFewBytes(t *testing.T) {
	r := newRig(t, server.Options{Tools: []saga.Definition{patientTool()}, TokenTTL: time.Hour})
	before := heap()
	fillings := map[string]string{
		"beside the parameters": `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"patient"},"x":"%s"}`,
		"in the parameters":     `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"patient","x":"%s"}}`,
	}
	for name, filling := range fillings {
		t.Run(name, func(t *testing.T) {
			c := r.connect("2025-11-25", everything)
			waiting := 0
			for i := range 64 {
				resp := c.post(fmt.Sprintf(filling, i+1, strings.Repeat("x", 1<<20-200)))
				if resp.Header.Get("Content-Type") == "text/event-stream" {
					waiting++
					c.read(resp).wait("elicitation/create")
					continue
				}
				assert.Contains(t, readAll(t, resp), "too many bytes of requests and answers are under way")
			}
			assert.Equal(t, 3, waiting)
			assert.Less(t, heap()-before, 24<<20)
			assert.Contains(t, c.ask(`{"jsonrpc":"2.0","id":99,"method":"ping"}`), `"result"`, "the session goes on")
			resp := c.request(http.MethodDelete, "", nil)
			resp.Body.Close()
			until(t, func() bool { return heap()-before < 8<<20 })
		})
	}
	t.Run("answers", func(t *testing.T) {
		c := r.connect("2025-11-25", everything)
		var streams []*sseReader
		var first, second []json.RawMessage
		for i := range 8 {
			s := c.stream(toolCall(i+1, "patient", `{}`))
			streams = append(streams, s)
			first = append(first, s.wait("elicitation/create").ID)
			second = append(second, s.wait("elicitation/create").ID)
		}
		large := `{"action":"accept","content":{},"x":"` + strings.Repeat("x", 1<<20-300) + `"}`
		taken := 0
		for _, id := range first {
			resp := c.post(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":` + large + `}`)
			if resp.StatusCode == 202 {
				taken++
				continue
			}
			assert.Equal(t, 413, resp.StatusCode)
			assert.Contains(t, readAll(t, resp), "too many bytes of requests and answers are under way")
		}
		assert.Equal(t, 3, taken)
		assert.Less(t, heap()-before, 24<<20)
		// What was refused can be sent again, shorter or later: nothing is lost.
		for i := range streams {
			if i >= taken {
				c.reply(first[i], `{"action":"accept","content":{}}`)
			}
			c.reply(second[i], `{"action":"accept","content":{}}`)
			got, isError := text(t, streams[i].wait("").Result)
			assert.Equal(t, "done", got)
			assert.False(t, isError)
		}
		s := c.stream(toolCall(50, "patient", `{}`))
		c.reply(s.wait("elicitation/create").ID, large)
	})
}

// The requests that wait on a stdio connection have a limit to their bytes, too.
func TestStdioHoldsFewBytes(t *testing.T) {
	r := newRig(t, server.Options{Tools: []saga.Definition{patientTool()}})
	in, write := io.Pipe()
	read, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- r.srv.ServeStdio(t.Context(), in, out)
		out.Close()
	}()
	go func() {
		fmt.Fprintln(write, initializeMessage("2025-11-25", everything))
		for i := range 20 {
			fmt.Fprintln(write, toolCall(i+1, "patient", `{"text":"`+strings.Repeat("x", 1000)+`"}`)+strings.Repeat(" ", 1<<20-1200))
		}
		fmt.Fprintln(write, `{"jsonrpc":"2.0","id":99,"method":"ping"}`)
	}()
	waiting, refused := map[string]bool{}, 0
	lines := bufio.NewScanner(read)
	for lines.Scan() {
		m := parseLegacy(t, lines.Text())
		if m.Method == "elicitation/create" {
			waiting[string(m.ID)] = true
		}
		if m.Error != nil {
			assert.Contains(t, lines.Text(), "too many requests are under way")
			refused++
		}
		if string(m.ID) == "99" {
			break
		}
	}
	assert.GreaterOrEqual(t, refused, 4)
	assert.LessOrEqual(t, refused, 5)
	go io.Copy(io.Discard, read)
	write.Close()
	require.NoError(t, <-ended)
}

// What was answered in earlier rounds is held no longer.
func TestASessionForgetsAnswersThatWereTaken(t *testing.T) {
	type turn = saga.Turn[struct{}, int]
	one := &steps.Form[struct{}]{ID: "one", Message: "One?"}
	ask := func(t *turn) (saga.Next, error) {
		if t.State++; t.State > 8 {
			return t.Textf("done")
		}
		return t.Ask("asked", one)
	}
	r := newRig(t, server.Options{Tools: []saga.Definition{saga.Machine[struct{}, int]{
		Info: saga.Info{Name: "rounds", Asks: []steps.Question{one}}, Start: ask, Steps: saga.Steps[struct{}, int]{"asked": ask},
	}}})
	c := r.connect("2025-11-25", everything)
	s := c.stream(toolCall(1, "rounds", `{}`))
	for range 8 {
		c.reply(s.wait("elicitation/create").ID, `{"action":"accept","content":{},"x":"`+strings.Repeat("x", 1<<20-300)+`"}`)
	}
	got, isError := text(t, s.wait("").Result)
	assert.Equal(t, "done", got)
	assert.False(t, isError)
}
