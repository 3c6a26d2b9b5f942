package sagavet

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"
)

// firstAnalyzer finds effects that come before the first question.
var firstAnalyzer = analyzer("sagafirst", `report effects before the first question of a tool

The client gets the first token with the first question. If that response is lost,
there is nobody who could go on with the saga or cancel it, and what it did stays
done; a client that calls again begins another saga, which does it again. An effect
that is declared in the package with neither Undo nor Irreversible is taken for one
that only reads, and not reported. Nor is a tool that is always a task: the server
goes on with it, whoever hears of it.`, func(pass *analysis.Pass, p *program, r *reporter) {
	v := &first{
		program: p, info: pass.TypesInfo, early: make(map[*ssa.Function][]*ssa.Call),
		calls: make(map[token.Pos]*ast.CallExpr), effects: findEffects(pass),
	}
	var begin []ast.Expr
	for n := range nodes(pass) {
		if call, ok := n.(*ast.CallExpr); ok {
			v.calls[call.Lparen] = call
		}
		if lit, ok := n.(*ast.CompositeLit); !ok || !alwaysTask(lit) {
			begin = append(begin, beginnings(pass.TypesInfo, n)...)
		}
	}
	for _, expr := range begin {
		if f := p.function(pass.TypesInfo, expr); f != nil {
			for _, call := range v.earlyIn(f) {
				if p.operation(call.Common()) == asks || p.asksAfter(call) {
					r.report(at(call), "an effect comes before the first question: if the first response is lost, no client has the token with which the saga could be cancelled and the effect undone",
						"Ask first, if only whether to go on, and perform the effect after the answer")
				}
			}
		}
	}
})

// alwaysTask reports whether a tool's definition says that it is always a task.
func alwaysTask(lit *ast.CompositeLit) bool {
	for _, name := range []string{"Info", "Tasks"} {
		inner, ok := field(lit, name).(*ast.CompositeLit)
		if !ok {
			return false
		}
		lit = inner
	}
	mode, ok := field(lit, "Mode").(*ast.SelectorExpr)
	return ok && mode.Sel.Name == "TasksRequired"
}

// beginnings returns the functions with which sagas begin, where n defines a tool
// or sets a field of a definition.
func beginnings(info *types.Info, n ast.Node) (found []ast.Expr) {
	begins := func(of ast.Expr, field string) bool {
		t := info.TypeOf(of)
		return t != nil && (field == "Run" && isSaga(t, "Flow") || field == "Start" && isSaga(t, "Machine", "Prompt", "Resource"))
	}
	if lit, ok := n.(*ast.CompositeLit); ok {
		for _, name := range []string{"Run", "Start"} {
			if value := field(lit, name); value != nil && begins(lit, name) {
				found = append(found, value)
			}
		}
	}
	assigned(n, func(to, value ast.Expr) {
		if f, ok := to.(*ast.SelectorExpr); ok && value != nil && begins(f.X, f.Sel.Name) {
			found = append(found, ast.Unparen(value))
		}
	})
	return found
}

// function returns the function of the package that an expression is: a literal, a
// function or a method. It is nil if it is a variable.
func (p *program) function(info *types.Info, expr ast.Expr) *ssa.Function {
	var named types.Object
	switch expr := expr.(type) {
	case *ast.Ident:
		named = info.Uses[expr]
	case *ast.SelectorExpr:
		named = info.Uses[expr.Sel]
	case *ast.IndexExpr:
		return p.function(info, ast.Unparen(expr.X))
	}
	f, _ := named.(*types.Func)
	for _, candidate := range p.funcs {
		if candidate.Syntax() == expr || f != nil && candidate.Object() == f.Origin() {
			return candidate
		}
	}
	return nil
}

type first struct {
	*program
	info    *types.Info
	early   map[*ssa.Function][]*ssa.Call
	calls   map[token.Pos]*ast.CallExpr
	effects map[types.Object]bool
}

// earlyIn returns the calls of a function that can perform an effect before the
// function has asked.
func (v *first) earlyIn(f *ssa.Function) []*ssa.Call {
	if known, ok := v.early[f]; ok || f.Blocks == nil {
		return known
	}
	v.early[f] = nil // until it is known, for functions that call themselves
	var found []*ssa.Call
	onward(f.Blocks[0], 0, map[*ssa.BasicBlock]bool{f.Blocks[0]: true}, func(i ssa.Instruction) bool {
		call, ok := i.(*ssa.Call)
		if ok && v.performsEarly(call) {
			found = append(found, call)
		}
		return !ok || v.operation(call.Common()) != asks
	})
	v.early[f] = found
	return found
}

// performsEarly reports whether a call performs an effect, before it asks if it
// does that too.
func (v *first) performsEarly(call *ssa.Call) bool {
	c := call.Common()
	if v.operation(c) == none || v.onlyReads(call) {
		return false
	}
	if funcName(object(c)) == doFunc {
		return true
	}
	f := staticFunc(c)
	return f != nil && len(v.earlyIn(f)) > 0
}

// onlyReads reports whether a call is given effects, all of which only read.
func (v *first) onlyReads(call *ssa.Call) bool {
	expr := v.calls[call.Pos()]
	if expr == nil {
		return false
	}
	some := false
	for _, a := range expr.Args {
		if !isSaga(v.info.TypeOf(a), "Effect") {
			continue
		}
		if !v.effects[objectOf(v.info, a)] {
			return false
		}
		some = true
	}
	return some
}

// objectOf returns the variable or field that an expression names, or nil.
func objectOf(info *types.Info, x ast.Expr) types.Object {
	switch x := ast.Unparen(x).(type) {
	case *ast.Ident:
		return info.ObjectOf(x)
	case *ast.SelectorExpr:
		return info.ObjectOf(x.Sel)
	}
	return nil
}

// findEffects returns the variables and fields of the package that hold effects,
// and whether all that is put into them are literals of effects that only read.
func findEffects(pass *analysis.Pass) map[types.Object]bool {
	found := make(map[types.Object]bool)
	put := func(to, value ast.Expr) {
		o := objectOf(pass.TypesInfo, to)
		if o == nil || !isSaga(o.Type(), "Effect") {
			return
		}
		reads, known := found[o]
		found[o] = reads || !known
		if !isReader(value) {
			found[o] = false
		}
	}
	for n := range nodes(pass) {
		assigned(n, func(to, value ast.Expr) {
			// e.Undo = … makes it one that can be undone, e.ReadOnly = … does not.
			if field, ok := ast.Unparen(to).(*ast.SelectorExpr); ok && field.Sel.Name != "ReadOnly" {
				put(field.X, nil)
			}
			put(to, value)
		})
		if kv, ok := n.(*ast.KeyValueExpr); ok {
			put(kv.Key, kv.Value)
		}
	}
	return found
}

// isReader reports whether an expression is the literal of an effect that has
// nothing to undo and is not irreversible either.
func isReader(x ast.Expr) bool {
	if x == nil {
		return false
	}
	x = ast.Unparen(x)
	if u, ok := x.(*ast.UnaryExpr); ok && u.Op == token.AND {
		x = ast.Unparen(u.X)
	}
	lit, ok := x.(*ast.CompositeLit)
	return ok && hasKeys(lit) && field(lit, "Undo") == nil && field(lit, "Irreversible") == nil
}
