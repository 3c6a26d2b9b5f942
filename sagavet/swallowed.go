package sagavet

import (
	"go/token"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"
)

// swallowedAnalyzer finds flows that do not return the error of a question or an effect.
var swallowedAnalyzer = analyzer("sagaswallowed", `report errors of saga.Ask, Run's methods that suspend and saga.Do that a flow does not return

A flow suspends by returning the error that asking returned. If it returns another
error, or none, or continues, the saga fails. The error of an effect says whether the
effect may have happened; the engine must see it to undo the right things.

An error may be returned as it is, wrapped with %w, joined, or as the cause of
saga.Fail. What was recognised with errors.Is, errors.As or a type assertion
need not be returned, and a flow may look at the error of an effect and do something
else instead.`, func(_ *analysis.Pass, p *program, r *reporter) {
	// Errors of what is deferred, or begun in a goroutine, cannot be returned.
	apart := make(map[*ssa.Function]bool)
	for _, f := range p.funcs {
		instructions(f, func(i ssa.Instruction) {
			switch i := i.(type) {
			case *ssa.Defer:
				apart[staticFunc(i.Common())] = true
			case *ssa.Go:
				apart[staticFunc(i.Common())] = true
			}
		})
	}
	for _, f := range p.funcs {
		if apart[f] && f.Parent() != nil {
			continue
		}
		instructions(f, func(i ssa.Instruction) {
			if call, ok := i.(*ssa.Call); ok {
				p.checkError(r, call)
			}
		})
	}
})

// checkError checks what becomes of the error of a call that asks or performs an effect.
func (p *program) checkError(r *reporter, call *ssa.Call) {
	c := call.Common()
	what := p.operation(c)
	if what == none || !endsInError(c.Signature().Results()) || !withRun(c) {
		return
	}
	name := callName(c)
	err := errorOf(call)
	if err == nil {
		p.discarded(r, call, what)
		return
	}
	t := trace{call: call, err: err, effect: what == performs, visited: make(map[string]bool)}
	t.follow()
	for pos := range t.replaced {
		if what == asks {
			r.report(pos, "the flow replaces the error of %s by one that does not wrap it, so it fails where it should wait",
				"Return the error as it is, or wrap it with %w", name)
		} else {
			r.report(pos, "the flow replaces the error of %s by one that does not wrap it, so the engine cannot know that the effect may have happened",
				"Wrap it with %w, or give it to saga.Fail as the cause, with a text for the caller", name)
		}
	}
	if t.lost && len(t.replaced) == 0 {
		p.discarded(r, call, what)
	}
}

func (p *program) discarded(r *reporter, call *ssa.Call, what operation) {
	name := callName(call.Common())
	if what == asks {
		r.report(at(call), "the flow continues after %s although the saga may have to wait",
			"Return the error if it is not nil; recognise with errors.Is or errors.As what the flow itself can deal with", name)
		return
	}
	r.report(at(call), "the flow continues after %s as if the effect had happened",
		"Return the error if it is not nil; recognise with errors.As what the flow itself can deal with", name)
}

// withRun reports whether a call is made with the Run of a flow. Machines do not run again.
func withRun(c *ssa.CallCommon) bool {
	if funcName(object(c)) == doFunc {
		return isRun(unpacked(c.Args[0]).Type())
	}
	return hands(c, isRun)
}

func callName(c *ssa.CallCommon) string {
	o := object(c)
	switch {
	case o == nil:
		return "this call"
	case o.Pkg().Path() != sagaPath:
		return o.Name()
	case o.Signature().Recv() != nil:
		return "Run." + o.Name()
	}
	return "saga." + o.Name()
}

// errorOf returns the error of a call, or nil if the code drops it.
func errorOf(call *ssa.Call) ssa.Value {
	n := call.Common().Signature().Results().Len()
	if n == 1 {
		if len(*call.Referrers()) == 0 {
			return nil
		}
		return call
	}
	for _, r := range *call.Referrers() {
		if e, ok := r.(*ssa.Extract); ok && e.Index == n-1 && len(*e.Referrers()) > 0 {
			return e
		}
	}
	return nil
}

// trace follows an error through a function, on all paths that the function can take when the error
// says that the saga has to wait.
type trace struct {
	call    *ssa.Call
	err     ssa.Value
	visited map[string]bool
	// effect: the error is that of an effect. A flow may look at it and continue.
	effect bool
	// replaced are the places where another error is returned.
	replaced map[token.Pos]bool
	// lost: there is a path on which no error is returned.
	lost bool
}
