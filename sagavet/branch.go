package sagavet

import (
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"
)

// possible reports whether a condition can come out as taken when the error that
// is followed says that the saga has to wait: it is then not nil, and nothing that
// the author could recognise.
func (t *trace) possible(cond ssa.Value, w *way, taken bool) bool {
	switch c := cond.(type) {
	case *ssa.Const:
		return (c.Value.String() == "true") == taken
	case *ssa.Phi:
		if v := w.conds[c]; v != nil && v != cond {
			return t.possible(v, w, taken)
		}
	case *ssa.UnOp:
		if c.Op == token.NOT {
			return t.possible(c.X, w, !taken)
		}
	case *ssa.BinOp:
		if !w.holds[c.X] && !w.holds[c.Y] {
			break
		}
		w.examined = true
		// The error equals nothing: not nil, and no error of others.
		switch c.Op {
		case token.EQL:
			return !taken
		case token.NEQ:
			return taken
		}
	case *ssa.Extract:
		switch from := c.Tuple.(type) {
		case *ssa.TypeAssert:
			if w.holds[from.X] {
				w.examined = true
				return !taken
			}
		case *ssa.Call:
			if recognises(from.Common(), w) {
				w.examined = true
				return !taken
			}
		}
	case *ssa.Call:
		if recognises(c.Common(), w) {
			w.examined = true
			return !taken
		}
	}
	return true
}

// recognises reports whether a call looks at the error and says what it is, such as
// errors.Is or a function of the author's. The error of asking is none that others
// know, so the answer is no.
func recognises(c *ssa.CallCommon, w *way) bool {
	results := c.Signature().Results()
	n := results.Len()
	if n == 0 || !types.Identical(results.At(n-1).Type().Underlying(), types.Typ[types.Bool]) {
		return false
	}
	return slices.ContainsFunc(c.Args, func(v ssa.Value) bool { return w.holds[v] })
}
