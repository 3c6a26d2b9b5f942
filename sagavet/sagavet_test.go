package sagavet_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/mcpsaga/mcpsaga/sagavet"
)

// Each analyzer finds what its package under testdata expects, and nothing else.
// The packages use the real package saga, so they are those of this module. To
// load them is what takes time, so it is done once, by an analyzer that runs all the
// others and passes on what the one reports that the package is about. As under go
// vet, they run at the same time and share what was prepared.
func TestAnalyzers(t *testing.T) {
	if testing.Short() {
		t.Skip("loads and builds a large part of this module and of Go's library")
	}
	t.Parallel()
	// What is loaded is kept to the end, so there is little to collect.
	defer debug.SetGCPercent(debug.SetGCPercent(200))
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	each := &analysis.Analyzer{Name: "each", Doc: "run all analyzers"}
	var packages []string
	for _, a := range sagavet.Analyzers() {
		each.Requires = append(each.Requires, a.Requires...)
		packages = append(packages, "./sagavet/testdata/"+strings.TrimPrefix(a.Name, "saga"))
	}
	each.Run = func(pass *analysis.Pass) (any, error) {
		about := "saga" + pass.Pkg.Name()
		var all sync.WaitGroup
		failed := make([]error, len(sagavet.Analyzers()))
		for i, a := range sagavet.Analyzers() {
			own := *pass
			own.Analyzer = a
			if a.Name != about {
				own.Report = func(analysis.Diagnostic) {}
			}
			all.Go(func() { _, failed[i] = a.Run(&own) })
		}
		all.Wait()
		return nil, errors.Join(failed...)
	}
	assert.Len(t, analysistest.Run(t, root, each, packages...), len(packages))
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
	const found = "does not do the same when the flow runs again"
	assert.Contains(t, run(true, tool, "./testdata/replay"), found)
	assert.Contains(t, run(true, "go", "vet", "-vettool="+tool, "./testdata/replay"), found)
	assert.Empty(t, run(false, "go", "vet", "-vettool="+tool, "-sagareplay=false", "./testdata/replay"))
	assert.Contains(t, run(false, tool, "help"), "sagareplay")
}
