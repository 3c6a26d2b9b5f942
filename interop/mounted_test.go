package interop

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// onSDK has the process serve its tools on a server of the official Go SDK.
const onSDK = "--sdk"

// TestMountedConformance runs the official suite for both revisions against the
// fixtures on an SDK server, at one address.
func TestMountedConformance(t *testing.T) {
	onlyIfWanted(t, "runs the official suite")
	t.Parallel()
	node := needNode(t)
	server := startHTTP(t, onSDK)
	for _, r := range revisions {
		t.Run(r.revision, func(t *testing.T) { r.run(t, node, server.url()) })
	}
}

// TestMountedClients has every client go through sagas on an SDK server.
func TestMountedClients(t *testing.T) {
	t.Parallel()
	for nth, c := range contenders() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.available(t)
			p := startHTTP(t, onSDK)
			for name, at := range map[string]target{"HTTP": {URL: p.url()}, "stdio": greeted(p.stdio())} {
				t.Run(name, func(t *testing.T) {
					makeRepository(t, p.root)
					requireOutcomes(t, c, at, share(at, nth, plays(), play.writes), nil)
					written, err := os.ReadFile(filepath.Join(p.root, "repo", "RELEASE_NOTES.md"))
					require.NoError(t, err)
					assert.Equal(t, notes+"\n", string(written))
				})
			}
		})
	}
}

// TestMountedClientsWhileServersDie is TestClientsWhileServersDie on SDK servers, but for
// SAGA_NIGHTLY=1 with what lasts longest only: between two rounds all servers do the same.
func TestMountedClientsWhileServersDie(t *testing.T) {
	onlyIfWanted(t, "starts a server for each of many rounds")
	t.Parallel()
	for _, c := range contenders() {
		if c.stateless {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.available(t)
				p := startHTTP(t, onSDK)
				plays := []play{longTalk()}
				if nightly {
					plays = lasting()
				}
				playWhileServersDie(t, c, p, greeted(p.stdio()), plays)
			})
		}
	}
}

// greeted is a server that wants the handshake from every client.
func greeted(at target) target {
	at.Initialize = true
	return at
}
