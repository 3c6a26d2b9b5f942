package client_test

import (
	"io"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
)

// Each that takes a process over has one of its own, also those that come at the same moment.
func TestStdioProcessesAreNotShared(t *testing.T) {
	s := &client.Stdio{Command: "cat", Stderr: io.Discard}
	defer s.Close()
	for range 5 {
		var mu sync.Mutex
		var all sync.WaitGroup
		opened := make(map[io.ReadWriteCloser]bool)
		const n = 32
		for range n {
			all.Go(func() {
				process, err := s.Open()
				assert.NoError(t, err)
				mu.Lock()
				defer mu.Unlock()
				opened[process] = true
			})
		}
		all.Wait()
		assert.Len(t, opened, n)
		for process := range opened {
			require.NoError(t, process.Close())
		}
	}
}
