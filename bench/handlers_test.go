package main

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// memory is the least that can stand in for net/http: a request's body and a
// response in memory.
type memory struct {
	header http.Header
	status int
	body   []byte
}

func (m *memory) Header() http.Header { return m.header }

func (m *memory) WriteHeader(status int) { m.status = status }

func (m *memory) Write(b []byte) (int, error) {
	m.body = append(m.body, b...)
	return len(b), nil
}

// BenchmarkHandlers is what the compared servers' own code takes, without network
// and net/http: one operation is a whole saga, three turns.
func BenchmarkHandlers(b *testing.B) {
	for _, who := range contestants {
		if who.server == "go-sdk" {
			continue // it is in no hurry
		}
		b.Run(who.server+"/"+who.work.name, func(b *testing.B) {
			h, err := servers[who.server](nil)
			require.NoError(b, err)
			header := http.Header{"Content-Type": {"application/json"}}
			for k, v := range who.work.headers {
				header.Set(k, v)
			}
			at := &url.URL{Path: "/mcp"}
			w := &memory{header: http.Header{}}
			saga := func() {
				var token []byte
				for turn := range turns {
					clear(w.header)
					w.status, w.body = 0, w.body[:0]
					body := who.work.request(turn, turn+1, token)
					h.ServeHTTP(w, &http.Request{
						Method: http.MethodPost, URL: at, Host: "localhost", Header: header, ContentLength: int64(len(body)),
						Body: io.NopCloser(bytes.NewReader(body)),
					})
					var err error
					if token, err = who.work.check(turn, turn+1, w.body); err != nil || w.status > http.StatusOK {
						b.Fatal(w.status, err)
					}
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				saga()
			}
		})
	}
}
