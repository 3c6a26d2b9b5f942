package porttest

import (
	"net"
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
