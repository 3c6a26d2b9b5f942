package sagavet

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"
)

// outsideAnalyzer finds what reaches from a flow to the world, outside of an effect.
var outsideAnalyzer = analyzer("sagaoutside", `report files, processes, the network, databases and the environment in flows

A flow runs from its beginning in every turn, perhaps on another machine. What it
reads from outside may have changed, so it may come to other questions than before;
what it changes outside is changed again each time, and never undone. Both belong
into an effect, whose result is recorded. Flows that ask nothing are left alone.`, func(pass *analysis.Pass, p *program, r *reporter) {
	v := &outsideVisitor{info: pass.TypesInfo, reporter: r, decls: declarations(pass), reached: make(map[*types.Func]string)}
	for body := range p.flowBodies(pass) {
		v.body(body)
	}
})

type outsideVisitor struct {
	info     *types.Info
	reporter *reporter
	decls    map[*types.Func]*ast.FuncDecl
	// reached is what functions of the package reach.
	reached map[*types.Func]string
}

// body examines the body of a function of a flow.
func (v *outsideVisitor) body(body *ast.BlockStmt) {
	const wrong, advice = "the flow runs from its beginning in every turn, so this may find something else, or act again", "Do it in an effect, whose result is recorded"
	v.look(body, true, func(n ast.Node, name string) {
		v.reporter.report(n.Pos(), "%s reaches outside of the saga: "+wrong, advice, name)
	}, func(n ast.Node, f *types.Func, name string) {
		v.reporter.report(n.Pos(), "%s uses %s, which reaches outside of the saga: "+wrong, advice, f.Name(), name)
	}, 3)
}

// look tells of what a piece of code reaches directly, and by functions of the package.
// Functions within it are looked at if they are likely to be called there.
func (v *outsideVisitor) look(code ast.Node, within bool, directly func(ast.Node, string), by func(ast.Node, *types.Func, string), depth int) {
	ast.Inspect(code, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			// One with a Run of its own is visited by itself, one with a Key is an effect.
			sig := v.info.TypeOf(n).(*types.Signature)
			return within && !flowSignature(sig) && !takes(sig, isKey)
		case *ast.CallExpr:
			f := calledFunc(v.info, n)
			if onlyLogs(f) {
				return false
			}
			if name := v.through(f, depth); name != "" {
				by(n, f, name)
			}
		case *ast.Ident:
			if name := outside(v.info.Uses[n]); name != "" {
				directly(n, name)
			}
		}
		return true
	})
}

// through says what a function of the package, with those that it calls, reaches.
func (v *outsideVisitor) through(f *types.Func, depth int) string {
	if f == nil || depth == 0 || flowSignature(f.Signature()) {
		return ""
	}
	d := v.decls[f.Origin()]
	if d == nil {
		return ""
	}
	if known, ok := v.reached[f.Origin()]; ok {
		return known
	}
	v.reached[f.Origin()] = ""
	found := ""
	v.look(d.Body, false, func(_ ast.Node, name string) {
		if found == "" {
			found = name
		}
	}, func(_ ast.Node, _ *types.Func, name string) {
		if found == "" {
			found = name
		}
	}, depth-1)
	v.reached[f.Origin()] = found
	return found
}
