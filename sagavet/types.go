package sagavet

import (
	"go/types"
	"iter"
	"slices"
)

// The packages whose use is examined.
const (
	sagaPath  = "github.com/mcpsaga/mcpsaga/saga"
	stepsPath = "github.com/mcpsaga/mcpsaga/steps"
)

// pointed returns what t points to, or t.
func pointed(t types.Type) types.Type {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		return p.Elem()
	}
	return t
}

// namedType returns the named type that t is, or points to, or nil.
func namedType(t types.Type) *types.Named {
	n, _ := types.Unalias(pointed(t)).(*types.Named)
	return n
}

// isNamed reports whether t is one of the named types of a package, or a pointer to one. Without names, all are wanted.
func isNamed(t types.Type, path string, names ...string) bool {
	n := namedType(t)
	return n != nil && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == path && (names == nil || slices.Contains(names, n.Obj().Name()))
}

func pointsTo(t types.Type, path string, names ...string) bool {
	return pointed(t) != t && isNamed(t, path, names...)
}

// What functions of tools get: isPerformer says that it performs effects.
func isRun(t types.Type) bool       { return pointsTo(t, sagaPath, "Run") }
func isTurn(t types.Type) bool      { return pointsTo(t, sagaPath, "Turn") }
func isPerformer(t types.Type) bool { return isRun(t) || isTurn(t) }
func isEvent(t types.Type) bool     { return pointsTo(t, stepsPath, "Event") }
func isKey(t types.Type) bool       { return isNamed(t, sagaPath, "Key", "Performed") }
func hasRun(t types.Type) bool      { return carries(t, isRun) }
func isContext(t types.Type) bool   { return isNamed(t, "context", "Context") }

// isLogger reports whether a type is one of those to which programs report what they do: loggers,
// spans, metrics.
func isLogger(t types.Type) bool {
	return slices.Contains([]string{"Logger", "SugaredLogger", "Entry", "Event", "Span", "Counter", "Histogram", "Gauge"}, shortName(t))
}

// shortName is the name of a named type without its package's; empty for others.
func shortName(t types.Type) string {
	if n := namedType(t); n != nil {
		return n.Obj().Name()
	}
	return ""
}

var errorType = types.Universe.Lookup("error").Type()

// is reports whether the type below t is a T, such as a map.
func is[T types.Type](t types.Type) bool {
	if t == nil {
		return false
	}
	_, ok := t.Underlying().(T)
	return ok
}

func isString(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsString != 0
}

// among reports whether one of some variables is of a wanted type.
func among(vars iter.Seq[*types.Var], wanted func(types.Type) bool) bool {
	for v := range vars {
		if wanted(v.Type()) {
			return true
		}
	}
	return false
}

// takes reports whether a function has a parameter of a wanted type.
func takes(sig *types.Signature, wanted func(types.Type) bool) bool {
	return among(sig.Params().Variables(), wanted)
}

// carries reports whether a type is wanted, or a struct, or a pointer to one, with a field of a wanted type: authors put the
// Run beside what belongs to one saga.
func carries(t types.Type, wanted func(types.Type) bool) bool {
	s, ok := pointed(t).Underlying().(*types.Struct)
	return wanted(t) || ok && !isNamed(t, sagaPath) && among(s.Fields(), wanted)
}
