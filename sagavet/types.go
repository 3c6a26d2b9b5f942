package sagavet

import (
	"go/types"
	"slices"
	"strings"
)

// The packages whose use is examined.
const (
	sagaPath  = "github.com/mcpsaga/mcpsaga/saga"
	stepsPath = "github.com/mcpsaga/mcpsaga/steps"
)

// typeName returns the name of the named type that t is, or points to, with the path of its package. Others have none.
func typeName(t types.Type) (name string, pointer bool) {
	n, pointer := namedType(t)
	if n == nil || n.Obj().Pkg() == nil {
		return "", pointer
	}
	return n.Obj().Pkg().Path() + "." + n.Obj().Name(), pointer
}

// namedType returns the named type that t is, or points to, or nil.
func namedType(t types.Type) (n *types.Named, pointer bool) {
	p, pointer := types.Unalias(t).(*types.Pointer)
	if pointer {
		t = p.Elem()
	}
	n, _ = types.Unalias(t).(*types.Named)
	return n, pointer
}

// isSaga reports whether t is one of the named types of package saga, or a pointer to one; pointsToSaga, whether it is a
// pointer.
func isSaga(t types.Type, names ...string) bool {
	name, _ := typeName(t)
	short, ok := strings.CutPrefix(name, sagaPath+".")
	return ok && (len(names) == 0 || slices.Contains(names, short))
}

func pointsToSaga(t types.Type, names ...string) bool {
	_, pointer := namedType(t)
	return pointer && isSaga(t, names...)
}

// What functions of tools get: isPerformer says that it performs effects.
func isRun(t types.Type) bool       { return pointsToSaga(t, "Run") }
func isTurn(t types.Type) bool      { return pointsToSaga(t, "Turn") }
func isPerformer(t types.Type) bool { return pointsToSaga(t, "Run", "Turn") }
func isKey(t types.Type) bool       { return isSaga(t, "Key", "Performed") }

func isContext(t types.Type) bool { name, _ := typeName(t); return name == "context.Context" }

func isEvent(t types.Type) bool {
	name, pointer := typeName(t)
	return pointer && name == stepsPath+".Event"
}

// isLogger reports whether a type is one of those to which programs report what they do: loggers,
// spans, metrics.
func isLogger(t types.Type) bool {
	return slices.Contains([]string{"Logger", "SugaredLogger", "Entry", "Event", "Span", "Counter", "Histogram", "Gauge"}, shortName(t))
}

// shortName is the name of a named type without its package's; empty for others.
func shortName(t types.Type) string {
	if n, _ := namedType(t); n != nil {
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

// takes reports whether a function has a parameter of a wanted type.
func takes(sig *types.Signature, wanted func(types.Type) bool) bool {
	for v := range sig.Params().Variables() {
		if wanted(v.Type()) {
			return true
		}
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
	if !ok || isSaga(t) {
		return false
	}
	for f := range s.Fields() {
		if wanted(f.Type()) {
			return true
		}
	}
	return false
}
