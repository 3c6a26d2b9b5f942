package sagavet

import (
	"go/constant"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"
)

// cleansUp reports whether a deferred function does something only if a variable of
// the flow says that it has failed: an error that is not nil, or a bool that the
// flow sets to true before it ends well.
func cleansUp(d *ssa.Defer, f *ssa.Function) bool {
	for _, b := range f.Blocks {
		branch, ok := b.Instrs[len(b.Instrs)-1].(*ssa.If)
		if !ok {
			continue
		}
		failed := failedBranch(d, f, branch)
		if failed == nil || len(failed.Preds) > 1 {
			continue
		}
		for _, in := range f.Blocks {
			if failed.Dominates(in) && slices.ContainsFunc(in.Instrs, acts) {
				return true
			}
		}
	}
	return false
}

// failedBranch returns where a branch goes when the flow has failed, or nil if it
// does not ask that.
func failedBranch(d *ssa.Defer, f *ssa.Function, branch *ssa.If) *ssa.BasicBlock {
	cond, yes, no := branch.Cond, branch.Block().Succs[0], branch.Block().Succs[1]
	for {
		not, ok := cond.(*ssa.UnOp)
		if !ok || not.Op != token.NOT {
			break
		}
		cond, yes, no = not.X, no, yes
	}
	if v, ok := variable(cond).(*ssa.FreeVar); ok && isFlag(binding(d, f, v)) {
		return no
	}
	c, ok := cond.(*ssa.BinOp)
	if !ok || !isNil(c.X) && !isNil(c.Y) {
		return nil
	}
	x := c.X
	if isNil(x) {
		x = c.Y
	}
	if variable(x) == nil || !isError(x.Type()) {
		return nil
	}
	switch c.Op {
	case token.NEQ:
		return yes
	case token.EQL:
		return no
	}
	return nil
}

// variable returns the variable around the literal, or behind a parameter, that a
// value was read from, or nil.
func variable(v ssa.Value) ssa.Value {
	if u, ok := v.(*ssa.UnOp); ok && u.Op == token.MUL {
		switch u.X.(type) {
		case *ssa.FreeVar, *ssa.Parameter:
			return u.X
		}
	}
	return nil
}

// binding returns the variable that a literal captures.
func binding(d *ssa.Defer, f *ssa.Function, v *ssa.FreeVar) ssa.Value {
	closure, ok := d.Common().Value.(*ssa.MakeClosure)
	if !ok {
		return nil
	}
	for i, free := range f.FreeVars {
		if free == v {
			return closure.Bindings[i]
		}
	}
	return nil
}

// isFlag reports whether a variable is a bool that the function sets to true.
func isFlag(v ssa.Value) bool {
	return variableOf(v, func(v ssa.Value) bool {
		c, ok := v.(*ssa.Const)
		return ok && c.Value != nil && c.Value.Kind() == constant.Bool && constant.BoolVal(c.Value)
	})
}

// acts reports whether an instruction changes something outside of the function, as
// far as can be told: it calls what does not only compute or tell, or stores where
// others can read.
func acts(i ssa.Instruction) bool {
	switch i := i.(type) {
	case *ssa.Store:
		// A variable of the flow itself, such as its error, may be set.
		switch underlying(i.Addr).(type) {
		case *ssa.FreeVar, *ssa.Alloc:
			return false
		}
		return true
	case *ssa.MapUpdate, *ssa.Send:
		return true
	case ssa.CallInstruction:
		return actingCall(i.Common())
	}
	return false
}

func actingCall(c *ssa.CallCommon) bool {
	if b, ok := c.Value.(*ssa.Builtin); ok {
		return slices.Contains([]string{"delete", "clear", "close"}, b.Name())
	}
	o := object(c)
	if o == nil {
		return true
	}
	if o.Pkg() == nil || slices.Contains(computing, o.Pkg().Path()) || onlyLogs(o) {
		return false // error.Error is of no package; what saga has is a log message, or an error
	}
	// What gets the error and returns one computes it.
	return !(endsInError(c.Signature().Results()) && takes(c.Signature(), isError))
}

// isLogger reports whether methods of a type tell people something: loggers and
// spans of traces.
func isLogger(t types.Type) bool {
	return slices.Contains([]string{"Logger", "SugaredLogger", "Entry", "Event", "Span", "Counter", "Histogram", "Gauge"}, receiver(t))
}

// getsEffect reports whether a deferred call gets what saga.Do returned, and does
// not only tell of it.
func getsEffect(d *ssa.Defer, f *ssa.Function) bool {
	c := d.Common()
	fromEffect := func(v ssa.Value) bool { return isEffectResult(v, 5) }
	if actingCall(c) && slices.ContainsFunc(c.Args, fromEffect) {
		return true
	}
	closure, ok := c.Value.(*ssa.MakeClosure)
	if !ok {
		return false
	}
	for n, v := range closure.Bindings {
		if !variableOf(v, fromEffect) {
			continue
		}
		found := false
		instructions(f, func(i ssa.Instruction) {
			if call, ok := i.(ssa.CallInstruction); ok && actingCall(call.Common()) {
				for _, arg := range call.Common().Args {
					found = found || read(arg) == f.FreeVars[n]
				}
			}
		})
		if found {
			return true
		}
	}
	return false
}

// isEffectResult reports whether a value is, or is part of, what saga.Do returned;
// its error apart.
func isEffectResult(v ssa.Value, depth int) bool {
	if depth == 0 {
		return false
	}
	switch v := v.(type) {
	case *ssa.Extract:
		call, ok := v.Tuple.(*ssa.Call)
		return ok && v.Index == 0 && funcName(object(call.Common())) == doFunc
	case *ssa.Field:
		return isEffectResult(v.X, depth-1)
	case *ssa.MakeInterface:
		return isEffectResult(v.X, depth-1)
	case *ssa.UnOp:
		return v.Op == token.MUL && variableOf(underlying(v.X), func(v ssa.Value) bool { return isEffectResult(v, depth-1) })
	}
	return false
}

// variableOf reports whether something wanted is stored in a local variable.
func variableOf(v ssa.Value, wanted func(ssa.Value) bool) bool {
	a, ok := v.(*ssa.Alloc)
	if !ok {
		return false
	}
	for _, r := range *a.Referrers() {
		if s, ok := r.(*ssa.Store); ok && s.Addr == a && wanted(s.Val) {
			return true
		}
	}
	return false
}

// read returns the variable that a value, or what it is part of, was read from.
func read(v ssa.Value) ssa.Value {
	for {
		switch x := v.(type) {
		case *ssa.UnOp:
			return underlying(x.X)
		case *ssa.Field:
			v = x.X
		case *ssa.MakeInterface:
			v = x.X
		default:
			return underlying(v)
		}
	}
}
