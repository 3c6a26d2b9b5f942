package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/mcpsaga/mcpsaga/saga"
)

var quickTool = saga.Machine[struct{}, struct{}]{
	Info:  saga.Info{Name: "quick", Description: "Ends at once."},
	Start: func(t *saga.Turn[struct{}, struct{}]) (saga.Next, error) { return t.Textf("Done.") },
}

// sessionsCurve is the cost of a whole call in a session of MCP 2025-11-25, of a tool that asks two
// questions and of one that asks nothing, without a ledger and with one. With a base, there is
// what a call without a ledger has cost there.
func sessionsCurve(ctx context.Context, m measurement) string {
	var points []*point
	for _, c := range []struct{ tool, text string }{{"complex_tool", wanted[turns-1]}, {"quick", "Done."}} {
		var first *point
		add := func(name, program, store string) {
			p := m.point(name, inSessions(c.tool, c.text), startChild(ctx, program, "ledger", store))
			first = cmp.Or(first, p)
			p.round, p.kind, p.floor = m.sagas, c.tool, first
			points = append(points, p)
		}
		if base := m.String("base"); base != "" {
			add("without, base", base, "")
		}
		add("without", "", "")
		add("memory", "", "memory:")
		add("sqlite", "", m.tempStore())
	}
	return m.table(ctx, points, "ledger\ttool\tCPU/call\t× first\tquartiles\tmedian time\tallocs/call\tB/call", func(p *point) string {
		return fmt.Sprintf("%s\t%s\t%.1fµs\t%s\t%.2f ms\t%.0f\t%.0f", p.name, p.kind, p.median(cpu), p.ratio(cpu, "%.3f\t%.3f–%.3f", p.floor),
			p.median(latency), p.median(allocations), p.median(allocated))
	})
}

// inSessions is a call whose result holds the text, in one of as many sessions as there are
// connections.
func inSessions(tool, text string) operation {
	free := make(chan *session, 1024)
	return operation{1, func(c *fasthttp.HostClient) int {
		var s *session
		select {
		case s = <-free:
		default:
			s = newSession("http://" + c.Addr + "/mcp")
		}
		s.call(tool, text)
		free <- s
		return 0
	}}
}

// session is one of MCP 2025-11-25 as its client sees it.
type session struct {
	url    string
	header http.Header
	calls  int
	client http.Client
}

func newSession(url string) *session {
	s := &session{url: url, header: make(http.Header), client: http.Client{Transport: &http.Transport{DisableCompression: true}, Timeout: time.Minute}}
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
	r := must(http.NewRequest(http.MethodPost, s.url, strings.NewReader(message)))
	r.Header = s.header
	resp := must(s.client.Do(r))
	if resp.StatusCode != status {
		resp.Body.Close()
		fail("a wrong answer: status %d to %s", resp.StatusCode, message)
	}
	return resp
}

// drain reads the rest of a response, so that its connection is used again.
func drain(resp *http.Response) {
	_, err := io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	check(err)
}

// call calls a tool, answers what that asks, and looks for a text in the result. The response is JSON,
// or a stream of events whose data are.
func (s *session) call(tool, text string) {
	s.calls++
	id, asked := strconv.Itoa(s.calls), 0
	resp := s.post(http.StatusOK, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"`+tool+`","arguments":{}}}`)
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
		case err == nil && m.Result != nil && string(m.ID) == id && !m.Result.IsError && bytes.Contains(data, []byte(text)):
			return
		case err == nil && (m.Method == "elicitation/create" && asked == 0 || m.Method == "sampling/createMessage" && asked == 1):
			drain(s.post(http.StatusAccepted, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":`+given[wanted[asked]]+`}`))
			asked++
		default:
			fail("a wrong answer to call %s of %s, which has asked %d questions: %.300s", id, tool, asked, data)
		}
	}
	fail("a wrong answer: the stream of call %s ended after %d questions: %v", id, asked, lines.Err())
}
