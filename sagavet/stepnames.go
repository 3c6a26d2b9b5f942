package sagavet

import (
	"go/ast"
	"go/constant"
	"go/types"
	"maps"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// stepsAnalyzer finds names of step functions that a machine does not have.
var stepsAnalyzer = analyzer("sagasteps", `report names of step functions that a machine does not have

A step function says by name which one comes next: t.Ask("chosen", question). A saga that
comes to a name that is not in the machine's Steps fails. A name is compared with the Steps
of all machines in the package that have the same types of arguments and state. Names that
are not constant are not checked, nor are machines whose Steps are not all written out in
the package.`, func(pass *analysis.Pass, _ *program, r *reporter) {
	v := &stepNames{pass: pass, reporter: r, machines: make(map[string]bool), names: make(map[string]map[string]bool), unknown: make(map[string]bool)}
	for n := range nodes(pass) {
		v.collect(n)
	}
	for n := range nodes(pass) {
		if call, ok := n.(*ast.CallExpr); ok {
			v.check(call)
		}
	}
})

// stepNames are the step functions of a package. Those with the same types of arguments and state
// belong together, and have a key.
type stepNames struct {
	pass     *analysis.Pass
	reporter *reporter
	// machines has the keys for which the package defines a machine, prompt or resource.
	machines map[string]bool
	names    map[string]map[string]bool
	// unknown has the keys for which there may be others.
	unknown map[string]bool
	// renamed are the names in older revisions, of whatever machine.
	renamed []string
}

// typesKey is the key of an instance of a type of package saga.
func typesKey(t types.Type) string {
	args := namedSaga(t).TypeArgs()
	return args.At(0).String() + ", " + args.At(1).String()
}

// collect takes the names that a node adds, and notices if it may add others.
func (v *stepNames) collect(n ast.Node) {
	switch n := n.(type) {
	case *ast.CompositeLit:
		v.literal(n)
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Renamed" {
			v.rename(n.Value)
		}
	case *ast.Ident:
		o, ok := v.pass.TypesInfo.ObjectOf(n).(*types.Var)
		if ok && isSaga(o.Type(), "Machine", "Prompt", "Resource") {
			v.machines[typesKey(o.Type())] = true
		}
		if ok && isSaga(o.Type(), "Steps") && (o.Kind() == types.ParamVar || o.Pkg() != v.pass.Pkg && !o.IsField()) {
			v.unknown[typesKey(o.Type())] = true
		}
	case *ast.CallExpr:
		if v.pass.TypesInfo.Types[n.Fun].IsBuiltin() {
			return
		}
		for _, x := range append([]ast.Expr{n}, n.Args...) {
			if t := v.pass.TypesInfo.TypeOf(x); written(x) == nil && t != nil && isSaga(t, "Steps") {
				v.unknown[typesKey(t)] = true
			}
		}
	}
	assigned(n, func(to, value ast.Expr) {
		to = ast.Unparen(to)
		if f, ok := to.(*ast.SelectorExpr); ok && f.Sel.Name == "Renamed" {
			v.rename(value)
		}
		element, ok := to.(*ast.IndexExpr)
		if !ok {
			return
		}
		if t := v.pass.TypesInfo.TypeOf(element.X); isSaga(t, "Steps") {
			v.add(typesKey(t), element.Index)
		}
		if f, ok := ast.Unparen(element.X).(*ast.SelectorExpr); ok && f.Sel.Name == "Renamed" {
			v.renamed = append(v.renamed, v.constant(element.Index))
		}
	})
}

func (v *stepNames) literal(lit *ast.CompositeLit) {
	switch t := v.pass.TypesInfo.TypeOf(lit); {
	case isSaga(t, "Machine", "Prompt", "Resource"):
		v.machines[typesKey(t)] = true
	case isSaga(t, "Steps"):
		for _, e := range lit.Elts {
			v.add(typesKey(t), e.(*ast.KeyValueExpr).Key) // it is a map's
		}
	}
}

func (v *stepNames) add(key string, name ast.Expr) {
	if v.names[key] == nil {
		v.names[key] = make(map[string]bool)
	}
	v.names[key][v.constant(name)] = true
}

// rename takes the old names. "" stands for those that are not constant.
func (v *stepNames) rename(value ast.Expr) {
	lit := written(value)
	if lit == nil {
		v.renamed = append(v.renamed, "")
		return
	}
	for _, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			v.renamed = append(v.renamed, v.constant(kv.Key))
		}
	}
}

// check checks the name in a call that says which step function comes next.
func (v *stepNames) check(call *ast.CallExpr) {
	f := calledFunc(v.pass.TypesInfo, call)
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
	method, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok || v.pass.TypesInfo.Selections[method] == nil {
		return
	}
	turn := v.pass.TypesInfo.Selections[method].Obj().(*types.Func).Signature().Recv().Type()
	key, name := typesKey(turn), v.constant(next)
	known := v.names[key]
	if name == "" || name == "start" || known[name] || known[""] || !v.machines[key] || v.unknown[key] ||
		slices.Contains(v.renamed, name) || slices.Contains(v.renamed, "") {
		return
	}
	advice := "The machine has no Steps"
	if len(known) > 0 {
		advice = "Name one of the machine's Steps, which are " + strings.Join(slices.Sorted(maps.Keys(known)), ", ")
	}
	v.reporter.report(next.Pos(), "there is no step function %q, so the saga fails when it comes here", advice, name)
}

// constant returns the value of a constant text, or "".
func (v *stepNames) constant(x ast.Expr) string {
	if value := v.pass.TypesInfo.Types[x].Value; value != nil && value.Kind() == constant.String {
		return constant.StringVal(value)
	}
	return ""
}
