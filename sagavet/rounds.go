package sagavet

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/cfg"
	"golang.org/x/tools/go/types/typeutil"
)

// maxRounds is what every client in use goes through with.
const maxRounds = 8

// roundsAnalyzer finds flows that ask more often than clients go along with.
var roundsAnalyzer = analyzer("sagarounds", `report flows with more than eight rounds of questions

Clients give up after eight to ten rounds. Reported are flows that can come to more
than eight calls of saga.Ask or Run.AskAll, loops with a constant bound included, and
questions in loops that nothing in the code bounds. A loop over a slice, or up to a
variable, is taken for bounded, and counted as one round.`, func(pass *analysis.Pass, _ *program, r *reporter) {
	v := &rounds{
		info: pass.TypesInfo, reporter: r,
		bodies: make(map[types.Object]*ast.BlockStmt), counted: make(map[*ast.BlockStmt]*count),
	}
	for n := range nodes(pass) {
		v.declare(n)
	}
	for n := range nodes(pass) {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Body != nil {
				v.function(n.Body)
			}
		case *ast.FuncLit:
			v.function(n.Body)
		}
	}
})

type rounds struct {
	info     *types.Info
	reporter *reporter
	// bodies are those of functions of the package, and of literals by the variable
	// that holds them.
	bodies  map[types.Object]*ast.BlockStmt
	counted map[*ast.BlockStmt]*count
}

// declare remembers the bodies of functions and of literals in variables.
func (v *rounds) declare(n ast.Node) {
	switch n := n.(type) {
	case *ast.FuncDecl:
		if n.Body != nil {
			v.bodies[v.info.Defs[n.Name]] = n.Body
		}
	case *ast.AssignStmt:
		for i, value := range n.Rhs {
			lit, ok := ast.Unparen(value).(*ast.FuncLit)
			if id, isName := n.Lhs[i].(*ast.Ident); ok && isName {
				v.bodies[v.info.ObjectOf(id)] = lit.Body
			}
		}
	}
}

// function reports what is wrong with a function itself, not with those it calls.
func (v *rounds) function(body *ast.BlockStmt) {
	c := v.count(body)
	if c.rounds <= maxRounds || c.inCallee || c.ninth == nil {
		return
	}
	v.reporter.report(c.ninth.Pos(), "this flow asks in up to %d rounds, and clients give up after %d",
		"Ask several questions at once with Run.AskAll, or make it two tools", c.rounds, maxRounds)
}

// count is how often a function asks, on the way on which it asks most.
type count struct {
	rounds int
	// ninth is the call that makes it too many.
	ninth *ast.CallExpr
	// inCallee: one of the functions called has too many by itself.
	inCallee bool
}

func (v *rounds) count(body *ast.BlockStmt) *count {
	if c := v.counted[body]; c != nil {
		return c // or what is known so far of a function that calls itself
	}
	c := new(count)
	v.counted[body] = c
	w := counter{rounds: v, count: c, ways: make(map[*cfg.Block]*asking)}
	w.most(body)
	return c
}

func (v *rounds) calls(call *ast.CallExpr, c *count) int {
	switch funcName(calledFunc(v.info, call)) {
	case askFunc, runAskAll:
		return 1
	}
	o := typeutil.Callee(v.info, call)
	if f, ok := o.(*types.Func); ok {
		o = f.Origin()
	}
	body := v.bodies[o]
	if body == nil {
		return 0
	}
	callee := v.count(body)
	if callee.rounds > maxRounds {
		c.inCallee = true
	}
	return callee.rounds
}
