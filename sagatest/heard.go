package sagatest

import (
	"sync"

	"github.com/mcpsaga/mcpsaga/saga"
)

// heard is what a tool told the client while turns were under way.
type heard struct {
	mu       sync.Mutex
	progress []saga.Progress
	logs     []saga.Log
}

// Progress implements saga.Notifier.
func (h *heard) Progress(p saga.Progress) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.progress = append(h.progress, p)
}

// Log implements saga.Notifier.
func (h *heard) Log(l saga.Log) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.logs = append(h.logs, l)
}
