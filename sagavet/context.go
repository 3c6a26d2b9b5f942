package sagavet

import (
	"go/ast"
	"go/constant"
	"go/types"
	"time"
)

// contextAnalyzer finds code of tools that ignores its context.
var contextAnalyzer = analyzer("sagacontext", `report code of tools that ignores its context

Step functions, flows and effects get a context, which ends when the client has gone,
the task is cancelled or the time is over. What ignores it is given up then: an effect
has an unknown outcome, and the goroutine remains. Reported are context.Background and
context.TODO, contexts from elsewhere, functions that have a sibling with a context,
such as exec.Command and the Query of a sql.DB, requests of net/http without one, and time.Sleep
for a second or more, but in tests, where it stands for work. What is deferred may clean up under any context. Of flows only
contexts are reported: the rest belongs into effects there anyway.`, func(src *source) {
	v := newFlowCode(src, func(o types.Object) (name, advice string) {
		f, _ := o.(*types.Func)
		return contextless(f), ""
	}, toolSignature)
	v.cleans = true
	for c := range v.functions(toolSignature) {
		flow := !machineSignature(c.sig)
		ast.Inspect(c.body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.DeferStmt:
				return false
			case *ast.FuncLit:
				return !toolSignature(v.signature(n))
			case *ast.CallExpr:
				return v.ignores(n, c, flow)
			}
			return true
		})
	}
})

// ignores reports a call that ignores the context. It returns whether its arguments are to be examined.
func (v *flowCode) ignores(call *ast.CallExpr, c toolCode, flow bool) bool {
	f := v.called(call)
	if onlyLogs(f) {
		return false
	}
	const ends = "the code that runs here has to end with its own context, or it is given up"
	for _, arg := range call.Args {
		arg = ast.Unparen(arg)
		if o := v.root(arg); o != nil && !c.has(o) && isContext(v.TypesInfo.TypeOf(arg)) {
			v.report(arg.Pos(), "this context is another one's: "+ends, "Take the context that the function gets, or one made of it")
		}
	}
	name := contextless(f)
	switch {
	case name == "context.Background" || name == "context.TODO":
		v.report(call.Pos(), name+" never ends: "+ends, "Take the context that the function gets, or context.WithoutCancel of it for what must not be broken off")
	case flow:
	case name == "time.Sleep" && (!long(v.TypesInfo, call) || v.inTest(call.Pos())):
	case name == "time.Sleep" && !effectSignature(c.sig):
		v.report(call.Pos(), "the step function holds its turn while it waits, and has no checkpoint: after a restart it begins again", "End it with t.Sleep or t.Until, which cost nothing while they last")
	case name != "":
		v.report(call.Pos(), name+" has no context: "+ends, "Take its sibling that has one, or wait for the context's Done too")
	default:
		if name := v.through(f); name != "" && name != "time.Sleep" {
			v.report(call.Pos(), "%s uses %s, which does not end by this context: "+ends, "Hand it the context that the function gets", f.Name(), name)
		}
	}
	return true
}

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

// contextless returns the name of a function that waits, or makes something that does, and takes no
// context. For others it returns "".
func contextless(f *types.Func) string {
	if f == nil || f.Pkg() == nil || takes(f.Signature(), isContext) {
		return ""
	}
	sibling := func(name string) bool {
		o := f.Pkg().Scope().Lookup(name)
		if recv := f.Signature().Recv(); recv != nil {
			o, _, _ = types.LookupFieldOrMethod(recv.Type(), true, f.Pkg(), name)
		}
		s, ok := o.(*types.Func)
		return ok && takes(s.Signature(), isContext)
	}
	if waiting.has(f) || f.Pkg().Path() != "os/signal" && (sibling(f.Name()+"Context") || sibling(f.Name()+"WithContext")) {
		return f.Pkg().Name() + "." + f.Name()
	}
	return ""
}

// waiting are functions without a context that have no sibling named …Context or …WithContext.
var waiting = table{
	"context":         {"Background", "TODO"},
	"time":            {"Sleep"},
	"net":             {"Dial", "DialTimeout"},
	"net/http":        {"Get", "Head", "Post", "PostForm"},
	"net/http.Client": {"Get", "Head", "Post", "PostForm"},
	"database/sql.DB": {"Begin"},
}
