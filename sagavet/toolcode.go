package sagavet

import (
	"go/ast"
	"go/constant"
	"go/types"
	"iter"
	"time"

	"golang.org/x/tools/go/ssa"
)

// toolCode is a function of a tool.
type toolCode struct {
	*ssa.Function
	body *ast.BlockStmt
}

// code returns the functions of the package with a wanted signature.
func (p *program) code(wanted func(*types.Signature) bool) iter.Seq[toolCode] {
	return func(yield func(toolCode) bool) {
		for _, f := range p.funcs {
			var body *ast.BlockStmt
			switch n := f.Syntax().(type) {
			case *ast.FuncDecl:
				body = n.Body
			case *ast.FuncLit:
				body = n.Body
			}
			if body != nil && wanted(f.Signature) && !yield(toolCode{f, body}) {
				return
			}
		}
	}
}

// effectSignature reports whether a function does or undoes an effect.
func effectSignature(sig *types.Signature) bool {
	return sig.Params().Len() > 1 && isContext(sig.Params().At(0).Type()) && isKey(sig.Params().At(1).Type())
}

// machineSignature reports whether a function runs in a machine, or in an effect of any tool.
func machineSignature(sig *types.Signature) bool { return takes(sig, isTurn) || effectSignature(sig) }

// toolSignature reports whether a function runs in a flow, a machine or an effect.
func toolSignature(sig *types.Signature) bool { return flowSignature(sig) || machineSignature(sig) }

// has reports whether an object is defined in the function and is not its receiver.
func (c toolCode) has(o types.Object) bool {
	recv := c.Signature.Recv()
	return c.Syntax().Pos() <= o.Pos() && o.Pos() < c.Syntax().End() && (recv == nil || o.Pos() != recv.Pos())
}

func isContext(t types.Type) bool { return t != nil && types.Unalias(t).String() == "context.Context" }

// long reports whether a call of time.Sleep may wait for a second or more. A Turn cannot sleep for
// less.
func long(info *types.Info, call *ast.CallExpr) bool {
	v := info.Types[call.Args[0]].Value
	if v == nil {
		return true
	}
	d, ok := constant.Int64Val(v)
	return !ok || time.Duration(d) >= time.Second
}

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
