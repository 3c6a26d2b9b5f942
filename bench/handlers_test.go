package main

import (
	"net/http"
	"testing"
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
	for _, who := range contestants {
		if who.server == "go-sdk" {
			continue // it is in no hurry
		}
		b.Run(who.server+"/"+who.name, func(b *testing.B) {
			h := servers[who.server](nil)
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
