package sagavet

import (
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"
)

// deferredAnalyzer finds what a flow must not defer.
var deferredAnalyzer = analyzer("sagadeferred", `report undo, effects and questions in a defer of a flow

The function of a flow ends with an error each time it asks, so its deferred calls
run at every question, and not only when the saga has failed. What is to happen then
belongs into the Undo of an effect. Reported are deferred calls of an effect's Undo;
deferred functions that ask or perform effects; those that do something if the error
is not nil, or if a variable does not say that all went well; and those that get
what saga.Do returned. Closing and unlocking what this turn has opened is as it
should be, and so is wrapping the error.`, func(_ *analysis.Pass, p *program, r *reporter) {
	for _, f := range p.funcs {
		if !inFlow(f) {
			continue
		}
		instructions(f, func(i ssa.Instruction) {
			if d, ok := i.(*ssa.Defer); ok {
				p.checkDefer(r, d)
			}
		})
	}
})

const deferAdvice = "Make it the Undo of an effect and perform that with saga.Do; the engine undoes it when the saga ends badly"

func (p *program) checkDefer(r *reporter, d *ssa.Defer) {
	c := d.Common()
	if isUndo(c.Value) {
		r.report(d.Pos(), "an effect's Undo in a defer runs whenever the flow suspends", "Remove it; the engine calls Undo when the saga ends badly")
		return
	}
	f := staticFunc(c)
	if p.operation(c) != none {
		r.report(d.Pos(), "an effect or a question in a defer is come to when the flow has suspended, or is ending", "Move it before the return, or make it the Undo of an effect")
		return
	}
	if f != nil && callsUndo(f, 3) {
		r.report(d.Pos(), "an effect's Undo in a defer runs whenever the flow suspends", "Remove it; the engine calls Undo when the saga ends badly")
		return
	}
	if !p.asksAfter(d) {
		return // nothing suspends while it is deferred
	}
	switch {
	case f != nil && cleansUp(d, f):
		r.report(d.Pos(), "this defer runs whenever the flow suspends, as the error is then not nil either", deferAdvice)
	case getsEffect(d, f):
		r.report(d.Pos(), "this defer gives up what an effect has done whenever the flow suspends", deferAdvice)
	}
}

// isUndo reports whether a value was read from the field Undo of an effect.
func isUndo(v ssa.Value) bool {
	if u, ok := v.(*ssa.UnOp); ok && u.Op == token.MUL {
		if a, ok := u.X.(*ssa.FieldAddr); ok {
			return isSaga(a.X.Type(), "Effect") && fieldName(a) == "Undo"
		}
	}
	return false
}

func fieldName(a *ssa.FieldAddr) string {
	s := a.X.Type().Underlying().(*types.Pointer).Elem().Underlying().(*types.Struct)
	return s.Field(a.Field).Name()
}

// callsUndo reports whether a function calls an effect's Undo, or others of the
// package that do.
func callsUndo(f *ssa.Function, depth int) (found bool) {
	instructions(f, func(i ssa.Instruction) {
		if call, ok := i.(ssa.CallInstruction); ok && !found {
			found = isUndo(call.Common().Value)
			if next := staticFunc(call.Common()); !found && next != nil && depth > 0 {
				found = callsUndo(next, depth-1)
			}
		}
	})
	return found
}

// asksAfter reports whether the function can suspend after an instruction.
func (p *program) asksAfter(from ssa.Instruction) bool {
	return after(from, func(i ssa.Instruction) bool {
		call, ok := i.(*ssa.Call)
		return ok && p.operation(call.Common()) == asks
	})
}

// after reports whether an instruction that is wanted can follow one.
func after(from ssa.Instruction, wanted func(ssa.Instruction) bool) (found bool) {
	b := from.Block()
	onward(b, slices.Index(b.Instrs, from)+1, make(map[*ssa.BasicBlock]bool), func(i ssa.Instruction) bool {
		found = found || wanted(i)
		return !found
	})
	return found
}

// onward visits the instructions of a block from one on, and all that can follow. It does
// not go on behind one of which visit returns false.
func onward(b *ssa.BasicBlock, from int, seen map[*ssa.BasicBlock]bool, visit func(ssa.Instruction) bool) {
	for _, i := range b.Instrs[from:] {
		if !visit(i) {
			return
		}
	}
	for _, next := range b.Succs {
		if !seen[next] {
			seen[next] = true
			onward(next, 0, seen, visit)
		}
	}
}
