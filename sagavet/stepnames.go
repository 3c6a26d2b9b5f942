package sagavet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

// stepsAnalyzer finds names of step functions that a machine does not have.
var stepsAnalyzer = analyzer("sagasteps", `report names of step functions that a machine does not have

A step function says by name which one goes on: t.Ask("chosen", question). A name that
is not in the machine's Steps is found out when that call is reached, and the saga then
fails. Names that are not constant are not checked, nor are machines whose Steps are not
written out in the package.`, func(pass *analysis.Pass, _ *program, r *reporter) {
	v := &stepNames{info: pass.TypesInfo, reporter: r, decls: declarations(pass), literals: make(map[types.Object]*ast.CompositeLit)}
	var machines []*ast.CompositeLit
	for n := range nodes(pass) {
		v.collect(n)
		if lit, ok := n.(*ast.CompositeLit); ok && isSaga(v.info.TypeOf(lit), "Machine") {
			machines = append(machines, lit)
		}
	}
	for _, m := range machines {
		v.machine(m)
	}
})

type stepNames struct {
	info     *types.Info
	reporter *reporter
	decls    map[*types.Func]*ast.FuncDecl
	// literals are what variables are defined as.
	literals map[types.Object]*ast.CompositeLit
	// added are the names that are put into Steps one by one, in whatever machine.
	added []string
	// unknown: some of these are not constant.
	unknown bool
}

// collect takes the literals of variables, and what is added to Steps later.
func (v *stepNames) collect(n ast.Node) {
	assign, _ := n.(*ast.AssignStmt)
	assigned(n, func(to, value ast.Expr) {
		if lit, ok := ast.Unparen(value).(*ast.CompositeLit); ok {
			if o := objectOf(v.info, to); o != nil {
				v.literals[o] = lit
			}
		}
		switch to := ast.Unparen(to).(type) {
		case *ast.IndexExpr:
			if isSaga(v.info.TypeOf(to.X), "Steps") {
				v.add(to.Index)
			}
		case *ast.SelectorExpr:
			// What a machine renames, set later: not followed.
			v.unknown = v.unknown || (to.Sel.Name == "Renamed" || to.Sel.Name == "Info") && namedSaga(v.info.TypeOf(to.X)) != nil
		}
		if assign != nil && assign.Tok == token.ASSIGN && isSaga(v.info.TypeOf(to), "Steps") {
			v.replace(value)
		}
	})
	if call, ok := n.(*ast.CallExpr); ok {
		for _, arg := range call.Args { // who gets the map can add to it
			v.unknown = v.unknown || isSaga(v.info.TypeOf(arg), "Steps") && !v.info.Types[call.Fun].IsBuiltin()
		}
	}
}

// add counts a name that is put into Steps.
func (v *stepNames) add(key ast.Expr) {
	name, ok := v.constant(key)
	v.added, v.unknown = append(v.added, name), v.unknown || !ok
}

// replace counts the names of Steps that are assigned as a whole. value is nil if a call
// gives it with others.
func (v *stepNames) replace(value ast.Expr) {
	lit, ok := ast.Unparen(value).(*ast.CompositeLit)
	if !ok {
		v.unknown = true
		return
	}
	for _, e := range lit.Elts {
		v.add(e.(*ast.KeyValueExpr).Key) // it is a map's
	}
}

func (v *stepNames) machine(lit *ast.CompositeLit) {
	names, ok := v.names(lit)
	if !ok || v.unknown {
		return
	}
	seen := make(map[*ast.FuncDecl]bool)
	if begin := field(lit, "Start"); begin != nil {
		v.look(begin, names, seen)
	}
	if list := v.literal(field(lit, "Steps")); list != nil {
		v.look(list, names, seen)
	}
}

// names returns the names by which the step functions of a machine can be called, and of
// each whether it is in its Steps; ok is false if they cannot all be read from the code.
func (v *stepNames) names(lit *ast.CompositeLit) (names map[string]bool, ok bool) {
	if !hasKeys(lit) {
		return nil, false
	}
	names = map[string]bool{"start": false}
	for _, name := range v.added {
		names[name] = false
	}
	renamed := field(lit, "Renamed")
	if info, isLit := field(lit, "Info").(*ast.CompositeLit); isLit {
		renamed = field(info, "Renamed")
	} else if field(lit, "Info") != nil {
		return nil, false // what it renames is not to be seen
	}
	for i, value := range []ast.Expr{field(lit, "Steps"), renamed} {
		if value == nil {
			continue
		}
		list := v.literal(value)
		if list == nil {
			return nil, false
		}
		for _, e := range list.Elts {
			kv, ok := e.(*ast.KeyValueExpr)
			if !ok {
				return nil, false
			}
			name, ok := v.constant(kv.Key)
			if !ok {
				return nil, false
			}
			names[name] = i == 0
		}
	}
	return names, true
}

// look checks the names in a piece of code, and in the functions of the package that it
// names and that work with a Turn.
func (v *stepNames) look(code ast.Node, names map[string]bool, seen map[*ast.FuncDecl]bool) {
	ast.Inspect(code, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			return n == code || !isSaga(v.info.TypeOf(n), "Machine") // another machine
		case *ast.CallExpr:
			v.call(n, names)
		case *ast.Ident:
			f, ok := v.info.Uses[n].(*types.Func)
			if !ok || !takes(f.Signature(), isTurn) {
				break
			}
			if d := v.decls[f.Origin()]; d != nil && !seen[d] {
				seen[d] = true
				v.look(d.Body, names, seen)
			}
		}
		return true
	})
}

// call checks the name in a call that says which step function goes on.
func (v *stepNames) call(call *ast.CallExpr, names map[string]bool) {
	f, ok := typeutil.Callee(v.info, call).(*types.Func)
	if !ok || len(call.Args) == 0 {
		return
	}
	next := call.Args[0]
	switch funcName(f) {
	case turnAsk, turnPause, turnGoto, turnYield:
	case turnSleep, turnUntil:
		next = call.Args[len(call.Args)-1]
	default:
		return
	}
	name, ok := v.constant(next)
	if _, exists := names[name]; !ok || exists {
		return
	}
	known := slices.DeleteFunc(slices.Sorted(maps.Keys(names)), func(n string) bool { return !names[n] })
	advice := "The machine has no Steps"
	if len(known) > 0 {
		advice = "Name one of the machine's Steps, which are " + strings.Join(known, ", ")
	}
	v.reporter.report(next.Pos(), "there is no step function %q to go on, so the saga fails when it comes here", advice, name)
}

func isTurn(t types.Type) bool { return isSaga(t, "Turn") }

// literal returns the composite literal that an expression is, or that the variable is
// defined as which it names; nil if it is something else.
func (v *stepNames) literal(x ast.Expr) *ast.CompositeLit {
	if x == nil {
		return nil
	}
	if lit, ok := ast.Unparen(x).(*ast.CompositeLit); ok {
		return lit
	}
	return v.literals[objectOf(v.info, x)]
}

func (v *stepNames) constant(x ast.Expr) (string, bool) {
	value := v.info.Types[x].Value
	if value == nil || value.Kind() != constant.String {
		return "", false
	}
	return constant.StringVal(value), true
}

// hasKeys reports whether a composite literal names what it sets, as almost all do.
func hasKeys(lit *ast.CompositeLit) bool {
	return !slices.ContainsFunc(lit.Elts, func(e ast.Expr) bool { _, ok := e.(*ast.KeyValueExpr); return !ok })
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
