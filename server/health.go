package server

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// health is what /readyz tells.
type health struct {
	stopping atomic.Bool
	// stale is since when newer keys could not be loaded, or nil.
	stale atomic.Pointer[time.Time]
}

// SetKeys replaces the keyset, for a rotation without a restart. Turns under
// way end with the keyset they began with. Tell [Server.KeysFailed] of keysets that
// cannot be loaded.
func (s *Server) SetKeys(k *codec.Keyset) {
	s.codec.SetKeyset(k)
	s.health.stale.Store(nil)
}

// KeysFailed notes that a newer keyset could not be loaded, so that /readyz says since
// when this replica continues with old keys. It does so until [Server.SetKeys] is called.
// The replica stays ready: what keeps one from loading its keyset may well keep all.
func (s *Server) KeysFailed() {
	now := s.opts.Now().UTC().Truncate(time.Second)
	s.health.stale.CompareAndSwap(nil, &now)
}

func (s *Server) serveHealth(w http.ResponseWriter, _ *http.Request) {
	wire.Reply{Writer: w}.JSON(http.StatusOK, []byte(`{"status":"ok"}`))
}

// readyKey is a key as /readyz shows it: an operator who rotates keys sees which ones
// a replica has loaded. A key's id is no secret, every token begins with it.
type readyKey struct {
	ID      string `json:"id"`
	Primary bool   `json:"primary,omitzero"`
}

// serveReady tells everybody whether to send requests here, as a probe may ask under
// any name and needs no more. The rest is for those whom the guard would let in. A probe
// that wants no replica whose ledger does not answer asks with ?ledger=required.
func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) {
	status := struct {
		Status string     `json:"status"`
		Keys   []readyKey `json:"keys,omitzero"`
		// An operator who rotates keys must know that this replica may not follow.
		StaleSince *time.Time `json:"keysStaleSince,omitzero"`
		LedgerDown *time.Time `json:"ledgerDownSince,omitzero"`
		// Tools whose code ignores its context hold goroutines until it returns.
		Hanging []string `json:"hanging,omitzero"`
	}{Status: "ready", Hanging: s.host.Tools.Hanging()}
	code := http.StatusOK
	if len(status.Hanging) > 0 {
		status.Status = "degraded" // what else there is works
	}
	if s.keeper != nil {
		if status.LedgerDown = s.keeper.downSince(r.Context()); status.LedgerDown != nil {
			// The database is the same for all replicas: taking them away would take away
			// what they can still do.
			status.Status = "degraded"
			if r.URL.Query().Get("ledger") == "required" {
				code = http.StatusServiceUnavailable
			}
		}
	}
	if !s.guard.informs(r) {
		status.LedgerDown, status.Hanging = nil, nil
	} else {
		status.StaleSince = s.health.stale.Load()
		for _, k := range s.codec.Keyset().Keys() {
			if k.Enabled {
				status.Keys = append(status.Keys, readyKey{fmt.Sprintf("%08x", k.ID), k.Primary})
			}
		}
	}
	if s.health.stopping.Load() {
		status.Status, code = "stopping", http.StatusServiceUnavailable
	}
	body, err := wire.Marshal(status)
	if err != nil {
		code, body = http.StatusInternalServerError, []byte(`{"status":"failed"}`)
	}
	wire.Reply{Writer: w}.JSON(code, body)
}
