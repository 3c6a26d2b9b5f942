package sagatest

import (
	"sync"

	"github.com/mcpsaga/mcpsaga/internal/engine"
)

// heard is what a tool told the client while turns were under way.
type heard struct {
	mu       sync.Mutex
	progress []engine.Progress
	logs     []engine.Log
}

// Progress implements engine.Notifier.
func (h *heard) Progress(p engine.Progress) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.progress = append(h.progress, p)
}

// Log implements engine.Notifier.
func (h *heard) Log(l engine.Log) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.logs = append(h.logs, l)
}
