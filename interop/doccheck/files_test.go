package doccheck

import (
	"go/ast"
	"testing"

	"github.com/stretchr/testify/assert"
)

// mostLines is where CONTRIBUTING.md's "about 400" ends.
const mostLines = 450

// A file has one idea, so it is short. What programs write may be as long as it likes.
func TestFilesAreShort(t *testing.T) {
	for _, tests := range []bool{false, true} {
		fset, dirs := goFiles(t, tests)
		for _, files := range dirs {
			for _, f := range files {
				file := fset.File(f.FileStart)
				if lines := file.LineCount(); !ast.IsGenerated(f) {
					assert.LessOrEqual(t, lines, mostLines, "%s is too long: split it by subject", file.Name())
				}
			}
		}
	}
}
