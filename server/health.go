package server

import (
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/mcpsaga/mcpsaga/codec"
)

// health is what /readyz tells.
type health struct{ stopping atomic.Bool }

func (s *Server) serveHealth(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, []byte(`{"status":"ok"}`))
}

// readyKey is a key as /readyz shows it: whoever rotates keys sees which ones
// a replica has loaded. A key's id is no secret, every token begins with it.
type readyKey struct {
	ID      string `json:"id"`
	Primary bool   `json:"primary,omitzero"`
}

// serveReady tells everybody whether to send requests here, as a probe may ask under
// any name and needs no more. The rest is for those whom the guard would let in.
func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) {
	status := struct {
		Status string     `json:"status"`
		Keys   []readyKey `json:"keys,omitzero"`
	}{Status: "ready"}
	if s.guard.informs(r) {
		for _, k := range s.codec.Keyset().Keys() {
			if k.Status == codec.Enabled {
				status.Keys = append(status.Keys, readyKey{fmt.Sprintf("%08x", k.ID), k.Primary})
			}
		}
	}
	code := http.StatusOK
	if s.health.stopping.Load() {
		status.Status, code = "stopping", http.StatusServiceUnavailable
	}
	body, err := marshal(status)
	if err != nil {
		code, body = http.StatusInternalServerError, []byte(`{"status":"failed"}`)
	}
	writeJSON(w, code, body)
}
