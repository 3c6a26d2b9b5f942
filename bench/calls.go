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
	"path/filepath"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"
)

// callsTable compares what a call of complex_tool, which asks two questions, costs in a session of
// MCP 2025-11-25 without a ledger and with one.
func callsTable(ctx context.Context, m measurement) string {
	var points []*point
	for _, store := range []string{"", "memory:", "sqlite:"} {
		add := func(name, program string) {
			url := store
			if store == "sqlite:" {
				url += filepath.Join(m.dir, name+".db")
			}
			points = append(points, m.point(name, "", inSessions(), startChild(ctx, program, "ledger", url)))
		}
		name := cmp.Or(strings.TrimSuffix(store, ":"), "none")
		if add(name, ""); m.base != "" {
			add("base of "+name, m.base)
		}
	}
	return m.table(ctx, points, "ledger\tCPU/call\t× none\tquartiles\tmedian time\tallocs/call\tB/call", func(p *point) string {
		return fmt.Sprintf("%s\t%.1fµs\t%s\t%.2f ms\t%.0f\t%.0f", p.name, p.median(cpu), p.ratio(cpu, "%.3f\t%.3f–%.3f", points[0]),
			p.median(latency), p.median(allocations), p.median(allocated))
	})
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

// streamsTable is the memory of event streams (GET) on which nothing happens, each of a session of
// its own, on a server with a ledger.
func streamsTable(ctx context.Context, m measurement) string {
	var rows []string
	measure := func(name, program string) {
		server := startChild(ctx, program, "ledger", "memory:")
		open := func(n int) {
			for i := range n {
				s := newSession("http://"+server.work+"/mcp", strconv.Itoa(i%streamUsers))
				resp := s.do(http.MethodGet, http.StatusOK, "")
				s.client.CloseIdleConnections() // only the stream's counts
				context.AfterFunc(ctx, func() { resp.Body.Close() })
			}
		}
		open(min(streamUsers, m.streams)) // what every server has once comes into being with these
		before := server.usage("/heap")
		open(m.streams)
		after := server.usage("/heap")
		each := func(before, after uint64) float64 {
			return (float64(after) - float64(before)) / 1000 / float64(m.streams)
		}
		rows = append(rows, fmt.Sprintf("%s\t%d\t%.1f\t%.1f", name, m.streams, each(before.Heap, after.Heap), each(before.MaxRSS, after.MaxRSS)))
	}
	if measure("mcpsaga", ""); m.base != "" {
		measure("base of mcpsaga", m.base)
	}
	return table("server\tstreams\theap kB each\tpeak kB each", rows...)
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
