package sagavet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"math"
)

// never is the count of a way that is not taken.
const never = math.MinInt32

// counter counts the rounds in the statements of one function.
type counter struct {
	*rounds
	count *count
	// factor is how often the loops around run.
	factor int
}

// statements counts from n on. It returns the greatest count with which the
// statements are left at their end, and that of the ways that end before, with a
// return or by leaving a loop.
func (w *counter) statements(list []ast.Stmt, n int) (through, ended int) {
	through, ended = n, never
	for _, s := range list {
		if through == never {
			break // not come to
		}
		t, e := w.statement(s, through)
		through, ended = t, max(ended, e)
	}
	return through, ended
}

// either counts statements of which some or none run: it is left with the greatest.
func (w *counter) either(n int, exhaustive bool, bodies ...[]ast.Stmt) (through, ended int) {
	through, ended = never, never
	if !exhaustive {
		through = n
	}
	for _, b := range bodies {
		t, e := w.statements(b, n)
		through, ended = max(through, t), max(ended, e)
	}
	return through, ended
}

func (w *counter) statement(s ast.Stmt, n int) (through, ended int) {
	switch s := s.(type) {
	case *ast.BlockStmt:
		return w.statements(s.List, n)
	case *ast.LabeledStmt:
		return w.statement(s.Stmt, n)
	case *ast.ReturnStmt, *ast.BranchStmt:
		return never, w.expression(s, n)
	case *ast.IfStmt:
		n = w.expression(s.Init, n)
		n = w.expression(s.Cond, n)
		if s.Else == nil {
			return w.either(n, false, s.Body.List)
		}
		return w.either(n, true, s.Body.List, []ast.Stmt{s.Else})
	case *ast.SwitchStmt:
		n = w.expression(s.Init, n)
		return w.clauses(s.Body, w.expression(s.Tag, n))
	case *ast.TypeSwitchStmt:
		n = w.expression(s.Init, n)
		return w.clauses(s.Body, w.expression(s.Assign, n))
	case *ast.SelectStmt:
		return w.clauses(s.Body, n)
	case *ast.ForStmt:
		n = w.expression(s.Init, n)
		return w.loop(s, s.Body, n, w.forTimes(s))
	case *ast.RangeStmt:
		n = w.expression(s.X, n)
		return w.loop(s, s.Body, n, w.rangeTimes(s))
	}
	return w.expression(s, n), never
}

func (w *counter) clauses(body *ast.BlockStmt, n int) (through, ended int) {
	var bodies [][]ast.Stmt
	exhaustive := false
	for _, c := range body.List {
		switch c := c.(type) {
		case *ast.CaseClause:
			bodies = append(bodies, c.Body)
			exhaustive = exhaustive || c.List == nil
		case *ast.CommClause:
			bodies = append(bodies, c.Body)
			exhaustive = true
		}
	}
	through, ended = w.either(n, exhaustive, bodies...)
	if breaks(body) {
		through = max(through, ended)
	}
	return through, ended
}

// breaks reports whether a break leaves the statement that has the body, or a
// continue goes on with it. It may name a label, which is then taken for this one.
func breaks(body *ast.BlockStmt) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BranchStmt:
			found = found || n.Tok == token.BREAK || n.Tok == token.CONTINUE
		case *ast.FuncLit:
			return false
		}
		return true
	})
	return found
}

// loop counts a loop that runs a number of times, 0 if nothing bounds it.
func (w *counter) loop(loop ast.Stmt, body *ast.BlockStmt, n, times int) (through, ended int) {
	outer := w.factor
	w.factor = max(outer, 1) * max(times, 1)
	t, e := w.statements(body.List, n)
	w.factor = outer
	through = max(n, t)
	if breaks(body) {
		through = max(through, e)
	}
	if times == 0 && max(t, e) > n && !w.leaves(body) {
		w.reporter.report(loop.Pos(), "nothing bounds how often this loop asks, and clients give up after %d rounds", "Count the rounds and stop in time with an answer that says so", maxRounds)
	}
	return through, e
}

// expression adds the calls in an expression or a simple statement.
func (w *counter) expression(x ast.Node, n int) int {
	if x == nil {
		return n
	}
	ast.Inspect(x, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncLit:
			return false // counted where it is called
		case *ast.CallExpr:
			before := n
			n += w.calls(node, w.count) * max(w.factor, 1)
			if n > maxRounds && before <= maxRounds {
				w.count.ninth = node
			}
		}
		return true
	})
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
