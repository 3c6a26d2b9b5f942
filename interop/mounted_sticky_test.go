package interop

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/porttest"
)

// What docs/gosdk.md says to put before replicas on the Go SDK: the proxies of the guide, which
// keep a session in its replica. HAProxy must not ask for /readyz, which the SDK does not serve.
func TestMountedBehindStickyProxies(t *testing.T) {
	t.Parallel()
	change := map[string]func(string) string{
		"nginx":   nil,
		"haproxy": func(config string) string { return strings.Replace(config, "\toption httpchk GET /readyz\n", "", 1) },
	}
	for name := range change {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := needProgram(t, name)
			first := startHTTP(t, onSDK)
			replicas := []*replica{behind(t, "http://"+first.addr)}
			for range 2 {
				next := &process{t: t, addr: porttest.Reserve(t), root: first.root, keys: first.keys, args: first.args}
				require.NoError(t, next.start())
				t.Cleanup(next.kill)
				replicas = append(replicas, behind(t, "http://"+next.addr))
			}
			at := target{URL: "http://" + proxies[name].start(t, program, replicas, change[name]) + "/mcp"}
			var asked atomic.Int32
			var all sync.WaitGroup
			for range 12 {
				all.Go(func() {
					s := dial(t, t.Context(), at, func() { asked.Add(1) })
					for range 2 {
						r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "test_elicitation", Arguments: map[string]any{"message": "?"}})
						if assert.NoError(t, err) {
							assert.False(t, r.IsError)
						}
					}
					assert.NoError(t, s.Close())
				})
			}
			all.Wait()
			assert.EqualValues(t, 24, asked.Load())
			if name == "haproxy" { // nginx goes by the client's address, which is one
				for i, r := range replicas {
					assert.NotEmpty(t, r.take(), "replica %d was not used", i)
				}
			}
		})
	}
}
