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
	{"what authors write", 2_280, []string{"saga"}},
	{"questions and schemas", 4_353, []string{"steps", "internal/schema"}},
	{"content", 752, []string{"content"}},
	{"keys", 1_083, []string{"codec", "kms"}},
	{"the engine", 5_825, []string{"internal/engine"}},
	{"turns", 3_112, []string{"internal/turns", "internal/tasks"}},
	{"the durable core", 7_620, []string{"internal/durable"}},
	{"stores", 2_548, []string{"ledger", "ledger/sqlite", "ledger/postgres"}},
	{"the contract of stores, its test kit and the store in memory", 2_175, []string{"internal/store"}},
	{"tokens", 1_752, []string{"internal/tokens"}},
	{"server and dialects without sessions", 8_796, []string{"server", "internal/paramheader"}},
	{"questions that are asked elsewhere", 1_305, []string{"server/internal/elsewhere", "internal/relay"}},
	{"pages on which users answer", 1_234, []string{"server/internal/pages"}},
	{"sessions", 4_617, []string{"server/internal/handshake"}},
	{"asynchronous tools", 572, []string{"server/internal/async"}},
	{"who may call", 2_095, []string{"auth"}},
	{"clients", 4_226, []string{"client"}},
	{"the mount on the Go SDK, and what compares the two", 1_587, []string{"gosdk"}},
	{"the test kit", 3_886, []string{"sagatest"}},
	{"analyzers", 2_305, []string{"sagavet", "cmd/sagavet"}},
	{"the command", 8_454, []string{"cmd/saga", "cmd/program"}},
	{"examples", 2_746, []string{"examples"}},
	{"benchmarks", 15, []string{"bench"}},
	{"telemetry", 980, []string{"telemetry"}},
	{"the rest", 3_198, []string{""}},
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
