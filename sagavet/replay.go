package sagavet

import (
	"cmp"
	"go/ast"
	"go/types"
	"iter"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"
)

// replayAnalyzer finds code by which a flow does something else when it runs again.
var replayAnalyzer = analyzer("sagareplay", `report the clock, chance, ids, the order of maps and goroutines in flows

A flow runs from its beginning in every turn, and must come to the same questions
and effects each time. Time, ids and random numbers come from the Run. What is made
for a log message only is not reported.`, func(pass *analysis.Pass, p *program, r *reporter) {
	unsteadyName := func(o types.Object) string { name, _ := unsteady(o); return name }
	v := &replay{newFlowCode(pass, r, unsteadyName, func(sig *types.Signature) bool {
		results := sig.Results() // it returns nothing that could differ each time
		return results.Len() == 0 || results.Len() == 1 && isError(results.At(0).Type())
	})}
	for body := range p.flowBodies(pass) {
		v.body(body)
	}
})

func declarations(pass *analysis.Pass) map[*types.Func]*ast.FuncDecl {
	decls := make(map[*types.Func]*ast.FuncDecl)
	for n := range nodes(pass) {
		if d, ok := n.(*ast.FuncDecl); ok && d.Body != nil {
			decls[pass.TypesInfo.Defs[d.Name].(*types.Func)] = d
		}
	}
	return decls
}

// flowBodies returns the bodies of the functions that run in flows that ask.
func (p *program) flowBodies(pass *analysis.Pass) iter.Seq[*ast.BlockStmt] {
	once := p.endAtOnce(pass)
	return func(yield func(*ast.BlockStmt) bool) {
		for c := range p.code(flowSignature) {
			if !once[c.Syntax()] && !yield(c.body) {
				return
			}
		}
	}
}

// endAtOnce returns the functions of flows that ask nothing. They run once.
func (p *program) endAtOnce(pass *analysis.Pass) map[ast.Node]bool {
	once := make(map[ast.Node]bool)
	begins := func(expr ast.Expr) {
		if f := p.function(pass.TypesInfo, expr); f != nil && p.does(f) != asks {
			once[f.Syntax()] = true
		}
	}
	for n := range nodes(pass) {
		if lit, ok := n.(*ast.CompositeLit); ok && isSaga(pass.TypesInfo.TypeOf(lit), "Flow") {
			begins(field(lit, "Run"))
		}
		assigned(n, func(to, value ast.Expr) {
			if f, ok := to.(*ast.SelectorExpr); ok && value != nil && f.Sel.Name == "Run" && isSaga(pass.TypesInfo.TypeOf(f.X), "Flow") {
				begins(ast.Unparen(value))
			}
		})
	}
	return once
}

// function returns the function of the package that an expression names or writes out. It is nil
// for variables.
func (p *program) function(info *types.Info, expr ast.Expr) *ssa.Function {
	var named types.Object
	switch expr := expr.(type) {
	case *ast.Ident:
		named = info.Uses[expr]
	case *ast.SelectorExpr:
		named = info.Uses[expr.Sel]
	case *ast.IndexExpr:
		return p.function(info, ast.Unparen(expr.X))
	}
	f, _ := named.(*types.Func)
	for _, candidate := range p.funcs {
		if expr != nil && candidate.Syntax() == expr || f != nil && candidate.Object() == f.Origin() {
			return candidate
		}
	}
	return nil
}

// flowSignature reports whether a function gets the Run, by itself or in a struct.
func flowSignature(sig *types.Signature) bool {
	has := func(t types.Type) bool { return isRun(t) || carries(t, isRun) }
	return takes(sig, has) || sig.Recv() != nil && has(sig.Recv().Type())
}

type replay struct{ *flowCode }

