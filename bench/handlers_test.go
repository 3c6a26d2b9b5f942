package main

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// memory is the least that can stand in for net/http: a response in memory.
type memory struct {
	header http.Header
	body   []byte
}

func (m *memory) Header() http.Header { return m.header }

func (m *memory) WriteHeader(int) {}

func (m *memory) Write(b []byte) (int, error) {
	m.body = append(m.body, b...)
	return len(b), nil
}

// BenchmarkHandlers is what the compared servers' own code takes, without network
// and net/http: one operation is a whole saga, three turns.
func BenchmarkHandlers(b *testing.B) {
	var m measurement
	for _, who := range m.contestants("") {
		if who.kind == "go-sdk" {
			continue // it is in no hurry
		}
		b.Run(who.kind+"/"+who.dialect.name, func(b *testing.B) {
			h, err := servers[who.kind](nil)
			require.NoError(b, err)
			w := &memory{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				t := deploy(who.dialect)
				for turn := range turns {
					clear(w.header)
					w.body = w.body[:0]
					h.ServeHTTP(w, t.httpRequest(turn+1))
					if err := t.take(turn+1, w.body, wanted[turn], turn == turns-1); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// httpRequest is the saga's next request, for a handler without a network.
func (t *talk) httpRequest(id int) *http.Request {
	body := t.request(id)
	h := http.Header{"Content-Type": {"application/json"}}
	for k, v := range t.header {
		h.Set(k, v)
	}
	return &http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: "/mcp"}, Host: "localhost", Header: h, ContentLength: int64(len(body)),
		Body: io.NopCloser(bytes.NewReader(body)),
	}
}
