package sagavet

import (
	"go/ast"
	"go/types"
	"iter"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

// analyzer returns an analyzer for packages that use package saga.
func analyzer(name, doc string, run func(*source)) *analysis.Analyzer {
	return &analysis.Analyzer{
		Name: name, Doc: doc, Requires: []*analysis.Analyzer{inspect.Analyzer},
		Run: func(pass *analysis.Pass) (any, error) {
			if pass.Pkg.Path() != sagaPath && slices.ContainsFunc(pass.Pkg.Imports(), func(p *types.Package) bool { return p.Path() == sagaPath }) {
				run(newSource(pass))
			}
			return nil, nil
		},
	}
}

// nodes returns the nodes of all files of a package.
func (v *source) nodes() iter.Seq[ast.Node] {
	return v.ResultOf[inspect.Analyzer].(*inspector.Inspector).PreorderSeq()
}

// toolCode is a function of a tool: a declaration or a literal.
type toolCode struct {
	ast.Node
	body *ast.BlockStmt
	sig  *types.Signature
}

// functions returns the functions of the package with a wanted signature.
func (v *source) functions(wanted func(*types.Signature) bool) iter.Seq[toolCode] {
	return func(yield func(toolCode) bool) {
		for n := range v.nodes() {
			c := toolCode{Node: n}
			switch n := n.(type) {
			case *ast.FuncDecl:
				c.body, c.sig = n.Body, v.TypesInfo.Defs[n.Name].Type().(*types.Signature)
			case *ast.FuncLit:
				c.body, c.sig = n.Body, v.signature(n)
			}
			if c.body != nil && wanted(c.sig) && !yield(c) {
				return
			}
		}
	}
}

// signature is that of a function literal.
func (v *source) signature(lit *ast.FuncLit) *types.Signature {
	return v.TypesInfo.TypeOf(lit).(*types.Signature)
}

// effectSignature reports whether a function does or undoes an effect.
func effectSignature(sig *types.Signature) bool {
	return sig.Params().Len() > 1 && isContext(sig.Params().At(0).Type()) && isKey(sig.Params().At(1).Type())
}

// machineSignature reports whether a function runs in a machine, or in an effect of any tool.
func machineSignature(sig *types.Signature) bool { return takes(sig, isTurn) || effectSignature(sig) }

// flowSignature reports whether a function gets the Run, by itself or in a struct.
func flowSignature(sig *types.Signature) bool {
	return takes(sig, hasRun) || sig.Recv() != nil && hasRun(sig.Recv().Type())
}

// toolSignature reports whether a function runs in a flow, a machine or an effect.
func toolSignature(sig *types.Signature) bool { return flowSignature(sig) || machineSignature(sig) }

// has reports whether an object is defined in the function and is not its receiver.
func (c toolCode) has(o types.Object) bool {
	recv := c.sig.Recv()
	return c.Pos() <= o.Pos() && o.Pos() < c.End() && (recv == nil || o.Pos() != recv.Pos())
}

// calls returns the calls in a node, those that a literal makes included.
func calls(in ast.Node) iter.Seq[*ast.CallExpr] {
	return func(yield func(*ast.CallExpr) bool) {
		for n := range ast.Preorder(in) {
			if call, ok := n.(*ast.CallExpr); ok && !yield(call) {
				return
			}
		}
	}
}

// called returns the function or method that a call names, or nil.
func (v *source) called(call *ast.CallExpr) *types.Func {
	f, _ := typeutil.Callee(v.TypesInfo, call).(*types.Func)
	return f
}

// declaration returns that of a function of the package, or nil.
func (v *source) declaration(f *types.Func) *ast.FuncDecl {
	if f == nil {
		return nil
	}
	return v.decls[f.Origin()]
}

// starts reports whether a node starts a goroutine, or has one started.
func (v *source) starts(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	_, isGo := n.(*ast.GoStmt)
	return isGo || ok && starting.has(v.called(call))
}

// assigned calls f for each variable that a declaration or an assignment gives a value to. If one call returns several, it is
// the value of each.
func assigned(n ast.Node, f func(to, value ast.Expr)) {
	var to, values []ast.Expr
	switch n := n.(type) {
	case *ast.ValueSpec:
		for _, name := range n.Names {
			to = append(to, name)
		}
		values = n.Values
	case *ast.AssignStmt:
		to, values = n.Lhs, n.Rhs
	}
	for i := range to {
		if len(values) > 0 {
			f(to[i], values[min(i, len(values)-1)])
		}
	}
}

// field returns what a composite literal sets a field to, or nil.
func field(lit *ast.CompositeLit, name string) ast.Expr {
	for _, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := kv.Key.(*ast.Ident); ok && key.Name == name {
				return ast.Unparen(kv.Value)
			}
		}
	}
	return nil
}

// root returns the variable that an expression is part of, or nil.
func (v *source) root(x ast.Expr) types.Object {
	for {
		switch e := ast.Unparen(x).(type) {
		case *ast.SelectorExpr:
			if _, ok := v.TypesInfo.Uses[e.Sel].(*types.Var); ok && v.TypesInfo.Selections[e] == nil {
				return v.TypesInfo.Uses[e.Sel] // of another package
			}
			x = e.X
		case *ast.IndexExpr:
			x = e.X
		case *ast.StarExpr:
			x = e.X
		case *ast.Ident:
			return v.TypesInfo.ObjectOf(e)
		default:
			return nil
		}
	}
}
