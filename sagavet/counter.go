package sagavet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"math"
	"slices"

	"golang.org/x/tools/go/cfg"
)

// counter counts the rounds in one function.
type counter struct {
	*rounds
	count *count
	loops []loop
	// ways are those on from the blocks that are done; a block that is not yet has nil.
	ways map[*cfg.Block]*asking
}

// loop is a loop that runs a number of times, 0 if nothing bounds it. asks says that it
// asks.
type loop struct {
	ast.Stmt
	body  *ast.BlockStmt
	times int
	asks  bool
}

// asking is a call that asks, with those that follow on the way on which the function asks
// most.
type asking struct {
	call   *ast.CallExpr
	times  int // how often the call asks
	next   *asking
	rounds int // from here on
}

func (a *asking) total() int {
	if a == nil {
		return 0
	}
	return a.rounds
}

// most counts on the way through the body on which it asks most.
func (w *counter) most(body *ast.BlockStmt) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ForStmt:
			w.loops = append(w.loops, loop{n, n.Body, w.forTimes(n), false})
		case *ast.RangeStmt:
			w.loops = append(w.loops, loop{n, n.Body, w.rangeTimes(n), false})
		}
		return true
	})
	graph := cfg.New(body, func(*ast.CallExpr) bool { return true })
	first := w.longest(graph.Blocks[0])
	w.count.rounds = first.total()
	n := 0
	for at := first; at != nil && w.count.ninth == nil; at = at.next {
		if n += at.times; n > maxRounds {
			w.count.ninth = at.call
		}
	}
	for _, l := range w.loops {
		if l.times == 0 && l.asks && !w.leaves(l.body) {
			w.reporter.report(l.Pos(), "nothing bounds how often this loop asks, and clients give up after %d rounds", "Count the rounds and stop in time with an answer that says so", maxRounds)
		}
	}
}

// longest returns the way on from the beginning of a block. What a loop asks is counted
// where it stands, as often as the loop runs, so from its end the way leaves the loop.
func (w *counter) longest(b *cfg.Block) *asking {
	if known, ok := w.ways[b]; ok {
		return known
	}
	w.ways[b] = nil
	var on *asking
	for _, next := range b.Succs {
		after := []*cfg.Block{next}
		if known, ok := w.ways[next]; ok && known == nil {
			after = next.Succs // back to where the loop begins
		}
		for _, next := range after {
			if other := w.longest(next); other.total() > on.total() {
				on = other
			}
		}
	}
	for _, n := range slices.Backward(b.Nodes) {
		var calls []*ast.CallExpr
		ast.Inspect(n, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				calls = append(calls, call)
			}
			_, isLiteral := n.(*ast.FuncLit)
			return !isLiteral // counted where it is called
		})
		for _, call := range slices.Backward(calls) {
			if times := w.times(call); times > 0 {
				on = &asking{call, times, on, on.total() + times}
			}
		}
	}
	w.ways[b] = on
	return on
}

// times returns how often a call asks, in all loops around it.
func (w *counter) times(call *ast.CallExpr) int {
	n := w.calls(call, w.count)
	for i := range w.loops {
		if l := &w.loops[i]; n > 0 && l.body.Pos() <= call.Pos() && call.Pos() < l.body.End() {
			n *= max(l.times, 1)
			l.asks = true
		}
	}
	return n
}

// rangeTimes returns how often a range loop runs: as often as a constant says, or
// once if a value bounds it.
func (w *counter) rangeTimes(s *ast.RangeStmt) int {
	if n, ok := w.constant(s.X); ok {
		return n
	}
	if t := w.info.TypeOf(s.X); t != nil {
		if a, ok := t.Underlying().(*types.Array); ok {
			return int(a.Len())
		}
	}
	return 1
}

// forTimes returns how often a for loop runs, as rangeTimes does, or 0.
func (w *counter) forTimes(s *ast.ForStmt) int {
	cond, ok := s.Cond.(*ast.BinaryExpr)
	if !ok || s.Post == nil {
		return 0
	}
	low := 0
	if init, ok := s.Init.(*ast.AssignStmt); ok && len(init.Rhs) == 1 {
		low, _ = w.constant(init.Rhs[0])
	}
	if high, ok := w.constant(cond.Y); ok {
		switch cond.Op {
		case token.LSS, token.NEQ:
			return max(high-low, 1)
		case token.LEQ:
			return max(high-low+1, 1)
		}
	}
	return 1
}

func (w *counter) constant(x ast.Expr) (int, bool) {
	v := w.info.Types[x].Value
	if v == nil {
		return 0, false
	}
	n, ok := constant.Int64Val(constant.ToInt(v))
	return int(n), ok && n < math.MaxInt16
}

// leaves reports whether a loop counts something and leaves when it is enough.
func (w *counter) leaves(body *ast.BlockStmt) bool {
	for n := range ast.Preorder(body) {
		s, ok := n.(*ast.IfStmt)
		if !ok || !w.compares(s.Cond) {
			continue
		}
		for n := range ast.Preorder(s) {
			if branch, ok := n.(*ast.BranchStmt); ok && branch.Tok == token.BREAK {
				return true
			}
			if _, ok := n.(*ast.ReturnStmt); ok {
				return true
			}
		}
	}
	return false
}

// compares reports whether a condition compares numbers.
func (w *counter) compares(x ast.Expr) bool {
	cond, ok := ast.Unparen(x).(*ast.BinaryExpr)
	if !ok {
		return false
	}
	switch cond.Op {
	case token.LSS, token.LEQ, token.GTR, token.GEQ, token.EQL:
		t, ok := w.info.TypeOf(cond.X).Underlying().(*types.Basic)
		return ok && t.Info()&types.IsInteger != 0
	case token.LOR, token.LAND:
		return w.compares(cond.X) || w.compares(cond.Y)
	}
	return false
}
