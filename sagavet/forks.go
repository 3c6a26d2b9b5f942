package sagavet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
)

// forksAnalyzer finds tools that act and let their sagas fork.
var forksAnalyzer = analyzer("sagaforks", `report tools with effects whose SingleUse is SingleUseNever

The ledger then remembers no turn of the tool, as if there were none: a client can use
a token twice with different answers, and effects of a saga that no client comes back
to are not undone. Effects with ReadOnly do not count.`, func(pass *analysis.Pass, _ *program, r *reporter) {
	v := &forks{info: pass.TypesInfo, values: make(map[types.Object]ast.Expr), owners: make(map[*ast.CompositeLit]types.Object), tools: make(map[any]map[string]ast.Expr)}
	for n := range nodes(pass) {
		assigned(n, v.assign)
	}
	for n := range nodes(pass) {
		lit, ok := n.(*ast.CompositeLit)
		if !ok || !isSaga(v.info.TypeOf(lit), "Info") {
			continue
		}
		var tool any = lit
		if o := v.owners[lit]; o != nil {
			tool = o
		}
		for _, name := range []string{"SingleUse", "Effects"} {
			if x := field(lit, name); x != nil {
				v.set(tool, name, x)
			}
		}
	}
	for _, tool := range v.order {
		t := v.tools[tool]
		if use := t["SingleUse"]; v.never(use) && v.acts(t["Effects"]) {
			r.report(use.Pos(), "the tool has effects, and SingleUseNever lets its sagas fork: a client can have them performed for two different answers, and nothing undoes what an abandoned saga did",
				"Leave SingleUse out; then turns are taken once where the server has a ledger")
		}
	}
})

// forks are the tools of a package.
type forks struct {
	info   *types.Info
	values map[types.Object]ast.Expr // of variables
	owners map[*ast.CompositeLit]types.Object
	// tools has what is known of the SingleUse and Effects of each: a variable, or a literal that
	// is in none.
	tools map[any]map[string]ast.Expr
	order []any
}

// assign takes what a variable, or a field of it, is set to.
func (v *forks) assign(to, value ast.Expr) {
	o := root(v.info, to)
	if o == nil || value == nil {
		return
	}
	if f, ok := ast.Unparen(to).(*ast.SelectorExpr); ok {
		// This comes before what the literal says, and set keeps the first.
		if s := v.info.Selections[f]; s != nil && s.Obj().Pkg() != nil && s.Obj().Pkg().Path() == sagaPath {
			v.set(o, f.Sel.Name, value)
		}
		return
	}
	v.values[o] = value
	lit := written(value)
	if lit != nil && !isSaga(v.info.TypeOf(lit), "Info") {
		lit = written(field(lit, "Info"))
	}
	if lit != nil {
		v.owners[lit] = o
	}
}

// set notes what a field of a tool is.
func (v *forks) set(tool any, name string, x ast.Expr) {
	if v.tools[tool] == nil {
		v.tools[tool] = make(map[string]ast.Expr)
		v.order = append(v.order, tool)
	}
	if v.tools[tool][name] == nil {
		v.tools[tool][name] = x
	}
}

// never reports whether a value is SingleUseNever.
func (v *forks) never(x ast.Expr) bool {
	value, t := v.info.Types[x].Value, namedSaga(v.info.TypeOf(x))
	if value == nil || t == nil {
		return false
	}
	never, ok := t.Obj().Pkg().Scope().Lookup("SingleUseNever").(*types.Const)
	return ok && constant.Compare(value, token.EQL, never.Val())
}

// acts reports whether a list of effects has one that is not known to be ReadOnly.
func (v *forks) acts(effects ast.Expr) bool {
	if effects == nil || v.info.Types[effects].IsNil() {
		return false
	}
	list := v.literal(effects)
	if list == nil {
		return true
	}
	for _, e := range list.Elts {
		if lit := v.literal(e); lit == nil || field(lit, "ReadOnly") == nil {
			return true
		}
	}
	return false
}

// literal is the literal that an expression, or the variable that it names, is; or nil.
func (v *forks) literal(x ast.Expr) *ast.CompositeLit {
	if name, ok := ast.Unparen(x).(*ast.Ident); ok {
		x = v.values[v.info.ObjectOf(name)]
	}
	return written(x)
}
