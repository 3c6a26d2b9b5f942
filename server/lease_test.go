package server_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/server"
)

// How long a lease may be; that servers are replaced when it is over is what
// TestOperationsOutliveTheirServer sees.
func TestLease(t *testing.T) {
	for lease, ok := range map[time.Duration]bool{0: true, time.Second: true, time.Minute: true, 999 * time.Millisecond: false, -time.Minute: false} {
		_, err := server.New(server.Options{Keys: newKeys(t), Lease: lease})
		if ok {
			require.NoError(t, err)
			continue
		}
		assert.ErrorContains(t, err, "Options.Lease is "+lease.String()+"; it must be a second at least")
	}
}
