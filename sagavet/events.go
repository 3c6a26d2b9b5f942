package sagavet

import (
	"go/ast"
	"go/types"
)

// eventsAnalyzer finds events that cannot be delivered, or whose delivery is lost.
var eventsAnalyzer = analyzer("sagaevents", `report events that cannot be delivered, or that nothing waits for

An event is delivered to the handle that saga.Handle returns, or to a steps.Key. One that
a tool asks for without either can only time out, and what is delivered to a handle is lost if
the tool does not ask for the event. Variables of a package are looked at if they are not
exported, and those of functions; an event that is given to anything else is left alone, and
so is one without a handle in a test, which may deliver it otherwise. An effect that takes the handle
itself, instead of getting it as its input, has it in no record.`, func(src *source) {
	v := events{src, make(map[types.Object]*eventUse)}
	for n := range v.nodes() {
		assigned(n, func(to, value ast.Expr) {
			id, ok := to.(*ast.Ident)
			if !ok || !isEvent(v.TypesInfo.TypeOf(to)) || !isEvent(v.TypesInfo.TypeOf(value)) {
				return
			}
			if o := v.TypesInfo.Defs[id]; o != nil && (o.Parent() != v.Pkg.Scope() || !o.Exported()) {
				v.of[o] = &eventUse{}
			}
		})
	}
	for n := range v.nodes() {
		switch n := n.(type) {
		case *ast.CallExpr:
			v.call(n)
		case *ast.CompositeLit:
			if types.Unalias(v.TypesInfo.TypeOf(n)).String() == "[]"+stepsPath+".Question" {
				for _, q := range n.Elts {
					v.use(q)
				}
			}
		case *ast.Ident:
			if u := v.of[v.TypesInfo.Uses[n]]; u != nil {
				u.others++
			}
		}
	}
	for c := range v.functions(effectSignature) {
		for call := range calls(c.body) {
			if handles.has(v.called(call)) {
				v.report(call.Pos(), "an effect takes this handle, so it is not in the record of its input, and Undo does not get it", "Take it before saga.Do, and hand it to the effect as input")
			}
		}
	}
	for _, u := range v.of {
		switch {
		case u.others > 0: // its uses are not all known
		case u.handle != nil && u.asked == nil:
			v.report(u.handle.Pos(), "nothing asks for this event, so what is delivered to its handle is lost", "Ask for it with saga.Ask, or in a Machine with t.Ask")
		case u.asked != nil && u.handle == nil && !u.keyed && !v.inTest(u.asked.Pos()):
			v.report(u.asked.Pos(), "this event cannot be delivered, as it has neither a handle nor a steps.Key: it can only time out", "Give saga.Handle of it to an effect first, or ask for it With a steps.Key")
		}
	}
})

// eventUse is what is done with an event. others counts what is not known.
type eventUse struct {
	handle, asked ast.Node
	keyed         bool
	others        int
}

type events struct {
	*source
	of map[types.Object]*eventUse
}

// call looks at what a call does with events.
func (v *events) call(n *ast.CallExpr) {
	f := v.called(n)
	if f == nil || len(n.Args) == 0 {
		return
	}
	recv := f.Signature().Recv()
	switch {
	case handles.has(f):
		if u := v.use(n.Args[len(n.Args)-1]); u != nil { // both may be what one function returns
			u.handle = n
		}
	case suspending.has(f), f.Name() == "Ask" && recv != nil && isTurn(recv.Type()):
		for _, x := range n.Args {
			if u := v.use(x); u != nil {
				u.asked = n
			}
		}
	case f.Name() == "Answer" && recv != nil && isEvent(recv.Type()):
		if u := v.use(ast.Unparen(n.Fun).(*ast.SelectorExpr).X); u != nil {
			u.asked = n
		}
	}
}

// use returns the event that an expression is, perhaps as With or Nth vary it, and notes that this use is known.
func (v *events) use(x ast.Expr) *eventUse {
	keyed := false
	for {
		switch e := ast.Unparen(x).(type) {
		case *ast.Ident:
			u := v.of[v.TypesInfo.Uses[e]]
			if u != nil {
				u.others, u.keyed = u.others-1, u.keyed || keyed
			}
			return u
		case *ast.CallExpr:
			method, ok := e.Fun.(*ast.SelectorExpr)
			if !ok || !isEvent(v.TypesInfo.TypeOf(method.X)) {
				return nil
			}
			for _, a := range e.Args {
				keyed = keyed || method.Sel.Name == "With" && v.TypesInfo.TypeOf(a).String() != stepsPath+".Message"
			}
			x = method.X
		default:
			return nil
		}
	}
}
