package sagavet

import (
	"go/types"

	"golang.org/x/tools/go/ssa"
)

// operation is what a call does to a saga. A greater one includes the lesser ones.
type operation uint8

const (
	none operation = iota
	// performs: it performs effects but asks nothing.
	performs
	// asks: it may end the turn, mostly by asking.
	asks
)

// operation returns what a call does with the *Run or *Turn that it gets.
func (p *program) operation(c *ssa.CallCommon) operation { return p.classify(c, p.does) }

// classify is operation; does returns what a function of the package does.
func (p *program) classify(c *ssa.CallCommon, does func(*ssa.Function) operation) operation {
	o := object(c)
	switch funcName(o) {
	case askFunc, runAskAll, runYield, runSleep, runUntil, turnAsk, turnPause, turnGoto, turnYield, turnSleep, turnUntil:
		return asks
	case doFunc:
		return performs
	}
	if !hands(c, isPerformer) || o != nil && o.Pkg() != nil && o.Pkg().Path() == sagaPath {
		return none
	}
	if f := staticFunc(c); f != nil && f.Blocks != nil {
		return does(f)
	}
	if !endsInError(c.Signature().Results()) {
		return none // it could not return that the saga has to wait
	}
	return asks
}

// does returns what a function of the package does, with its calls and literals. It locks, as the
// analyzers of a package run at the same time.
func (p *program) does(f *ssa.Function) operation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.follow(f)
}

func (p *program) follow(f *ssa.Function) operation {
	if known, ok := p.operations[f]; ok {
		return known
	}
	p.operations[f] = none // meanwhile, for functions that call themselves
	found := none
	var visit func(f *ssa.Function)
	visit = func(f *ssa.Function) {
		instructions(f, func(i ssa.Instruction) {
			if call, ok := i.(ssa.CallInstruction); ok {
				found = max(found, p.classify(call.Common(), p.follow))
			}
		})
		for _, inner := range f.AnonFuncs {
			visit(inner)
		}
	}
	visit(f)
	p.operations[f] = found
	return found
}

// hands reports whether a call passes on a value of a wanted type: by itself, in a struct, or as a
// variable that a literal captures. Arguments of an interface type do not count: a question's Answer
// method gets the Run as a reader of answers.
func hands(c *ssa.CallCommon, wanted func(types.Type) bool) bool {
	for _, v := range c.Args {
		if isSaga(v.Type(), "Context") {
			v = unpacked(v)
		}
		if t := v.Type(); wanted(t) || carries(t, wanted) {
			return true
		}
	}
	if f := staticFunc(c); f != nil {
		return captures(f, wanted)
	}
	return false
}

// carries reports whether a type is a struct, or a pointer to one, with a field of a wanted type.
// Authors put the Run beside what belongs to one saga.
func carries(t types.Type, wanted func(types.Type) bool) bool {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	s, ok := t.Underlying().(*types.Struct)
	if !ok || namedSaga(t) != nil {
		return false
	}
	for f := range s.Fields() {
		if wanted(f.Type()) {
			return true
		}
	}
	return false
}

// captures reports whether a literal uses a variable of a wanted type of the function around it.
func captures(f *ssa.Function, wanted func(types.Type) bool) bool {
	for _, v := range f.FreeVars {
		t := v.Type()
		if p, ok := t.(*types.Pointer); ok && !wanted(t) {
			t = p.Elem()
		}
		if wanted(t) || carries(t, wanted) {
			return true
		}
	}
	return false
}
