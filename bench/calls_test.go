package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

// BenchmarkCalls is whole calls of complex_tool, which asks two questions, in sessions of MCP 2025-11-25, without a ledger
// and with one.
func BenchmarkCalls(b *testing.B) {
	for _, ledger := range []string{"none", "memory", "sqlite"} {
		b.Run(ledger, func(b *testing.B) {
			load(b, startChild(b, "ledger", ledger, filepath.Join(b.TempDir(), "ledger.db")), inSessions())
		})
	}
}

// inSessions is the load of calls in as many sessions as there are connections.
func inSessions() operation {
	free := make(chan *session, 1024)
	return operation{1, func(c *fasthttp.HostClient) int {
		var s *session
		select {
		case s = <-free:
		default:
			s = newSession("http://"+c.Addr+"/mcp", "")
		}
		s.call()
		free <- s
		return 0
	}}
}

// streamUsers is how many users share the idle streams, as one may not have so many.
const streamUsers = 100

// BenchmarkStreams is the memory of event streams (GET) on which nothing happens, each of a session of
// its own, on a server with a ledger.
func BenchmarkStreams(b *testing.B) {
	server := startChild(b, "ledger", "memory")
	open := func(n int) {
		for i := range n {
			s := newSession("http://"+server.work+"/mcp", strconv.Itoa(i%streamUsers))
			resp := s.do(http.MethodGet, http.StatusOK, "")
			s.client.CloseIdleConnections() // only the stream's counts
			b.Cleanup(func() { resp.Body.Close() })
		}
	}
	open(streamUsers) // what every server has once comes into being with these
	before := server.usage("/heap")
	b.ResetTimer()
	open(b.N)
	b.StopTimer()
	after := server.usage("/heap")
	b.ReportMetric((float64(after.Heap)-float64(before.Heap))/1000/float64(b.N), "heap-kB/stream")
	b.ReportMetric((float64(after.MaxRSS)-float64(before.MaxRSS))/1000/float64(b.N), "peak-kB/stream")
}

// session is a session of MCP 2025-11-25 as its client sees it.
type session struct {
	url    string
	header http.Header
	calls  int
	client http.Client
}

func newSession(url, user string) *session {
	s := &session{url: url, header: make(http.Header), client: http.Client{Transport: &http.Transport{DisableCompression: true}}}
	s.header.Set(userHeader, user)
	s.header.Set("Content-Type", "application/json")
	s.header.Set("Accept", "application/json, text/event-stream")
	resp := s.post(http.StatusOK, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"sampling":{}},"clientInfo":{"name":"bench","version":"1"}}}`)
	drain(resp)
	s.header.Set("Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id"))
	s.header.Set("MCP-Protocol-Version", "2025-11-25")
	drain(s.post(http.StatusAccepted, `{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	return s
}

func (s *session) post(status int, message string) *http.Response {
	return s.do(http.MethodPost, status, message)
}

func (s *session) do(method string, status int, message string) *http.Response {
	r := must(http.NewRequest(method, s.url, strings.NewReader(message)))
	r.Header = s.header
	resp := must(s.client.Do(r))
	if resp.StatusCode != status {
		resp.Body.Close()
		fail("a wrong answer: status %d to %s %s", resp.StatusCode, method, message)
	}
	return resp
}

// drain reads the rest of a response, so that its connection is used again.
func drain(resp *http.Response) {
	_, err := io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	check(err)
}

// call calls complex_tool, answers its questions, and checks the result. The response is JSON, or a
// stream of events whose data are JSON.
func (s *session) call() {
	s.calls++
	id, asked := strconv.Itoa(s.calls), 0
	resp := s.post(http.StatusOK, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"complex_tool","arguments":{}}}`)
	defer drain(resp)
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data := bytes.TrimPrefix(lines.Bytes(), []byte("data: "))
		if len(data) == 0 || data[0] != '{' {
			continue
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Result *struct{ IsError bool }
		}
		err := json.Unmarshal(data, &m)
		switch {
		case err == nil && m.Result != nil && string(m.ID) == id && !m.Result.IsError && bytes.Contains(data, []byte(wanted[turns-1])):
			return
		case err == nil && (m.Method == "elicitation/create" && asked == 0 || m.Method == "sampling/createMessage" && asked == 1):
			drain(s.post(http.StatusAccepted, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":`+given[wanted[asked]]+`}`))
			asked++
		default:
			fail("a wrong answer to call %s, which has asked %d questions: %.300s", id, asked, data)
		}
	}
	fail("a wrong answer: the stream of call %s ended after %d questions: %v", id, asked, lines.Err())
}
