package sagavet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// backgroundAnalyzer finds code that uses a turn after its function has returned.
var backgroundAnalyzer = analyzer("sagabackground", `report uses of a turn in the background

A Turn or Run, and the context of an effect, are those of the function that gets them,
and end with it. Reported are goroutines that use one and that the function does not wait for,
functions given to time.AfterFunc that use one, effects in goroutines, which are
refused, and package variables that keep one, so that one saga would act in the turn
of another. What outlives the function takes context.WithoutCancel of the context.
Goroutines of flows sagareplay reports.`, func(pass *analysis.Pass, r *reporter) {
	v := &background{pass.TypesInfo, r}
	for n := range nodes(pass) {
		if v.starts(n) {
			v.effects(n)
		}
		assigned(n, func(to, value ast.Expr) {
			o := root(v.info, to)
			if value != nil && o != nil && o.Parent() == pass.Pkg.Scope() && isPerformer(v.info.TypeOf(value)) {
				r.report(to.Pos(), "a variable of the package keeps the turn: other calls of the tool have it then, at the same time or when it has ended", "Hand it on as a parameter")
			}
		})
	}
	for c := range code(pass, machineSignature) {
		var begun []ast.Node
		waits := false
		ast.Inspect(c.body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit:
				return !toolSignature(v.info.TypeOf(n).(*types.Signature))
			case nil:
				return false
			}
			if v.starts(n) {
				begun = append(begun, n)
				return false
			}
			waits = waits || v.waits(n)
			return true
		})
		for _, n := range begun {
			if used := v.uses(n, c); used != nil && !waits {
				r.report(n.Pos(), "nothing in this function waits for what it starts here, which uses %s: that ends when the function returns", "Wait for it, or hand it context.WithoutCancel of the context", used.Name())
			}
		}
	}
})

type background struct {
	info     *types.Info
	reporter *reporter
}

// starts reports whether a node starts a goroutine, or has one started.
func (v *background) starts(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		return true
	case *ast.CallExpr:
		return startsGoroutine(calledFunc(v.info, n))
	}
	return false
}

// effects reports effects that are performed in a goroutine.
func (v *background) effects(started ast.Node) {
	for n := range ast.Preorder(started) {
		call, ok := n.(*ast.CallExpr)
		if ok && slices.Contains(performing, funcName(calledFunc(v.info, call))) && len(call.Args) > 0 && isTurn(v.info.TypeOf(call.Args[0])) {
			v.reporter.report(call.Pos(), "an effect in a goroutine of the tool's own is refused, and the turn fails",
				"Call saga.Do in the goroutine that runs the step function, or saga.DoAll to perform several at once")
		}
	}
}

// waits reports whether a node may wait for a goroutine: it receives from a channel, passes on a
// channel or group, or stops a timer.
func (v *background) waits(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.SelectStmt:
		return true
	case *ast.UnaryExpr:
		return n.Op == token.ARROW
	case *ast.RangeStmt:
		return isChannel(v.info.TypeOf(n.X))
	case *ast.CallExpr:
		f := calledFunc(v.info, n)
		if f != nil && f.Signature().Recv() != nil && (f.Name() == "Stop" || strings.HasPrefix(f.Name(), "Wait")) {
			return true
		}
		for _, arg := range n.Args {
			t := v.info.TypeOf(arg)
			if name := receiver(t); !v.info.Types[n.Fun].IsBuiltin() && (isChannel(t) || name == "WaitGroup" || name == "Group") {
				return true
			}
		}
	}
	return false
}

func isChannel(t types.Type) bool {
	if t == nil {
		return false
	}
	_, ok := t.Underlying().(*types.Chan)
	return ok
}

// uses returns a variable that a goroutine uses and that ends with the function that starts it, or nil.
func (v *background) uses(started ast.Node, c toolCode) (used types.Object) {
	ast.Inspect(started, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			return funcName(calledFunc(v.info, n)) != "context.WithoutCancel"
		case *ast.Ident:
			o, ok := v.info.Uses[n].(*types.Var)
			if ok && !o.IsField() && c.has(o) && (o.Pos() < started.Pos() || o.Pos() >= started.End()) && (isPerformer(o.Type()) || carries(o.Type(), isPerformer) || isContext(o.Type()) && !v.detached(o, c)) {
				used = o
			}
		}
		return used == nil
	})
	return used
}

// detached reports whether a context is derived from one that does not end with the function.
func (v *background) detached(o types.Object, c toolCode) (found bool) {
	for n := range ast.Preorder(c.body) {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || len(assign.Lhs) == 0 || root(v.info, assign.Lhs[0]) != o {
			continue
		}
		for n := range ast.Preorder(assign.Rhs[0]) {
			if call, ok := n.(*ast.CallExpr); ok {
				name := funcName(calledFunc(v.info, call))
				found = found || name == "context.WithoutCancel" || name == "context.Background"
			}
			if id, ok := n.(*ast.Ident); ok {
				of, isVar := v.info.Uses[id].(*types.Var)
				found = found || isVar && !of.IsField() && isContext(of.Type()) && (!c.has(of) || of.Pos() < o.Pos() && v.detached(of, c))
			}
		}
	}
	return found
}
