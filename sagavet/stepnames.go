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
)

// stepsAnalyzer finds names of step functions that a machine does not have.
var stepsAnalyzer = analyzer("sagasteps", `report names of step functions that a machine does not have

A step function says by name which one goes on: t.Ask("chosen", question). A name that
is not in the machine's Steps is found out when that call is reached, and the saga then
fails. Names that are not constant are not checked, nor are machines whose Steps are not
written out in the package.`, func(pass *analysis.Pass, _ *program, r *reporter) {
	v := &stepNames{definitions: findDefinitions(pass), reporter: r, decls: declarations(pass), parts: make(map[*ast.CompositeLit]bool)}
	var machines []*ast.CompositeLit
	for n := range nodes(pass) {
		if lit, ok := n.(*ast.CompositeLit); ok && isMachine(v.info.TypeOf(lit)) {
			machines = append(machines, lit)
			if machine := field(lit, "Machine"); machine != nil {
				v.parts[v.literal(machine)] = true
			}
		}
		v.collect(n)
	}
	for _, s := range v.later {
		v.set(s)
	}
	for _, lit := range machines {
		if field(lit, "Machine") == nil {
			v.machine(lit, v.info.TypeOf(lit))
		}
	}
	for lit, t := range v.zero {
		if isMachine(t) {
			v.machine(lit, t)
		}
	}
})

// isMachine reports whether t is of what has step functions.
func isMachine(t types.Type) bool { return isSaga(t, "Machine", "Prompt", "Resource") }

type stepNames struct {
	*definitions
	reporter *reporter
	decls    map[*types.Func]*ast.FuncDecl
	// parts are the machines of prompts and resources; nil is one that is not to be seen.
	parts map[*ast.CompositeLit]bool
	// renamed are the names in older revisions, of whatever machine; hidden is where others are.
	renamed []string
	hidden  []token.Pos
	// added are names that are put into Steps of a type later; open are Steps that get others.
	added []added
	open  []setting
}

type added struct {
	setting
	names []string
}

// collect takes what was renamed, and the Steps that are given away.
func (v *stepNames) collect(n ast.Node) {
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Renamed" && !v.rename(n.Value) {
			v.hidden = append(v.hidden, n.Pos())
		}
	case *ast.CallExpr:
		f := calledFunc(v.info, n)
		if v.info.Types[n.Fun].IsBuiltin() || v.info.Types[n.Fun].IsType() || f != nil && v.decls[f.Origin()] != nil {
			return // what functions of the package add is seen there
		}
		for i, arg := range n.Args {
			s := v.setting(arg)
			s.name = "Steps"
			switch arg.(type) {
			case *ast.Ident, *ast.SelectorExpr:
				if f != nil && f.Pkg() != nil && f.Pkg().Path() == "maps" {
					if f.Name() != "Copy" || i != 0 {
						continue
					}
					s.value = n.Args[1]
				}
				if isSaga(s.typ, "Steps") {
					v.set(s)
				}
			}
		}
	}
}

func (v *stepNames) rename(value ast.Expr) bool {
	names, ok := v.keys(value)
	v.renamed = append(v.renamed, names...)
	return ok
}

// set takes the names of what is set later.
func (v *stepNames) set(s setting) {
	switch {
	case s.name == "Renamed" && s.key == nil && !v.rename(s.value):
		v.open = append(v.open, s)
	case s.name == "Renamed" && s.key != nil:
		if name, ok := v.constant(s.key); ok {
			v.renamed = append(v.renamed, name)
		} else {
			v.open = append(v.open, s)
		}
	case s.name == "Machine" && isMachine(s.in):
		v.parts[v.literal(s.value)] = true
	case isSaga(s.typ, "Steps"):
		names, ok := v.keys(s.value)
		if s.key != nil {
			names = make([]string, 1)
			names[0], ok = v.constant(s.key)
		}
		if !ok {
			v.open = append(v.open, s)
		}
		v.added = append(v.added, added{s, names})
	}
}

// keys returns those of a map; ok is false if they are not all constants that are written out.
func (v *stepNames) keys(x ast.Expr) (keys []string, ok bool) {
	if x != nil && v.info.Types[x].IsNil() {
		return nil, true
	}
	lit := v.literal(x)
	if lit == nil {
		return nil, false
	}
	for _, e := range lit.Elts {
		key, ok := v.constant(e.(*ast.KeyValueExpr).Key) // it is a map's
		if !ok {
			return keys, false
		}
		keys = append(keys, key)
	}
	return keys, true
}

// may reports whether a setting can be one of a machine, whose Steps are of the type.
func (v *stepNames) may(s setting, lit *ast.CompositeLit, steps types.Type) bool {
	if s.of != nil {
		return v.has(s, lit)
	}
	if isSaga(s.in, "Prompt", "Resource") && isSaga(v.info.TypeOf(lit), "Machine") && !v.parts[lit] && !v.parts[nil] {
		return false
	}
	return s.name == "Renamed" || alike(s.typ, steps)
}

// alike reports whether two types of package saga are the same, as far as they are known.
func alike(a, b types.Type) bool {
	x, y := namedSaga(a), namedSaga(b)
	if x == nil || y == nil {
		return false
	}
	for i := range 2 {
		p, q := x.TypeArgs().At(i), y.TypeArgs().At(i)
		_, open := p.(*types.TypeParam)
		_, open2 := q.(*types.TypeParam)
		if !open && !open2 && !types.Identical(p, q) {
			return false
		}
	}
	return true
}

// machine checks the names in one, which is of type t.
func (v *stepNames) machine(lit *ast.CompositeLit, t types.Type) {
	names, ok := v.names(lit, t)
	if !ok {
		return
	}
	code := []ast.Expr{field(lit, "Start")}
	if list := v.literal(field(lit, "Steps")); list != nil {
		code = append(code, list)
	}
	for _, s := range v.later {
		if s.of != nil && v.has(s, lit) && (s.name == "Start" || s.name == "Steps") {
			code = append(code, s.value)
		}
	}
	seen := make(map[*ast.FuncDecl]bool)
	for _, c := range code {
		if c != nil {
			v.look(c, names, seen)
		}
	}
}

// names returns the names by which the step functions of a machine can be called, and of
// each whether it is in its Steps; ok is false if they cannot all be read from the code.
func (v *stepNames) names(lit *ast.CompositeLit, t types.Type) (names map[string]bool, ok bool) {
	names = map[string]bool{"start": false}
	for _, name := range v.renamed {
		names[name] = false
	}
	for _, a := range v.added {
		for _, name := range a.names {
			if own := a.of != nil && v.has(a.setting, lit); own || alike(a.typ, t) {
				names[name] = names[name] || own
			}
		}
	}
	info := field(lit, "Info")
	if !hasKeys(lit) || slices.ContainsFunc(v.open, func(s setting) bool { return v.may(s, lit, t) }) || slices.ContainsFunc(v.hidden, func(at token.Pos) bool {
		return lit.Pos() <= at && at < lit.End() || info != nil && written(info) == nil
	}) {
		return nil, false
	}
	given := field(lit, "Steps")
	if given == nil {
		return names, true
	}
	keys, ok := v.keys(given)
	for _, name := range keys {
		names[name] = true
	}
	return names, ok
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
	f := calledFunc(v.info, call)
	if f == nil || len(call.Args) == 0 {
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
