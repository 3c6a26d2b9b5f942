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
	d := findDefinitions(pass)
	for n := range nodes(pass) {
		info, ok := n.(*ast.CompositeLit)
		if !ok || !isSaga(d.info.TypeOf(info), "Info") {
			continue
		}
		use, effects := field(info, "SingleUse"), field(info, "Effects")
		for _, s := range d.later {
			switch {
			case s.of == nil || s.value == nil || !d.has(s, info):
			case s.name == "SingleUse":
				use = s.value
			case s.name == "Effects":
				effects = s.value
			}
		}
		if use != nil && d.never(use) && effects != nil && d.acts(effects) {
			r.report(use.Pos(), "the tool has effects, and SingleUseNever lets its sagas fork: a client can have them performed for two different answers, and nothing undoes what an abandoned saga did",
				"Leave SingleUse out; then turns are taken once where the server has a ledger")
		}
	}
})

// never reports whether a value is SingleUseNever.
func (d *definitions) never(x ast.Expr) bool {
	v, t := d.info.Types[x].Value, namedSaga(d.info.TypeOf(x))
	if v == nil || t == nil {
		return false
	}
	never, ok := t.Obj().Pkg().Scope().Lookup("SingleUseNever").(*types.Const)
	return ok && constant.Compare(v, token.EQL, never.Val())
}

// acts reports whether a list of effects has one that is not known to be ReadOnly.
func (d *definitions) acts(effects ast.Expr) bool {
	list := d.literal(effects)
	if list == nil {
		return !d.info.Types[effects].IsNil()
	}
	for _, e := range list.Elts {
		lit := d.literal(e)
		if lit == nil || field(lit, "ReadOnly") == nil {
			return true
		}
	}
	return false
}
