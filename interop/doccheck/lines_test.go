package doccheck

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// groups are the parts of this repository, with how many lines of Go each may have, tests not counted. A
// directory belongs to the group that names the longest beginning of its path.
var groups = []struct {
	name  string
	most  int
	paths []string
}{
	{"what authors write", 2_334, []string{"saga"}},
	{"questions and schemas", 4_360, []string{"steps", "internal/schema"}},
	{"content", 755, []string{"content"}},
	{"keys", 1_085, []string{"codec", "kms"}},
	{"the engine", 5_825, []string{"internal/engine"}},
	{"turns", 3_114, []string{"internal/turns", "internal/tasks"}},
	{"the durable core", 7_692, []string{"internal/durable"}},
	{"stores", 2_582, []string{"ledger", "ledger/sqlite", "ledger/postgres"}},
	{"the contract of stores, its test kit and the store in memory", 2_211, []string{"internal/store"}},
	{"tokens", 1_752, []string{"internal/tokens"}},
	{"server and dialects without sessions", 8_907, []string{"server", "internal/paramheader"}},
	{"questions that are asked elsewhere", 1_323, []string{"server/internal/elsewhere", "internal/relay"}},
	{"pages on which users answer", 1_254, []string{"server/internal/pages"}},
	{"sessions", 4_781, []string{"server/internal/handshake"}},
	{"asynchronous tools", 587, []string{"server/internal/async"}},
	{"who may call", 2_136, []string{"auth"}},
	{"clients", 4_325, []string{"client"}},
	{"the mount on the Go SDK, and what compares the two", 1_591, []string{"gosdk"}},
	{"the test kit", 3_908, []string{"sagatest"}},
	{"analyzers", 2_343, []string{"sagavet", "cmd/sagavet"}},
	{"the command", 8_569, []string{"cmd/saga", "cmd/program"}},
	{"examples", 2_773, []string{"examples"}},
	{"benchmarks", 15, []string{"bench"}},
	{"telemetry", 1_004, []string{"telemetry"}},
	{"the rest", 3_222, []string{""}},
}

// Code grows unnoticed, so each part has a bound. Whoever raises one says in the commit what it is worth.
func TestLinesAreCounted(t *testing.T) {
	lines := make(map[string]int)
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && (name == ".git" || name == "node_modules") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel("../..", filepath.Dir(path))
		group, longest := "", -1
		for _, g := range groups {
			for _, p := range g.paths {
				if (p == "" || dir == p || strings.HasPrefix(dir, p+"/")) && len(p) > longest {
					group, longest = g.name, len(p)
				}
			}
		}
		lines[group] += bytes.Count(raw, []byte("\n"))
		return err
	})
	require.NoError(t, err)
	sum := 0
	for _, g := range groups {
		t.Logf("%-60s %6d of %6d", g.name, lines[g.name], g.most)
		assert.LessOrEqual(t, lines[g.name], g.most, "%s has grown", g.name)
		sum += lines[g.name]
	}
	t.Logf("%-60s %6d", "all", sum)
}
