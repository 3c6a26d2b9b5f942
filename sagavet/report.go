package sagavet

import (
	"fmt"
	"go/token"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// directive begins a comment that silences the analyzers on its line and the next.
const directive = "//sagavet:ignore"

// reporter reports each finding once, and none for which the author has given a reason.
type reporter struct {
	pass    *analysis.Pass
	said    map[string]bool
	ignored map[place]bool // true with a reason
}

type place struct {
	file string
	line int
}

func newReporter(pass *analysis.Pass) *reporter {
	r := &reporter{pass, make(map[string]bool), make(map[place]bool)}
	for _, f := range pass.Files {
		for _, group := range f.Comments {
			for _, c := range group.List {
				rest, ok := strings.CutPrefix(c.Text, directive)
				if !ok || rest != "" && !strings.HasPrefix(rest, " ") {
					continue
				}
				// What analysistest expects is no reason.
				reason, _, _ := strings.Cut(rest, "// want")
				r.ignored[r.place(c.Pos())] = strings.TrimSpace(reason) != ""
			}
		}
	}
	return r
}

func (r *reporter) place(pos token.Pos) place {
	p := r.pass.Fset.Position(pos)
	return place{p.Filename, p.Line}
}

// inTest reports whether a position is in a test file.
func (r *reporter) inTest(pos token.Pos) bool {
	return strings.HasSuffix(r.place(pos).file, "_test.go")
}

// report reports what is wrong, and in a second sentence what to do.
func (r *reporter) report(pos token.Pos, wrong, advice string, args ...any) {
	at := r.place(pos)
	text := fmt.Sprintf(wrong, args...) + ". " + advice + "."
	if r.said[fmt.Sprint(at, text)] {
		return
	}
	r.said[fmt.Sprint(at, text)] = true
	for _, line := range []int{at.line, at.line - 1} {
		switch reason, ok := r.ignored[place{at.file, line}]; {
		case ok && reason:
			return
		case ok:
			text += " (A " + directive + " needs a reason.)"
		}
	}
	r.pass.Report(analysis.Diagnostic{Pos: pos, Message: text})
}
