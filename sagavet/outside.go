package sagavet

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"
)

// outsideAnalyzer finds flows that reach outside of the process without an effect.
var outsideAnalyzer = analyzer("sagaoutside", `report files, processes, the network, databases and the environment in flows

A flow runs from its beginning in every turn, perhaps on another machine. What it
reads from outside may have changed, so it may come to other questions than before;
what it changes outside is changed again each time, and never undone. Both belong
in an effect, whose result is recorded. Flows that ask nothing are left alone.`, func(pass *analysis.Pass, r *reporter) {
	const wrong, advice = "the flow runs from its beginning in every turn, so this may find something else, or act again", "Do it in an effect, whose result is recorded"
	v := newFlowCode(pass, r, outside, func(*types.Signature) bool { return false })
	for body := range v.flowBodies(pass) {
		ast.Inspect(body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit:
				return v.inFlow(n)
			case *ast.CallExpr:
				f := calledFunc(v.info, n)
				if onlyLogs(f) {
					return false
				}
				if name := v.through(f, 3); name != "" {
					r.report(n.Pos(), "%s uses %s, which reaches outside of the saga: "+wrong, advice, f.Name(), name)
				}
			case *ast.Ident:
				if name := outside(v.info.Uses[n]); name != "" {
					r.report(n.Pos(), "%s reaches outside of the saga: "+wrong, advice, name)
				}
			}
			return true
		})
	}
})
