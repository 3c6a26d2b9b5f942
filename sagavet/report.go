package sagavet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// source is a package whose tools are examined. It reports each finding once, and none for which the author has given a
// reason.
type source struct {
	*analysis.Pass
	said    map[string]bool
	ignored map[token.Position]bool // by //sagavet:ignore, on its line and the next: true with a reason
	decls   map[*types.Func]*ast.FuncDecl
	// closures are the literals that variables are set to.
	closures map[types.Object]*ast.FuncLit
}

func newSource(pass *analysis.Pass) *source {
	v := &source{pass, make(map[string]bool), make(map[token.Position]bool), make(map[*types.Func]*ast.FuncDecl), make(map[types.Object]*ast.FuncLit)}
	for n := range v.nodes() {
		if d, ok := n.(*ast.FuncDecl); ok && d.Body != nil {
			v.decls[v.TypesInfo.Defs[d.Name].(*types.Func)] = d
		}
		assigned(n, func(to, value ast.Expr) {
			if lit, ok := value.(*ast.FuncLit); ok && v.object(to) != nil {
				v.closures[v.object(to)] = lit
			}
		})
	}
	for _, f := range pass.Files {
		for _, group := range f.Comments {
			for _, c := range group.List {
				d, ok := ast.ParseDirective(c.Pos(), c.Text)
				if !ok || d.Tool != "sagavet" || d.Name != "ignore" {
					continue
				}
				reason, _, _ := strings.Cut(d.Args, "// want") // what analysistest expects is none
				at := v.line(c.Pos())
				for range 2 { // unless the next line has a comment of its own
					v.ignored[at] = strings.TrimSpace(reason) != ""
					at.Line++
				}
			}
		}
	}
	return v
}

// line is the line of a position.
func (v *source) line(pos token.Pos) token.Position {
	p := v.Fset.Position(pos)
	return token.Position{Filename: p.Filename, Line: p.Line}
}

// inTest reports whether a position is in a test file.
func (v *source) inTest(pos token.Pos) bool {
	return strings.HasSuffix(v.line(pos).Filename, "_test.go")
}

// report reports what is wrong, and in a second sentence what to do.
func (v *source) report(pos token.Pos, wrong, advice string, args ...any) {
	at := v.line(pos)
	text := fmt.Sprintf(wrong, args...) + ". " + advice + "."
	reason, ignored := v.ignored[at]
	if v.said[fmt.Sprint(at, text)] || reason {
		return
	}
	v.said[fmt.Sprint(at, text)] = true
	if ignored {
		text += " (A //sagavet:ignore needs a reason.)"
	}
	v.Report(analysis.Diagnostic{Pos: pos, Message: text})
}
