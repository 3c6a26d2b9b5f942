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

// reusing hands requests to a handler and takes the responses in one memory.
func reusing(h http.Handler) exchange {
	w := &memory{header: http.Header{}}
	return func(header map[string]string, request []byte) []byte {
		clear(w.header)
		w.body = w.body[:0]
		h.ServeHTTP(w, httpRequest(header, request))
		return w.body
	}
}

// BenchmarkHandlers is what the compared servers' own code takes, without network
// and net/http: one operation is a whole saga, three turns.
func BenchmarkHandlers(b *testing.B) {
	for _, who := range contestants {
		if who.server == "go-sdk" {
			continue // it is in no hurry
		}
		b.Run(who.server+"/"+who.name, func(b *testing.B) {
			send := reusing(servers[who.server](nil))
			b.ReportAllocs()
			for b.Loop() {
				deploy(who.dialect).all(send, wanted[:]...)
			}
		})
	}
}
