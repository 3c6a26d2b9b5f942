package sagavet

import (
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// maxVisited bounds how many steps of a function are followed.
const maxVisited = 20000

// way is what is known at a point on one path through a function: the values that hold or wrap the
// error, and which value each condition has.
type way struct {
	holds map[ssa.Value]bool
	conds map[*ssa.Phi]ssa.Value
	// examined: a condition has compared the error.
	examined bool
}

func (w way) clone() way { return way{maps.Clone(w.holds), maps.Clone(w.conds), w.examined} }

func (w way) key(b *ssa.BasicBlock, from int) string {
	var names []string
	for v := range w.holds {
		names = append(names, fmt.Sprintf("%p", v))
	}
	for phi, v := range w.conds {
		names = append(names, fmt.Sprintf("%p=%p", phi, v))
	}
	slices.Sort(names)
	return fmt.Sprint(b.Index, from, w.examined, names)
}

// follow follows the error from the call on.
func (t *trace) follow() {
	t.replaced = make(map[token.Pos]bool)
	b := t.call.Block()
	// Begin behind the call: to come to it again means a loop.
	from := slices.Index(b.Instrs, ssa.Instruction(t.call)) + 1
	t.run(b, from, way{holds: map[ssa.Value]bool{t.err: true}, conds: make(map[*ssa.Phi]ssa.Value)})
}

func (t *trace) run(b *ssa.BasicBlock, from int, w way) {
	if key := w.key(b, from); t.visited[key] || len(t.visited) > maxVisited {
		return
	} else {
		t.visited[key] = true
	}
	for _, i := range b.Instrs[from:] {
		switch i := i.(type) {
		case *ssa.Return:
			t.end(i, w)
			return
		case *ssa.Panic:
			return
		case *ssa.If:
			for _, taken := range []bool{true, false} {
				on := w.clone()
				if t.possible(i.Cond, &on, taken) {
					next := b.Succs[1]
					if taken {
						next = b.Succs[0]
					}
					t.enter(b, next, on)
				}
			}
			return
		case *ssa.Jump:
			t.enter(b, b.Succs[0], w)
			return
		default:
			if i == ssa.Instruction(t.call) {
				// A loop: the error of the last round is gone.
				if delete(w.holds, t.err); len(w.holds) == 0 {
					t.lose(w)
					return
				}
			}
			if t.step(i, w) {
				return
			}
		}
	}
}

// enter follows a jump from one block to another, and resolves the phis there.
func (t *trace) enter(from, to *ssa.BasicBlock, w way) {
	edge := slices.Index(to.Preds, from)
	held := maps.Clone(w.holds)
	for _, i := range to.Instrs {
		phi, ok := i.(*ssa.Phi)
		if !ok {
			break
		}
		delete(w.holds, phi)
		if held[phi.Edges[edge]] {
			w.holds[phi] = true
		}
		if types.Identical(phi.Type().Underlying(), types.Typ[types.Bool]) {
			v := phi.Edges[edge]
			if other, ok := v.(*ssa.Phi); ok && w.conds[other] != nil {
				v = w.conds[other]
			}
			w.conds[phi] = v
		}
	}
	t.run(to, 0, w)
}

// step follows the error through one instruction. It returns true if the error is stored where it
// cannot be followed. Then it counts as returned.
func (t *trace) step(i ssa.Instruction, w way) bool {
	switch i := i.(type) {
	case *ssa.Store:
		root := underlying(i.Addr)
		if !w.holds[i.Val] {
			if root == i.Addr {
				delete(w.holds, root) // overwritten
			}
			return false
		}
		if _, local := root.(*ssa.Alloc); !local {
			return true
		}
		w.holds[root] = true
	case *ssa.Send:
		return w.holds[i.X]
	case *ssa.MapUpdate:
		return w.holds[i.Value]
	case *ssa.Call:
		if wraps(i.Common(), w) {
			w.holds[i] = true
		} else if i != t.call {
			delete(w.holds, i)
		}
	case *ssa.UnOp:
		if i.Op == token.MUL {
			t.hold(i, w.holds[underlying(i.X)], w)
		}
	case ssa.Value:
		if _, ok := i.(*ssa.Phi); ok || i == t.err {
			return false
		}
		t.hold(i, holdsOperand(i, w), w)
	}
	return false
}

func (t *trace) hold(v ssa.Value, holds bool, w way) {
	if holds {
		w.holds[v] = true
	} else if _, ok := v.(*ssa.Alloc); !ok {
		delete(w.holds, v)
	}
}

// holdsOperand reports whether a value is a conversion or part of one that holds the error.
func holdsOperand(v ssa.Value, w way) bool {
	switch v := v.(type) {
	case *ssa.MakeInterface, *ssa.ChangeInterface, *ssa.ChangeType, *ssa.TypeAssert, *ssa.Extract, *ssa.Field:
		return w.holds[*v.(ssa.Instruction).Operands(nil)[0]]
	case *ssa.FieldAddr, *ssa.IndexAddr, *ssa.Slice:
		return w.holds[underlying(v)]
	}
	return false
}

// wraps reports whether a call that gets the error may return it in its result.
func wraps(c *ssa.CallCommon, w way) bool {
	given := slices.ContainsFunc(c.Args, func(v ssa.Value) bool { return w.holds[v] })
	if !given {
		return false
	}
	if name := funcName(object(c)); name == "fmt.Errorf" || name == failfFunc {
		format, ok := c.Args[0].(*ssa.Const)
		if !ok || format.Value == nil || format.Value.Kind() != constant.String {
			return true
		}
		verbs := strings.Count(constant.StringVal(format.Value), "%w")
		// A ToolError has one cause.
		return verbs == 1 || verbs > 1 && name != failfFunc
	}
	for v := range c.Signature().Results().Variables() {
		if holdsErrors(v.Type()) {
			return true
		}
	}
	return false
}

// holdsErrors reports whether a value of a type can contain an error.
func holdsErrors(t types.Type) bool {
	switch t := t.Underlying().(type) {
	case *types.Basic, *types.Chan, *types.Signature:
		return false
	case *types.Slice:
		return holdsErrors(t.Elem())
	}
	return true
}

// end checks what is returned.
func (t *trace) end(ret *ssa.Return, w way) {
	if n := len(ret.Results); n > 0 && endsInError(t.call.Parent().Signature.Results()) {
		err := ret.Results[n-1]
		_, variable := err.(*ssa.UnOp) // a named result, of which nothing is known
		switch {
		case w.holds[err]:
		case isNil(err) || variable || t.effect && !isMade(err):
			t.lose(w)
		default:
			t.replaced[ret.Pos()] = true
		}
		return
	}
	if !slices.ContainsFunc(ret.Results, func(v ssa.Value) bool { return w.holds[v] }) {
		t.lose(w)
	}
}

// lose notes that the error is not returned.
func (t *trace) lose(w way) {
	t.lost = t.lost || !t.effect || !w.examined
}

// isMade reports whether a value is an error that the function itself makes.
func isMade(v ssa.Value) bool {
	switch v := v.(type) {
	case *ssa.MakeInterface:
		_, ok := v.X.(*ssa.Alloc)
		return ok
	case *ssa.Call:
		switch funcName(object(v.Common())) {
		case "fmt.Errorf", "errors.New", failfFunc, failFunc:
			return true
		}
	}
	return false
}

// possible reports whether a condition can have the value taken when the error says that the saga has
// to wait. Such an error is not nil, and nothing that the author could recognise.
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
		// The error is neither nil nor equal to any other.
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

// recognises reports whether a call asks what the error is, as errors.Is does, or a function of the
// author's. For the error of asking, the answer is no.
func recognises(c *ssa.CallCommon, w *way) bool {
	results := c.Signature().Results()
	n := results.Len()
	if n == 0 || !types.Identical(results.At(n-1).Type().Underlying(), types.Typ[types.Bool]) {
		return false
	}
	return slices.ContainsFunc(c.Args, func(v ssa.Value) bool { return w.holds[v] })
}
