package sagavet

import (
	"cmp"
	"go/ast"
	"go/types"
	"iter"
	"slices"
)

// flowCode finds objects that code of tools must not use, directly or by functions of the package.
type flowCode struct {
	*source
	// uses returns the name of an object that must not be used, or "", and what to do instead.
	uses func(types.Object) (name, advice string)
	// passes reports whether what a function uses does not matter, judged by its signature.
	passes func(*types.Signature) bool
	// cleans: deferred calls do not matter, as they clean up.
	cleans bool
	// known caches the names of what functions of the package use.
	known map[*types.Func]string
}

func newFlowCode(src *source, uses func(types.Object) (name, advice string), passes func(*types.Signature) bool) *flowCode {
	return &flowCode{source: src, uses: uses, passes: passes, known: make(map[*types.Func]string)}
}

// inFlow reports whether a literal in a flow runs as part of it. One with a Run of its own is
// visited by itself, and one that does or undoes an effect does not run again.
func (v *flowCode) inFlow(lit *ast.FuncLit) bool {
	sig := v.signature(lit)
	return !flowSignature(sig) && !takes(sig, isKey)
}

// through returns what a function of the package uses, or those that it calls, or "".
func (v *flowCode) through(f *types.Func) string {
	if f == nil || flowSignature(f.Signature()) || v.passes(f.Signature()) {
		return ""
	}
	f = f.Origin()
	d := v.decls[f]
	if known, ok := v.known[f]; d == nil || ok {
		return known
	}
	v.known[f] = ""                            // meanwhile, for functions that call themselves
	outsideLiterals := func(n ast.Node) bool { // which may be called elsewhere
		_, lit := n.(*ast.FuncLit)
		return !lit
	}
	v.walk(d.Body, outsideLiterals, func(_ ast.Node, _ *types.Func, name, _ string) { v.known[f] = cmp.Or(v.known[f], name) })
	return v.known[f]
}

// walk calls found for each use of what must not be used, in those nodes of a body that are wanted: by a function of the
// package that is called there, or by the body itself; then by is nil.
func (v *flowCode) walk(body ast.Node, wanted func(ast.Node) bool, found func(at ast.Node, by *types.Func, name, advice string)) {
	ast.Inspect(body, func(n ast.Node) bool {
		if !wanted(n) {
			return false
		}
		switch n := n.(type) {
		case *ast.DeferStmt:
			return !v.cleans && !v.tells(n.Call)
		case *ast.CallExpr:
			f := v.called(n)
			if onlyLogs(f) {
				return false
			}
			if name := v.through(f); name != "" {
				found(n, f, name, "")
			}
		case *ast.Ident:
			if name, advice := v.uses(v.TypesInfo.Uses[n]); name != "" {
				found(n, nil, name, advice)
			}
		}
		return true
	})
}

// examine reports what the code of a flow uses that it must not, directly or by functions of the package: wrong says what
// that does, advice what to do instead. Where goroutines are not to be started, started reports them.
func (v *flowCode) examine(body ast.Node, wrong, advice string, started func(ast.Node)) {
	v.walk(body, func(n ast.Node) bool {
		if started != nil && v.starts(n) {
			started(n)
			return false
		}
		lit, ok := n.(*ast.FuncLit)
		return !ok || v.inFlow(lit)
	}, func(at ast.Node, by *types.Func, name, own string) {
		if by != nil {
			v.report(at.Pos(), "%s uses %s, which "+wrong, advice, by.Name(), name)
		} else {
			v.report(at.Pos(), "%s "+wrong, cmp.Or(own, advice), name)
		}
	})
}

// tells reports whether a call is one of a literal that only writes messages for people.
func (v *flowCode) tells(call *ast.CallExpr) bool {
	lit, ok := call.Fun.(*ast.FuncLit)
	return ok && !slices.ContainsFunc(lit.Body.List, func(s ast.Stmt) bool {
		x, ok := s.(*ast.ExprStmt)
		if !ok {
			return true
		}
		call, ok := x.X.(*ast.CallExpr)
		return !ok || !onlyLogs(v.called(call))
	})
}

// flowBodies returns the bodies of the functions that run in flows of which something is recorded: what they ask, or
// their effects. Others have nothing to differ from when they run again.
func (v *flowCode) flowBodies() iter.Seq[*ast.BlockStmt] {
	once := make(map[ast.Node]bool)
	begins := func(x ast.Expr) {
		f := v.code(x)
		once[f] = !v.records(f, make(map[ast.Node]bool))
	}
	for n := range v.nodes() {
		if lit, ok := n.(*ast.CompositeLit); ok && isNamed(v.TypesInfo.TypeOf(lit), sagaPath, "Flow") {
			begins(field(lit, "Run"))
		}
		assigned(n, func(to, value ast.Expr) {
			if f, ok := to.(*ast.SelectorExpr); ok && f.Sel.Name == "Run" && isNamed(v.TypesInfo.TypeOf(f.X), sagaPath, "Flow") {
				begins(ast.Unparen(value))
			}
		})
	}
	return func(yield func(*ast.BlockStmt) bool) {
		for c := range v.functions(flowSignature) {
			if !once[c.Node] && !yield(c.body) {
				return
			}
		}
	}
}

// code returns the declaration of the function that an expression names, or the literal that it was set to, if that is in
// the package, or the expression.
func (v *flowCode) code(x ast.Expr) ast.Node {
	if d := v.declaration(v.called(&ast.CallExpr{Fun: x})); d != nil {
		return d
	}
	if lit := v.closures[v.object(x)]; lit != nil {
		return lit
	}
	return x
}

// records reports whether code asks or performs an effect: by itself, or by what it hands the Run to. What is not in the
// package is taken to do so. A flow that only performs effects runs again if its server goes down.
func (v *flowCode) records(code ast.Node, seen map[ast.Node]bool) bool {
	switch code.(type) {
	case *ast.FuncLit, *ast.FuncDecl:
	default:
		return true // it is known at run time only
	}
	if seen[code] {
		return false
	}
	seen[code] = true
	getsRun := func(x ast.Expr) bool { return hasRun(v.TypesInfo.TypeOf(x)) }
	for call := range calls(code) {
		f := v.called(call)
		switch {
		case suspending.has(f), performing.has(f):
			return true
		case f != nil && f.Pkg() != nil && f.Pkg().Path() == sagaPath:
		case f != nil && flowSignature(f.Signature()), slices.ContainsFunc(call.Args, getsRun):
			if v.records(v.code(call.Fun), seen) {
				return true
			}
		}
	}
	return false
}
