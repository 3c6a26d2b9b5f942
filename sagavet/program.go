package sagavet

import (
	"go/ast"
	"go/types"
	"iter"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
)

// analyzer returns an analyzer for packages that use package saga.
func analyzer(name, doc string, run func(*analysis.Pass, *reporter)) *analysis.Analyzer {
	return &analysis.Analyzer{
		Name: name, Doc: doc, Requires: []*analysis.Analyzer{inspect.Analyzer},
		Run: func(pass *analysis.Pass) (any, error) {
			if pass.Pkg.Path() != sagaPath && slices.ContainsFunc(pass.Pkg.Imports(), func(p *types.Package) bool { return p.Path() == sagaPath }) {
				run(pass, newReporter(pass))
			}
			return nil, nil
		},
	}
}

// nodes returns the nodes of all files of a package.
func nodes(pass *analysis.Pass) iter.Seq[ast.Node] {
	return pass.ResultOf[inspect.Analyzer].(*inspector.Inspector).PreorderSeq()
}

// toolCode is a function of a tool: a declaration or a literal.
type toolCode struct {
	ast.Node
	body *ast.BlockStmt
	sig  *types.Signature
}

// code returns the functions of the package with a wanted signature.
func code(pass *analysis.Pass, wanted func(*types.Signature) bool) iter.Seq[toolCode] {
	return func(yield func(toolCode) bool) {
		for n := range nodes(pass) {
			c := toolCode{Node: n}
			switch n := n.(type) {
			case *ast.FuncDecl:
				c.body, c.sig = n.Body, pass.TypesInfo.Defs[n.Name].Type().(*types.Signature)
			case *ast.FuncLit:
				c.body, c.sig = n.Body, pass.TypesInfo.TypeOf(n).(*types.Signature)
			}
			if c.body != nil && wanted(c.sig) && !yield(c) {
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

// flowSignature reports whether a function gets the Run, by itself or in a struct.
func flowSignature(sig *types.Signature) bool {
	has := func(t types.Type) bool { return isRun(t) || carries(t, isRun) }
	return takes(sig, has) || sig.Recv() != nil && has(sig.Recv().Type())
}

// toolSignature reports whether a function runs in a flow, a machine or an effect.
func toolSignature(sig *types.Signature) bool { return flowSignature(sig) || machineSignature(sig) }

// has reports whether an object is defined in the function and is not its receiver.
func (c toolCode) has(o types.Object) bool {
	recv := c.sig.Recv()
	return c.Pos() <= o.Pos() && o.Pos() < c.End() && (recv == nil || o.Pos() != recv.Pos())
}

// carries reports whether a type is a struct, or a pointer to one, with a field of a wanted type.
// Authors put the Run beside what belongs to one saga.
func carries(t types.Type, wanted func(types.Type) bool) bool {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	s, ok := t.Underlying().(*types.Struct)
	if !ok || namedSaga(t) != nil {
		return false
	}
	for f := range s.Fields() {
		if wanted(f.Type()) {
			return true
		}
	}
	return false
}
