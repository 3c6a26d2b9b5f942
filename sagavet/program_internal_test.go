package sagavet

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"
	"golang.org/x/tools/go/ssa"
)

// The analyzers of a package run at the same time and share what build has prepared.
func TestProgramIsShared(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	many := &analysis.Analyzer{Name: "many", Doc: "ask from many goroutines", Requires: []*analysis.Analyzer{build}}
	many.Run = func(pass *analysis.Pass) (any, error) {
		p := pass.ResultOf[build].(*program)
		require.NotEmpty(t, p.funcs)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for _, f := range p.funcs {
					instructions(f, func(i ssa.Instruction) {
						if call, ok := i.(ssa.CallInstruction); ok {
							p.operation(call.Common())
						}
					})
				}
			})
		}
		all.Wait()
		return nil, nil
	}
	analysistest.Run(quiet{t}, root, many, "./sagavet/testdata/replay")
}

// quiet is a test that does not mind that this analyzer finds nothing of what its
// package expects.
type quiet struct{ *testing.T }

func (quiet) Errorf(string, ...any) {}
