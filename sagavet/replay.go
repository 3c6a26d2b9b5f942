package sagavet

import (
	"go/ast"
	"go/types"
	"iter"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"

	"golang.org/x/tools/go/analysis/passes/inspect"
)

// replayAnalyzer finds what makes a flow do something else when it runs again.
var replayAnalyzer = analyzer("sagareplay", `report the clock, chance, ids, the order of maps and goroutines in flows

A flow runs from its beginning in every turn, and must come to the same questions
and effects each time. Time, ids and random numbers come from the Run. What is made
for a log message only is not reported.`, func(pass *analysis.Pass, p *program, r *reporter) {
	v := &replay{pass: pass, info: pass.TypesInfo, reporter: r, decls: declarations(pass), sources: make(map[*types.Func]string)}
	for body := range p.flowBodies(pass) {
		v.body(body)
	}
})

// declarations returns the functions that a package declares.
func declarations(pass *analysis.Pass) map[*types.Func]*ast.FuncDecl {
	decls := make(map[*types.Func]*ast.FuncDecl)
	for _, f := range pass.Files {
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
				decls[pass.TypesInfo.Defs[d.Name].(*types.Func)] = d
			}
		}
	}
	return decls
}

// flowBodies returns the bodies of the functions that run in flows which ask.
func (p *program) flowBodies(pass *analysis.Pass) iter.Seq[*ast.BlockStmt] {
	once := p.endAtOnce(pass)
	in := pass.ResultOf[inspect.Analyzer].(*inspector.Inspector)
	return func(yield func(*ast.BlockStmt) bool) {
		for n := range in.PreorderSeq((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
			var sig *types.Signature
			var body *ast.BlockStmt
			switch n := n.(type) {
			case *ast.FuncDecl:
				sig, body = pass.TypesInfo.Defs[n.Name].(*types.Func).Signature(), n.Body
			case *ast.FuncLit:
				sig, _ = pass.TypesInfo.TypeOf(n).(*types.Signature)
				body = n.Body
			}
			if sig != nil && body != nil && flowSignature(sig) && !once[n] && !yield(body) {
				return
			}
		}
	}
}

// endAtOnce returns the functions of flows that ask nothing, so they run once.
func (p *program) endAtOnce(pass *analysis.Pass) map[ast.Node]bool {
	once := make(map[ast.Node]bool)
	for _, f := range pass.Files {
		ast.Inspect(f, func(n ast.Node) bool {
			for _, expr := range beginnings(pass.TypesInfo, n) {
				if f := p.function(pass.TypesInfo, expr); f != nil && p.does(f) != asks {
					once[f.Syntax()] = true
				}
			}
			return true
		})
	}
	return once
}

// flowSignature reports whether a function has the Run as a parameter, or in a
// parameter or its receiver.
func flowSignature(sig *types.Signature) bool {
	has := func(t types.Type) bool { return isRun(t) || carries(t, isRun) }
	return takes(sig, has) || sig.Recv() != nil && has(sig.Recv().Type())
}

type replay struct {
	pass     *analysis.Pass
	info     *types.Info
	reporter *reporter
	decls    map[*types.Func]*ast.FuncDecl
	// sources are what functions of the package take that differs each time.
	sources map[*types.Func]string
}

// body examines the body of a function of a flow.
func (v *replay) body(body *ast.BlockStmt) {
	v.maps(body)
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			// A literal with a Run of its own is visited by itself. One that does or
			// undoes an effect, or is given a context, does not run again.
			sig := v.info.TypeOf(n).(*types.Signature)
			return !flowSignature(sig) && !takes(sig, isKey)
		case *ast.GoStmt:
			v.reporter.report(n.Pos(), "a flow must not start goroutines: what they do has no order, so the flow may diverge from its record when it runs again",
				"Do it in one effect, which may be concurrent inside, or ask several questions at once with Run.AskAll")
			return false
		case *ast.CallExpr:
			f := calledFunc(v.info, n)
			if onlyLogs(f) {
				return false
			}
			if startsGoroutine(f) {
				v.reporter.report(n.Pos(), "a flow must not start goroutines: what they do has no order, so the flow may diverge from its record when it runs again",
					"Do it in one effect, which may be concurrent inside, or ask several questions at once with Run.AskAll")
				return false
			}
			if source := v.taken(f, 3); source != "" {
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

func isKey(t types.Type) bool { return isSaga(t, "Key", "Performed") }

// onlyLogs reports whether a function only tells people something.
func onlyLogs(f *types.Func) bool {
	if f == nil || f.Pkg() == nil {
		return false
	}
	switch f.Pkg().Path() {
	case "log", "log/slog":
		return true
	case "testing", "github.com/stretchr/testify/assert", "github.com/stretchr/testify/require":
		return true
	}
	recv := f.Signature().Recv()
	return recv != nil && (isLogger(recv.Type()) || isSaga(recv.Type(), "working") && (f.Name() == "Log" || f.Name() == "Progress"))
}

// startsGoroutine knows functions that run others concurrently.
func startsGoroutine(f *types.Func) bool {
	switch funcName(f) {
	case "(*sync.WaitGroup).Go", "(*golang.org/x/sync/errgroup.Group).Go", "(*golang.org/x/sync/errgroup.Group).TryGo", "time.AfterFunc":
		return true
	}
	return false
}

// taken says what a function of the package, with those that it calls, takes that
// differs each time; it is empty if nothing is or if it cannot hand it on.
func (v *replay) taken(f *types.Func, depth int) string {
	if f == nil || depth == 0 {
		return ""
	}
	d := v.decls[f.Origin()]
	results := f.Signature().Results()
	if d == nil || flowSignature(f.Signature()) || results.Len() == 0 || results.Len() == 1 && isError(results.At(0).Type()) {
		return ""
	}
	if known, ok := v.sources[f]; ok {
		return known
	}
	v.sources[f] = ""
	found := ""
	ast.Inspect(d.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false // who knows when it is called
		case *ast.CallExpr:
			called := calledFunc(v.info, n)
			if onlyLogs(called) {
				return false
			}
			if found == "" {
				found = v.taken(called, depth-1)
			}
		case *ast.Ident:
			if name, _ := unsteady(v.info.Uses[n]); found == "" {
				found = name
			}
		}
		return found == ""
	})
	v.sources[f] = found
	return found
}
