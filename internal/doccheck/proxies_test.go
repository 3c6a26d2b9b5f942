package doccheck

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The guide shows the configurations of proxies as they are tested (TestProxies in
// package interop), to the letter.
func TestProxiesInTheGuide(t *testing.T) {
	guide := read(t, "docs/guide.md")
	files, err := os.ReadDir(filepath.Join(root, "docs", "proxies"))
	require.NoError(t, err)
	require.Len(t, files, 3)
	tested := read(t, "interop/proxies_test.go")
	for _, f := range files {
		config := strings.TrimSuffix(read(t, "docs/proxies/"+f.Name()), "\n")
		shown := false
		for _, language := range []string{"nginx", "haproxy", "caddy"} {
			for _, b := range blocks(guide, language) {
				shown = shown || b == config
			}
		}
		assert.True(t, shown, "docs/guide.md does not show docs/proxies/%s as it is", f.Name())
		assert.Contains(t, tested, `"`+f.Name()+`"`)
	}
}
