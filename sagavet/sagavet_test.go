package sagavet_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/mcpsaga/mcpsaga/sagavet"
)

// Each analyzer finds what its package under testdata expects, and nothing else.
// The packages use the real package saga, so they are those of this module. To
// load them is what takes time, so it is done once, by an analyzer that is each
// time the one that the package is about.
func TestAnalyzers(t *testing.T) {
	if testing.Short() {
		t.Skip("loads and builds a large part of this module and of Go's library")
	}
	t.Parallel()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	about := map[string]*analysis.Analyzer{
		"deferred": sagavet.Deferred, "swallowed": sagavet.Swallowed, "replay": sagavet.Replay,
		"outside": sagavet.Outside, "secrets": sagavet.Secrets,
		"first": sagavet.First, "state": sagavet.State, "rounds": sagavet.Rounds,
		"ignored": sagavet.Swallowed,
	}
	each := &analysis.Analyzer{Name: "each", Doc: "run the analyzer that the package is about"}
	var packages []string
	for name, a := range about {
		each.Requires = append(each.Requires, a.Requires...)
		packages = append(packages, "./sagavet/testdata/"+name)
	}
	each.Run = func(pass *analysis.Pass) (any, error) { return about[pass.Pkg.Name()].Run(pass) }
	assert.Len(t, analysistest.Run(t, root, each, packages...), len(about))
}

func TestAnalyzersAreValid(t *testing.T) {
	require.NoError(t, analysis.Validate(sagavet.Analyzers()))
	for _, a := range sagavet.Analyzers() {
		assert.True(t, strings.HasPrefix(a.Name, "saga"), "%s: names must differ from those of others", a.Name)
	}
}

// The command finds the same by itself and from go vet.
func TestCommand(t *testing.T) {
	if testing.Short() {
		t.Skip("loads and builds a large part of this module and of Go's library")
	}
	t.Parallel()
	tool := filepath.Join(t.TempDir(), "sagavet")
	run := func(fails bool, name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		out, err := cmd.CombinedOutput()
		assert.Equal(t, fails, err != nil, "%s", out)
		return string(out)
	}
	run(false, "go", "build", "-ldflags=-s -w", "-o", tool, "../cmd/sagavet")
	const found = "the error of saga.Ask by one that does not wrap it"
	assert.Contains(t, run(true, tool, "./testdata/swallowed"), found)
	assert.Contains(t, run(true, "go", "vet", "-vettool="+tool, "./testdata/swallowed"), found)
	assert.Empty(t, run(false, "go", "vet", "-vettool="+tool, "-sagaswallowed=false", "./testdata/ignored"))
	assert.Contains(t, run(false, tool, "help"), "sagaswallowed")
}
