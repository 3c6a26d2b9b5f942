package sagavet

import (
	"cmp"
	"go/ast"
	"go/types"
	"iter"
	"slices"

	"golang.org/x/tools/go/analysis"
)

// replayAnalyzer finds code by which a flow does something else when it runs again.
var replayAnalyzer = analyzer("sagareplay", `report the clock, chance, ids, the order of maps and goroutines in flows

A flow runs from its beginning in every turn, and must come to the same questions
and effects each time. Time, ids and random numbers come from the Run. What is made
for a log message only is not reported.`, func(pass *analysis.Pass, r *reporter) {
	unsteadyName := func(o types.Object) string { name, _ := unsteady(o); return name }
	v := &replay{newFlowCode(pass, r, unsteadyName, func(sig *types.Signature) bool {
		results := sig.Results() // it returns nothing that could differ each time
		return results.Len() == 0 || results.Len() == 1 && isError(results.At(0).Type())
	})}
	for body := range v.flowBodies(pass) {
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

// flowBodies returns the bodies of the functions that run in flows that suspend. Other flows run once.
func (v *flowCode) flowBodies(pass *analysis.Pass) iter.Seq[*ast.BlockStmt] {
	once := make(map[ast.Node]bool)
	begins := func(x ast.Expr) {
		var f ast.Node = x
		if d := v.decls[namedFunc(v.info, x)]; d != nil {
			f = d
		}
		once[f] = !v.suspends(f, make(map[ast.Node]bool))
	}
	for n := range nodes(pass) {
		if lit, ok := n.(*ast.CompositeLit); ok && isSaga(v.info.TypeOf(lit), "Flow") {
			begins(field(lit, "Run"))
		}
		assigned(n, func(to, value ast.Expr) {
			if f, ok := to.(*ast.SelectorExpr); ok && value != nil && f.Sel.Name == "Run" && isSaga(v.info.TypeOf(f.X), "Flow") {
				begins(ast.Unparen(value))
			}
		})
	}
	return func(yield func(*ast.BlockStmt) bool) {
		for c := range code(pass, flowSignature) {
			if !once[c.Node] && !yield(c.body) {
				return
			}
		}
	}
}

// namedFunc returns the function that an expression names, or nil.
func namedFunc(info *types.Info, x ast.Expr) *types.Func {
	var o types.Object
	switch x := x.(type) {
	case *ast.Ident:
		o = info.Uses[x]
	case *ast.SelectorExpr:
		o = info.Uses[x.Sel]
	case *ast.IndexExpr:
		return namedFunc(info, ast.Unparen(x.X))
	}
	if f, ok := o.(*types.Func); ok {
		return f.Origin()
	}
	return nil
}

// suspends reports whether code may suspend the saga: by itself, or by what it hands the Run to. What is not in the
// package is taken to do so.
func (v *flowCode) suspends(code ast.Node, seen map[ast.Node]bool) (found bool) {
	switch code.(type) {
	case *ast.FuncLit, *ast.FuncDecl:
	default:
		return true // it is known at run time only
	}
	if seen[code] {
		return false
	}
	seen[code] = true
	for n := range ast.Preorder(code) {
		call, ok := n.(*ast.CallExpr)
		if !ok || found {
			continue
		}
		f := calledFunc(v.info, call)
		switch name := funcName(f); {
		case name == askFunc, slices.Contains(suspending, name):
			return true
		case f != nil && f.Pkg() != nil && f.Pkg().Path() == sagaPath:
		case slices.ContainsFunc(call.Args, func(x ast.Expr) bool { return isRun(v.info.TypeOf(x)) || carries(v.info.TypeOf(x), isRun) }), f != nil && flowSignature(f.Signature()):
			var to ast.Node = call.Fun
			if f != nil && v.decls[f.Origin()] != nil {
				to = v.decls[f.Origin()]
			}
			found = v.suspends(to, seen)
		}
	}
	return found
}

// suspending are the methods of a Run that do, besides saga.Ask.
var suspending = []string{ofRun + "AskAll", ofRun + "Yield", ofRun + "Sleep", ofRun + "Until"}

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
		"Perform several effects at once with saga.DoAll, or ask several questions at once with Run.AskAll")
}

// isLogger reports whether a type is one of those to which programs report what they do: loggers,
// spans, metrics.
func isLogger(t types.Type) bool {
	return slices.Contains([]string{"Logger", "SugaredLogger", "Entry", "Event", "Span", "Counter", "Histogram", "Gauge"}, receiver(t))
}

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
