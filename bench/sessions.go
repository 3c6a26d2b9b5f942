package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
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
func sessionsCurve(ctx context.Context, m measurement) *table {
	var points []*point
	times := make(map[*point]*latencies)
	for _, c := range []struct{ tool, text string }{{"complex_tool", wanted[turns-1]}, {"quick", "Done."}} {
		var without *point
		add := func(name, program, store string) {
			took := new(latencies)
			p := m.point(name, inSessions(c.tool, c.text, took), startChild(ctx, program, "ledger", store))
			p.round, p.protocol, p.floor = m.sagas, c.tool, without
			points, times[p] = append(points, p), took
			if without == nil {
				without, p.floor = p, p
			}
		}
		if base := m.String("base"); base != "" {
			add("without, base", base, "")
		}
		add("without", "", "")
		add("memory", "", "memory:")
		add("sqlite", "", m.tempStore())
	}
	m.measure(ctx, points)
	t := newTable("ledger", "tool", "CPU/call", "× first", "quartiles", "median time", "allocs/call", "B/call")
	for _, p := range points {
		low, middle, high := against(p, p.floor, cpu)
		t.row("%s\t%s\t%.1fµs\t%.3f\t%.3f–%.3f\t%.2f ms\t%.0f\t%.0f", p.name, p.protocol, p.median(cpu), middle, low, high,
			micros(times[p].median())/1e3, p.median(allocations), p.median(allocated))
	}
	return t
}

type latencies struct {
	mu   sync.Mutex
	took []time.Duration
}

func (l *latencies) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took = append(l.took, d)
}

func (l *latencies) median() time.Duration {
	slices.Sort(l.took)
	return l.took[len(l.took)/2]
}

// inSessions is a call whose result holds the text, in one of as many sessions as there are
// connections.
func inSessions(tool, text string, took *latencies) operation {
	free := make(chan *legacy, 1024)
	return operation{1, func(c *fasthttp.HostClient) (int, error) {
		var s *legacy
		select {
		case s = <-free:
		default:
			var err error
			if s, err = newLegacy("http://" + c.Addr + "/mcp"); err != nil {
				return 0, err
			}
		}
		start := time.Now()
		if err := s.call(tool, text); err != nil {
			return 0, err
		}
		took.add(time.Since(start))
		free <- s
		return 0, nil
	}}
}

// legacy is a session as its client sees it.
type legacy struct {
	url, id string
	calls   int
	client  http.Client
}

func newLegacy(url string) (*legacy, error) {
	s := &legacy{url: url, client: http.Client{Transport: &http.Transport{DisableCompression: true}, Timeout: time.Minute}}
	header, err := s.send(http.StatusOK, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"sampling":{}},"clientInfo":{"name":"bench","version":"1"}}}`)
	if err != nil {
		return nil, err
	}
	s.id = header.Get("Mcp-Session-Id")
	_, err = s.send(http.StatusAccepted, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return s, err
}

func (s *legacy) post(status int, message string) (*http.Response, error) {
	r, err := http.NewRequest(http.MethodPost, s.url, strings.NewReader(message))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if s.id != "" {
		r.Header.Set("Mcp-Session-Id", s.id)
		r.Header.Set("MCP-Protocol-Version", "2025-11-25")
	}
	resp, err := s.client.Do(r)
	if err == nil && resp.StatusCode != status {
		err = fmt.Errorf("a wrong answer: status %d to %s", resp.StatusCode, message)
		resp.Body.Close()
	}
	return resp, err
}

// send posts a message whose response is of no interest but for its header.
func (s *legacy) send(status int, message string) (http.Header, error) {
	resp, err := s.post(status, message)
	if err != nil {
		return nil, err
	}
	return resp.Header, drain(resp)
}

// drain reads the rest of a response, so that its connection is used again.
func drain(resp *http.Response) error {
	defer resp.Body.Close()
	_, err := io.Copy(io.Discard, resp.Body)
	return err
}

func (s *legacy) call(tool, text string) error {
	s.calls++
	id := strconv.Itoa(s.calls)
	resp, err := s.post(http.StatusOK, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"`+tool+`","arguments":{}}}`)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	asked := 0
	for lines := bufio.NewReader(resp.Body); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil && (err != io.EOF || len(line) == 0) {
			return fmt.Errorf("a wrong answer: the stream of call %s ended after %d questions: %w", id, asked, err)
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok && line[0] != '{' || len(bytes.TrimSpace(data)) == 0 {
			continue // not an event's data, nor a response in JSON
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Result *struct{ IsError bool }
		}
		if err := json.Unmarshal(bytes.TrimSpace(data), &m); err != nil {
			return fmt.Errorf("a wrong answer: %w: %.300s", err, data)
		}
		answer := given[wanted[min(asked, 1)]]
		switch {
		case m.Result != nil:
			if string(m.ID) != id || m.Result.IsError || !bytes.Contains(data, []byte(text)) {
				return fmt.Errorf("a wrong answer to call %s of %s: %.300s", id, tool, data)
			}
			return drain(resp)
		case m.Method == "elicitation/create" && asked == 0, m.Method == "sampling/createMessage" && asked == 1:
			asked++
			if _, err := s.send(http.StatusAccepted, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":`+answer+`}`); err != nil {
				return err
			}
		default:
			return fmt.Errorf("a wrong answer to call %s of %s, which has asked %d questions: %.300s", id, tool, asked, data)
		}
	}
}