// body examines the body of a function of a flow.
func (v *replay) body(body *ast.BlockStmt) {
	v.maps(body)
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return v.inFlow(n)
		case *ast.GoStmt:
			v.concurrent(n)
			return false
		case *ast.CallExpr:
			f := calledFunc(v.info, n)
			if onlyLogs(f) {
				return false
			}
			if startsGoroutine(f) {
				v.concurrent(n)
				return false
			}
			if source := v.through(f, 3); source != "" {
				v.reporter.report(n.Pos(), "%s uses %s, which does not do the same when the flow runs again", "Take time, chance and ids from the Run, and hand them on", f.Name(), source)
			}
		case *ast.Ident:
			name, advice := unsteady(v.info.Uses[n])
			if name != "" {
				v.reporter.report(n.Pos(), "%s does not do the same when the flow runs again", advice, name)
			}
		}
		return true
	})
}

func (v *replay) concurrent(n ast.Node) {
	v.reporter.report(n.Pos(), "a flow must not start goroutines: what they do has no order, so the flow may diverge from its record when it runs again",
		"Do it in one effect, which may be concurrent inside, or ask several questions at once with Run.AskAll")
}

// isLogger reports whether a type is one of those to which programs report what they do: loggers,
// spans, metrics.
func isLogger(t types.Type) bool {
	return slices.Contains([]string{"Logger", "SugaredLogger", "Entry", "Event", "Span", "Counter", "Histogram", "Gauge"}, receiver(t))
}

func isKey(t types.Type) bool { return isSaga(t, "Key", "Performed") }

// onlyLogs reports whether a function only writes a message for people.
func onlyLogs(f *types.Func) bool {
	if f == nil || f.Pkg() == nil {
		return false
	}
	recv := f.Signature().Recv()
	return slices.Contains(telling, f.Pkg().Path()) || recv != nil && (isLogger(recv.Type()) || isSaga(recv.Type(), "working") && (f.Name() == "Log" || f.Name() == "Progress"))
}

// startsGoroutine reports whether a function is known to run its argument concurrently.
func startsGoroutine(f *types.Func) bool {
	return slices.Contains([]string{"(*sync.WaitGroup).Go", "(*golang.org/x/sync/errgroup.Group).Go", "(*golang.org/x/sync/errgroup.Group).TryGo", "time.AfterFunc"}, funcName(f))
}

// flowCode finds objects that code of tools must not use, directly or by functions of the package.
type flowCode struct {
	info     *types.Info
	reporter *reporter
	decls    map[*types.Func]*ast.FuncDecl
	// uses returns the name of an object that must not be used, or "".
	uses func(types.Object) string
	// passes reports whether what a function uses does not matter, judged by its signature.
	passes func(*types.Signature) bool
	// cleans: deferred calls do not matter, as they clean up.
	cleans bool
	// known caches the names of what functions of the package use.
	known map[*types.Func]string
}

func newFlowCode(pass *analysis.Pass, r *reporter, uses func(types.Object) string, passes func(*types.Signature) bool) *flowCode {
	return &flowCode{info: pass.TypesInfo, reporter: r, decls: declarations(pass), uses: uses, passes: passes, known: make(map[*types.Func]string)}
}

// inFlow reports whether a literal in a flow runs as part of it. One with a Run of its own is
// visited by itself, and one that does or undoes an effect does not run again.
func (v *flowCode) inFlow(lit *ast.FuncLit) bool {
	sig := v.info.TypeOf(lit).(*types.Signature)
	return !flowSignature(sig) && !takes(sig, isKey)
}

// through returns what a function of the package uses, or those that it calls, or "".
func (v *flowCode) through(f *types.Func, depth int) string {
	if f == nil || depth == 0 || flowSignature(f.Signature()) || v.passes(f.Signature()) {
		return ""
	}
	f = f.Origin()
	d := v.decls[f]
	known, ok := v.known[f]
	if d == nil || ok {
		return known
	}
	v.known[f] = "" // meanwhile, for functions that call themselves
	found := ""
	ast.Inspect(d.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false // it may be called elsewhere
		case *ast.DeferStmt:
			return !v.cleans
		case *ast.CallExpr:
			called := calledFunc(v.info, n)
			if onlyLogs(called) {
				return false
			}
			found = cmp.Or(found, v.through(called, depth-1))
		case *ast.Ident:
			found = cmp.Or(found, v.uses(v.info.Uses[n]))
		}
		return found == ""
	})
	v.known[f] = found
	return found
}
