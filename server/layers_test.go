package server

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/mcpsaga/mcpsaga/"

// layers are the packages of this module that a server consists of, from the top to the
// bottom. A package refers to those of lower layers only: not to its neighbours in a layer,
// and never upwards.
var layers = [][]string{
	{"gosdk", "sagatest", "ledger/sqlite", "ledger/postgres"},
	{"server"},
	{"server/internal/pages"}, // is served beside the dialects
	{"server/internal/proposal", "server/internal/stateless", "server/internal/handshake", "server/internal/async"},
	{"server/internal/handshake/revision"},
	{"server/internal/apps"},
	{"server/internal/elsewhere"},
	{"server/internal/dialect"},
	{"server/internal/wire", "server/internal/bounds"},
	{"internal/durable"},
	{"internal/tasks"},
	{"internal/relay"},
	{"internal/turns"},
	{"saga"},
	{"internal/engine"},
	{"ledger"},
	{"codec", "client", "internal/store"},
	{"steps"},
	{"content"},
}

// engineUsers are all that may refer to the engine: authors and clients do without.
var engineUsers = []string{
	"cmd/program", // shows what a token holds
	"saga", "sagatest", "gosdk", "internal/relay", "internal/turns", "internal/tasks", "internal/durable", "server",
	"server/internal/dialect", "server/internal/elsewhere", "server/internal/pages", "server/internal/handshake", "server/internal/apps",
	"server/internal/stateless", "server/internal/proposal", "server/internal/async",
}

// below says which layers a package knows nothing of, though they are beneath it.
var below = map[string][]string{
	"server/internal/wire": {"internal/tasks", "internal/turns", "saga", "internal/engine", "codec", "steps", "content"},
	"client":               {"internal/engine"},
	"internal/turns":       {"server"},
}

// knows says what alone a package refers to. So the stores of the ledger stand above the
// server, which links none of their drivers, and know nothing of it.
var knows = map[string][]string{
	"ledger":          {"internal/store"},
	"internal/store":  {},
	"ledger/sqlite":   {"ledger", "internal/store"},
	"ledger/postgres": {"ledger", "internal/store"},
}

// coreUsers are all that may refer to the durable core, rather than to what it does for turns and tasks.
var coreUsers = []string{"server", "sagatest", "cmd/program", "server/internal/handshake", "server/internal/dialect", "server/internal/async", "server/internal/pages", "server/internal/elsewhere"}

func layerOf(name string) int {
	return slices.IndexFunc(layers, func(l []string) bool { return slices.Contains(l, name) })
}

// imports are what the packages of this module import of it, without their tests.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", module+"...").Output()
	require.NoError(t, err)
	all := make(map[string][]string)
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p struct {
			ImportPath string
			Imports    []string
		}
		require.NoError(t, dec.Decode(&p))
		name := strings.TrimPrefix(p.ImportPath, module)
		all[name] = []string{}
		for _, i := range p.Imports {
			if i, ours := strings.CutPrefix(i, module); ours {
				all[name] = append(all[name], i)
			}
		}
	}
	return all
}

// The arrows between packages go one way only.
func TestLayers(t *testing.T) {
	all := imports(t)
	for _, layer := range layers {
		for _, name := range layer {
			require.Contains(t, all, name, "there is no such package any more: change this test")
		}
	}
	helpers := make(map[string]bool) // of what is beneath the server
	for name, imported := range all {
		for _, i := range imported {
			helpers[i] = helpers[i] || strings.HasPrefix(i, "internal/") && layerOf(name) > layerOf("internal/turns")
		}
	}
	for name, imported := range all {
		at := layerOf(name)
		for _, i := range imported {
			to := layerOf(i)
			if at >= 0 && to >= 0 {
				assert.Greater(t, to, at, "%s is not to refer to %s, which is not beneath it", name, i)
				assert.NotContains(t, below[name], i, "%s is not to know of %s", name, i)
			}
			if at < 0 && helpers[name] && to >= 0 {
				assert.Greater(t, to, layerOf("internal/engine"), "%s is a helper of all, which is not to refer to %s", name, i)
			}
			if only, limited := knows[name]; limited {
				assert.Contains(t, only, i, "%s is not to know of %s", name, i)
			}
			if i == "internal/durable" {
				assert.Contains(t, coreUsers, name, "%s is to do without the durable core", name)
			}
			if i == "internal/engine" {
				assert.Contains(t, engineUsers, name, "%s is to do without the engine", name)
			}
			if slices.Contains(layers[layerOf("server/internal/handshake/revision")], i) {
				assert.Equal(t, "server/internal/handshake", name, "%s is a part of the handshake", i)
			}
			if slices.Contains(layers[layerOf("server/internal/proposal")], i) {
				assert.Equal(t, "server", name, "only the list of dialects refers to a dialect")
			}
		}
	}
}

// Dialects do not know how messages travel.
func TestDialectsDoNotWriteHTTP(t *testing.T) {
	for _, name := range slices.Concat(layers[layerOf("server/internal/proposal")], layers[layerOf("server/internal/handshake/revision")]) {
		files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(name), "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			assert.NotRegexp(t, `http\.(Response(Writer|Controller)|Server|Flusher)\b`, string(source), file)
		}
	}
}
