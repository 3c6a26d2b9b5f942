package doccheck

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The page for operators links to the configurations of proxies, and all of them are
// tested (TestProxies, TestAnyReplica and TestProduction in package interop).
func TestProxiesAreShownAndTested(t *testing.T) {
	page := read(t, "docs/operate.md")
	files, err := os.ReadDir(filepath.Join(root, "docs", "proxies"))
	require.NoError(t, err)
	require.Len(t, files, 7)
	tested := read(t, "interop/proxies_test.go") + read(t, "interop/replicas_cluster_test.go") + read(t, "interop/production_site_test.go")
	for _, f := range files {
		assert.Contains(t, page, "](proxies/"+f.Name()+")")
		assert.Contains(t, tested, `"`+f.Name()+`"`)
	}
}
