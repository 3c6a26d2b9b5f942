package sagavet

import (
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/types/typeutil"
)

// sagaPath is the package whose use is examined.
const sagaPath = "github.com/mcpsaga/mcpsaga/saga"

// namedSaga returns the type of package saga that t is, or points to, or nil.
func namedSaga(t types.Type) *types.Named {
	t = types.Unalias(t)
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	n, ok := t.(*types.Named)
	if !ok || n.Obj().Pkg() == nil || n.Obj().Pkg().Path() != sagaPath {
		return nil
	}
	return n
}

// isSaga reports whether t is one of the named types of package saga, or a pointer
// to one.
func isSaga(t types.Type, names ...string) bool {
	n := namedSaga(t)
	return n != nil && slices.Contains(names, n.Obj().Name())
}

// isRun reports whether t is *saga.Run, and isPerformer whether it is *saga.Run or *saga.Turn.
func isRun(t types.Type) bool       { return pointsToSaga(t, "Run") }
func isPerformer(t types.Type) bool { return pointsToSaga(t, "Run", "Turn") }

func pointsToSaga(t types.Type, names ...string) bool {
	_, pointer := types.Unalias(t).(*types.Pointer)
	return pointer && isSaga(t, names...)
}

var errorType = types.Universe.Lookup("error").Type()

func isError(t types.Type) bool { return types.Identical(t, errorType) }

// takes reports whether a function has a parameter of a wanted type.
func takes(sig *types.Signature, wanted func(types.Type) bool) bool {
	for v := range sig.Params().Variables() {
		if wanted(v.Type()) {
			return true
		}
	}
	return false
}

// funcName is the name of a function as its users write it: "time.Now",
// "(*Run).Ask" with the path of its package, or "" if it is not known.
func funcName(f *types.Func) string {
	if f == nil {
		return ""
	}
	return f.Origin().FullName()
}

// calledFunc returns the function or method that a call names, or nil.
func calledFunc(info *types.Info, call *ast.CallExpr) *types.Func {
	f, _ := typeutil.Callee(info, call).(*types.Func)
	return f
}

// assigned calls f for each variable of a declaration or an assignment. value is nil if one call
// returns several.
func assigned(n ast.Node, f func(to, value ast.Expr)) {
	switch n := n.(type) {
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if len(n.Values) == len(n.Names) {
				f(name, n.Values[i])
			}
		}
	case *ast.AssignStmt:
		for i, to := range n.Lhs {
			if len(n.Lhs) == len(n.Rhs) {
				f(to, n.Rhs[i])
			} else {
				f(to, nil)
			}
		}
	}
}

const (
	askFunc = sagaPath + ".Ask"
	ofRun   = "(*" + sagaPath + ".Run)."
)

// performing are the functions that perform effects.
var performing = []string{sagaPath + ".Do", sagaPath + ".DoAll"}

// telling are packages whose functions only write messages for people.
var telling = []string{"log", "log/slog", "testing", "github.com/stretchr/testify/assert", "github.com/stretchr/testify/require"}

func isTurn(t types.Type) bool { return isSaga(t, "Turn") }

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

func isContext(t types.Type) bool { return t != nil && types.Unalias(t).String() == "context.Context" }

func isKey(t types.Type) bool { return isSaga(t, "Key", "Performed") }

// root returns the variable that an expression is part of, or nil.
func root(info *types.Info, x ast.Expr) types.Object {
	for {
		switch e := ast.Unparen(x).(type) {
		case *ast.SelectorExpr:
			if _, ok := info.Uses[e.Sel].(*types.Var); ok && info.Selections[e] == nil {
				return info.Uses[e.Sel] // of another package
			}
			x = e.X
		case *ast.IndexExpr:
			x = e.X
		case *ast.StarExpr:
			x = e.X
		case *ast.Ident:
			return info.ObjectOf(e)
		default:
			return nil
		}
	}
}
