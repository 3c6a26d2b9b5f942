package interop

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/longtests"
)

// nodeDir is where npm installs what the tests need.
const nodeDir = "testdata/node"

// nodeTools is Node.js with the pinned packages.
type nodeTools struct{ node string }

// needNode returns Node.js and the packages, or skips the test.
func needNode(t *testing.T) nodeTools {
	t.Helper()
	node, err := installedNode()
	needs(t, longtests.Node, ".ci/node", err)
	return nodeTools{node}
}

// installedNode is looked for once.
var installedNode = sync.OnceValues(func() (string, error) {
	node, err := findNode()
	if err == nil {
		err = checkPackages()
	}
	return node, err
})

// findNode looks for Node.js 22 or newer: the one of npm, then that of the
// machine.
func findNode() (string, error) {
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	local, err := filepath.Abs(filepath.Join(nodeDir, "node_modules", "node-"+runtime.GOOS+"-"+arch, "bin", "node"))
	if err != nil {
		return "", err
	}
	for _, node := range []string{local, "node"} {
		out, err := exec.Command(node, "--version").Output()
		if err != nil {
			continue
		}
		major, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(string(out)), "v"), ".")
		if n, err := strconv.Atoi(major); err == nil && n >= 22 {
			return node, nil
		}
	}
	return "", fmt.Errorf("there is no Node.js 22")
}

// checkPackages compares the packages that are installed with those that are
// pinned.
func checkPackages() error {
	var pinned struct{ Dependencies map[string]string }
	if err := readJSON(filepath.Join(nodeDir, "package.json"), &pinned); err != nil {
		return err
	}
	for name, version := range pinned.Dependencies {
		version = version[strings.LastIndexByte(version, '@')+1:] // of a package under another name: npm:PACKAGE@VERSION
		var installed struct{ Version string }
		if err := readJSON(filepath.Join(nodeDir, "node_modules", name, "package.json"), &installed); err != nil || installed.Version != version {
			return fmt.Errorf("the npm package %s %s is not installed in interop/%s", name, version, nodeDir)
		}
	}
	return nil
}

func readJSON(file string, into any) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}

// command prepares to run a script below nodeDir.
func (n nodeTools) command(script string, args ...string) *exec.Cmd {
	cmd := exec.Command(n.node, append([]string{filepath.Join(nodeDir, script)}, args...)...)
	// The suite and the SDKs find the same Node.js if they look for one.
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(n.node)+string(os.PathListSeparator)+os.Getenv("PATH"))
	return cmd
}

// TestLockFile: what is installed is pinned by checksum, and nothing is said of
// where it comes from; that is for each machine's npm to know.
func TestLockFile(t *testing.T) {
	var lock struct {
		Packages map[string]struct{ Version, Integrity, Resolved string }
	}
	require.NoError(t, readJSON(filepath.Join(nodeDir, "package-lock.json"), &lock))
	require.NotEmpty(t, lock.Packages)
	for name, p := range lock.Packages {
		if name == "" {
			continue // the project itself
		}
		require.NotEmpty(t, p.Integrity, name)
		require.Empty(t, p.Resolved, name)
	}
}
