package interop

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/longtests"
)

// supervised runs workers, each as soon as the one before has ended, as a supervisor does, until the test ends.
func (s *fleet) supervised(flags ...string) {
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			cmd := s.command(append([]string{"worker"}, flags...)...)
			log, err := os.OpenFile(filepath.Join(s.dir, "workers.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				return
			}
			cmd.Stderr = log
			err = cmd.Start()
			_ = log.Close()
			if err != nil {
				return
			}
			ended := make(chan struct{})
			go func() { defer close(ended); _ = cmd.Wait() }()
			for !stop.Load() {
				select {
				case <-ended:
				case <-time.After(20 * time.Millisecond):
					continue
				}
				break
			}
			_ = cmd.Process.Kill()
			<-ended
		}
	}()
	s.t.Cleanup(func() { stop.Store(true); <-done })
}

func (s *fleet) deaths() int {
	raw, _ := os.ReadFile(filepath.Join(s.books, "deaths"))
	return len(raw)
}

// A task that takes down each worker that goes on with it is given up after five, and undone, also if it is cancelled meanwhile.
// The log of the next worker says which one it is, and so does the ledger. Servers that leave tasks to workers do not notice.
func TestRunbookPoisonedTask(t *testing.T) {
	longtests.OnlyIfWanted(t, "waits for a dozen leases to end")
	t.Parallel()
	s := newFleet(t, ledgers["SQLite"](t))
	front := s.serve("--workers", "0")
	s.supervised("--lease", "1s")
	yes := s.file("yes.json", `{"sure":{"ok":true}}`)
	for n, cancelled := range []bool{false, true} {
		name := s.detached(front, "poison")
		s.ok("tasks", "answer", name, "--answers", yes)
		front.eventually(func() bool { return s.deaths() == 5*n+2 }, "no worker goes down with it")
		list := s.waiting()
		require.Len(t, list, 1)
		assert.Contains(t, list[0].LastError, "servers in a row went down with it")
		if cancelled {
			s.ok("ledger", "undo", list[0].Saga)
		}
		front.eventually(func() bool { return len(s.waiting()) == 0 }, "it does not end")
		assert.Equal(t, 5*(n+1), s.deaths())
		assert.Equal(t, n+1, count(s.kinds(), "undone-book"))
		said, code := s.run("tasks", "result", name)
		assert.NotZero(t, code)
		assert.Contains(t, said, map[bool]string{false: "given up: each server that tried to go on with it failed", true: "ancelled"}[cancelled])
		log, err := os.ReadFile(filepath.Join(s.dir, "workers.log"))
		require.NoError(t, err)
		assert.Contains(t, string(log), `msg="a saga is taken over, whose server went down or lost it" tool=poison saga=`+list[0].Saga)
		assert.Contains(t, string(log), `level=ERROR msg="a saga is given up: each server that tried to go on with it went down, or lost it" tool=poison saga=`+list[0].Saga)
	}
	s.file("books/mended", "")
	name := s.detached(front, "poison")
	s.ok("tasks", "answer", name, "--answers", yes)
	s.ok("tasks", "watch", name)
	assert.Contains(t, s.ok("tasks", "result", name), "survived")
}
