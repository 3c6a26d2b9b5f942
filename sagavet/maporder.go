package sagavet

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/types/typeutil"
)

const orderAdvice = "Sort the keys first, as in slices.Sorted(maps.Keys(m)), and range over them"

// mapOrder reports questions and effects that depend on the order of a map: a loop over a map comes to
// them, or they are made of what such a loop has collected.
func (v *flowCode) mapOrder(body *ast.BlockStmt) {
	collected := make(map[types.Object]token.Pos)
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return !flowSignature(v.signature(n))
		case *ast.RangeStmt:
			if v.unordered(n.X) {
				v.loop(n, collected)
			}
		default:
			assigned(n, func(to, value ast.Expr) {
				if o := v.object(to); o != nil && v.collects(value) {
					collected[o] = value.Pos()
				}
			})
		}
		return true
	})
	if len(collected) == 0 {
		return
	}
	for _, o := range v.arguments(body, v.sorts) {
		delete(collected, o)
	}
	for _, o := range v.arguments(body, v.operates) {
		if pos, ok := collected[o]; ok {
			v.report(pos, "%s gets the order of a map, which differs whenever the flow runs again, and is part of a question or an effect", orderAdvice, o.Name())
		}
	}
}

// arguments returns the objects that are named in the arguments of the wanted calls, but for those of which only
// the length is.
func (v *flowCode) arguments(body ast.Node, wanted func(*ast.CallExpr) bool) (list []types.Object) {
	for call := range calls(body) {
		if !wanted(call) {
			continue
		}
		for _, a := range call.Args {
			ast.Inspect(a, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					return typeutil.Callee(v.TypesInfo, n) != types.Universe.Lookup("len")
				case *ast.Ident:
					list = append(list, v.TypesInfo.Uses[n])
				}
				return true
			})
		}
	}
	return list
}

// unordered reports whether a range over x has no order: x is a map, or iterates over one.
func (v *source) unordered(x ast.Expr) bool {
	return is[*types.Map](v.TypesInfo.TypeOf(x)) || v.calls(x, table{"maps": {"Keys", "Values", "All"}})
}

// calls reports whether x is a call of a function in a table.
func (v *source) calls(x ast.Expr, t table) bool {
	call, ok := ast.Unparen(x).(*ast.CallExpr)
	return ok && t.has(v.called(call))
}

// collects reports whether x makes a slice of an iterator over a map.
func (v *source) collects(x ast.Expr) bool {
	return v.calls(x, table{"slices": {"Collect"}}) && v.unordered(ast.Unparen(x).(*ast.CallExpr).Args[0])
}

// loop examines a loop over a map: which operations it comes to, and what it collects.
func (v *flowCode) loop(loop *ast.RangeStmt, collected map[types.Object]token.Pos) {
	found, once := false, stopsAtFirst(loop.Body)
	for n := range ast.Preorder(loop.Body) {
		switch n := n.(type) {
		case *ast.CallExpr:
			if !found && v.operates(n) {
				found = true
				v.report(loop.Pos(), "a question, an effect or an id in a loop over a map comes in another order whenever the flow runs again", orderAdvice)
			}
		case *ast.AssignStmt:
			if len(n.Lhs) != 1 || len(n.Rhs) != 1 {
				continue
			}
			o := v.object(n.Lhs[0])
			if o == nil || o.Pos() >= loop.Pos() && o.Pos() < loop.End() {
				continue
			}
			if n.Tok == token.ADD_ASSIGN && isString(o.Type()) || v.appends(n.Rhs[0]) || once && n.Tok == token.ASSIGN {
				collected[o] = loop.Pos()
			}
		}
	}
}

// stopsAtFirst reports whether a loop ends in its first round: what it has taken is any of the map.
func stopsAtFirst(body *ast.BlockStmt) bool {
	if len(body.List) == 0 {
		return false
	}
	last, ok := body.List[len(body.List)-1].(*ast.BranchStmt)
	return ok && last.Tok == token.BREAK
}

func (v *source) appends(x ast.Expr) bool {
	call, ok := ast.Unparen(x).(*ast.CallExpr)
	return ok && typeutil.Callee(v.TypesInfo, call) == types.Universe.Lookup("append")
}

// object returns the variable that an expression is, or nil.
func (v *source) object(x ast.Expr) types.Object {
	if id, ok := ast.Unparen(x).(*ast.Ident); ok {
		if o, ok := v.TypesInfo.ObjectOf(id).(*types.Var); ok {
			return o
		}
	}
	return nil
}

func (v *flowCode) sorts(call *ast.CallExpr) bool {
	sorting := table{"sort": {"*"}, "slices": {"Sort*"}}
	if d := v.declaration(v.called(call)); d != nil { // a helper's
		for inner := range calls(d) {
			if sorting.has(v.called(inner)) {
				return true
			}
		}
	}
	return sorting.has(v.called(call))
}

// operates reports whether a call asks, performs an effect, or takes something from the Run that is
// counted.
func (v *flowCode) operates(call *ast.CallExpr) bool {
	f := v.called(call)
	switch {
	case performing.has(f), suspending.has(f), counting.has(f):
		return true
	case f != nil && f.Pkg() != nil && f.Pkg().Path() == sagaPath:
		return false
	}
	if sig, ok := v.TypesInfo.TypeOf(call.Fun).(*types.Signature); ok && takes(sig, isRun) {
		return true
	}
	// It may have the Run in a struct, or from around it.
	return (f != nil && flowSignature(f.Signature()) || v.closures[v.object(call.Fun)] != nil) && v.records(v.code(call.Fun), make(map[ast.Node]bool))
}
