package sagavet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// backgroundAnalyzer finds code that uses a turn after its function has returned.
var backgroundAnalyzer = analyzer("sagabackground", `report uses of a turn in the background

A Turn or Run, and the context of an effect, are those of the function that gets them,
and end with it. Reported are goroutines that use one and that the function does not wait for,
functions given to time.AfterFunc that use one, effects in goroutines, which are
refused, and package variables that keep one, so that one saga would act in the turn
of another. What outlives the function takes context.WithoutCancel of the context.
Goroutines of flows sagareplay reports.`, func(v *source) {
	for n := range v.nodes() {
		if v.starts(n) {
			v.effects(n)
		}
		assigned(n, func(to, value ast.Expr) {
			o := v.root(to)
			if o != nil && o.Parent() == v.Pkg.Scope() && isPerformer(v.TypesInfo.TypeOf(value)) {
				v.report(to.Pos(), "a variable of the package keeps the turn: other calls of the tool have it then, at the same time or when it has ended", "Hand it on as a parameter")
			}
		})
	}
	for c := range v.functions(machineSignature) {
		var begun []ast.Node
		waits := false
		ast.Inspect(c.body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit:
				return !toolSignature(v.signature(n))
			case nil:
				return false
			}
			if v.starts(n) {
				begun = append(begun, n)
				return false
			}
			waits = waits || v.waits(n, true)
			return true
		})
		for _, n := range begun {
			if used := v.uses(n, c); used != nil && !waits {
				v.report(n.Pos(), "nothing in this function waits for what it starts here, which uses %s: that ends when the function returns", "Wait for it, or hand it context.WithoutCancel of the context", used.Name())
			}
		}
	}
})

// detaching make contexts that do not end with the function.
var detaching = table{"context": {"WithoutCancel", "Background"}}

// effects reports effects that are performed in a goroutine.
func (v *source) effects(started ast.Node) {
	for call := range calls(started) {
		if performing.has(v.called(call)) && len(call.Args) > 0 && isTurn(v.TypesInfo.TypeOf(call.Args[0])) {
			v.report(call.Pos(), "an effect in a goroutine of the tool's own is refused, and the turn fails",
				"Call saga.Do in the goroutine that runs the step function, or saga.DoAll to perform several at once")
		}
	}
}

// waits reports whether a node may wait for a goroutine: it receives from a channel, passes on a
// channel or group, or stops a timer; or, if behind is true, calls a method of the package that does.
func (v *source) waits(n ast.Node, behind bool) bool {
	switch n := n.(type) {
	case *ast.SelectorExpr: // it may be called elsewhere
		f, ok := v.TypesInfo.Uses[n.Sel].(*types.Func)
		return ok && f.Signature().Recv() != nil && (f.Name() == "Stop" || strings.HasPrefix(f.Name(), "Wait"))
	case *ast.SelectStmt:
		return true
	case *ast.UnaryExpr:
		return n.Op == token.ARROW
	case *ast.RangeStmt:
		return is[*types.Chan](v.TypesInfo.TypeOf(n.X))
	case *ast.CallExpr:
		if d := v.declaration(v.called(n)); behind && d != nil && d.Recv != nil {
			for n := range ast.Preorder(d.Body) {
				if v.waits(n, false) {
					return true
				}
			}
		}
		for _, arg := range n.Args {
			t := v.TypesInfo.TypeOf(arg)
			if name := shortName(t); !v.TypesInfo.Types[n.Fun].IsBuiltin() && (is[*types.Chan](t) || name == "WaitGroup" || name == "Group") {
				return true
			}
		}
	}
	return false
}

// uses returns a variable that a goroutine uses and that ends with the function that starts it, or nil.
func (v *source) uses(started ast.Node, c toolCode) (used types.Object) {
	ast.Inspect(started, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			return !v.detaches(n)
		case *ast.Ident:
			o, ok := v.TypesInfo.Uses[n].(*types.Var)
			if ok && !o.IsField() && c.has(o) && (o.Pos() < started.Pos() || o.Pos() >= started.End()) && (carries(o.Type(), isPerformer) || isContext(o.Type()) && !v.detached(o, c)) {
				used = o
			}
		}
		return used == nil
	})
	return used
}

// detached reports whether a context is derived from one that does not end with the function.
func (v *source) detached(o types.Object, c toolCode) (found bool) {
	for n := range ast.Preorder(c.body) {
		assigned(n, func(to, from ast.Expr) {
			if v.root(to) != o {
				return
			}
			for n := range ast.Preorder(from) {
				switch n := n.(type) {
				case *ast.CallExpr:
					found = found || v.detaches(n)
				case *ast.Ident:
					of, isVar := v.TypesInfo.Uses[n].(*types.Var)
					found = found || isVar && !of.IsField() && isContext(of.Type()) && (!c.has(of) || of.Pos() < o.Pos() && v.detached(of, c))
				}
			}
		})
	}
	return found
}

// detaches reports whether a call makes a context that does not end with the function, by itself or by a function of the package
// that returns one.
func (v *source) detaches(call *ast.CallExpr) bool {
	f := v.called(call)
	d := v.declaration(f)
	if d == nil {
		return detaching.has(f)
	}
	for n := range ast.Preorder(d.Body) {
		if r, ok := n.(*ast.ReturnStmt); ok && slices.ContainsFunc(r.Results, func(x ast.Expr) bool { return v.calls(x, detaching) }) {
			return true
		}
	}
	return false
}
