package sagavet

import (
	"go/types"
	"slices"
	"strings"
)

// sagaPath is the package whose use is examined.
const sagaPath = "github.com/mcpsaga/mcpsaga/saga"

// typeName returns the name of the named type that t is, or points to, with the path of its package. Others have none.
func typeName(t types.Type) string {
	n, _ := namedType(t)
	if n == nil || n.Obj().Pkg() == nil {
		return ""
	}
	return n.Obj().Pkg().Path() + "." + n.Obj().Name()
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

// isSaga reports whether t is one of the named types of package saga, or a pointer to one.
func isSaga(t types.Type, names ...string) bool {
	short, ok := strings.CutPrefix(typeName(t), sagaPath+".")
	return ok && (len(names) == 0 || slices.Contains(names, short))
}

func isTurn(t types.Type) bool    { return isSaga(t, "Turn") }
func isKey(t types.Type) bool     { return isSaga(t, "Key", "Performed") }
func isContext(t types.Type) bool { return typeName(t) == "context.Context" }

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

// takes reports whether a function has a parameter of a wanted type.
func takes(sig *types.Signature, wanted func(types.Type) bool) bool {
	for v := range sig.Params().Variables() {
		if wanted(v.Type()) {
			return true
		}
	}
	return false
}

// hasRun reports whether a type is that of a Run, or a struct with one, or a pointer to that: authors put the Run beside what
// belongs to one saga.
func hasRun(t types.Type) bool {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	s, ok := t.Underlying().(*types.Struct)
	if !ok || isSaga(t) {
		return isSaga(t, "Run")
	}
	for f := range s.Fields() {
		if isSaga(f.Type(), "Run") {
			return true
		}
	}
	return false
}
