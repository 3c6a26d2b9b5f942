package porttest

import (
	"context"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An address is one's own until the test ends, and can be listened at again and again.
func TestReserve(t *testing.T) {
	seen := map[string]bool{}
	t.Run("held", func(t *testing.T) {
		for range 200 {
			address := Reserve(t)
			assert.False(t, seen[address], address)
			seen[address] = true
			for range 2 {
				l, err := net.Listen("tcp", address)
				require.NoError(t, err)
				require.NoError(t, l.Close())
			}
			_, err := net.ListenPacket("udp4", address)
			assert.Error(t, err, "it is held")
		}
	})
	for address := range seen {
		held, err := net.ListenPacket("udp4", address)
		if assert.NoError(t, err, "it is held for ever") {
			assert.NoError(t, held.Close())
		}
	}
}

// An address is free at once, also while the test starts processes: these have its files until they
// run their programs.
func TestReserveWhileProcessesStart(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, exec.Command(program, "-test.run=^$").Run()) // the first start of a process asks, by another one, what the system can do
	ctx, cancel := context.WithCancel(t.Context())
	var starters sync.WaitGroup
	for range 4 {
		starters.Go(func() {
			for ctx.Err() == nil {
				assert.NoError(t, exec.Command(program, "-test.run=^$").Run())
			}
		})
	}
	for range 1000 {
		l, err := net.Listen("tcp", Reserve(t))
		if assert.NoError(t, err) {
			assert.NoError(t, l.Close())
		}
	}
	cancel()
	starters.Wait()
}
