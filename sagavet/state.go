package sagavet

import (
	"fmt"
	"go/ast"
	"go/types"
	"reflect"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
)

// stateAnalyzer finds types that a saga cannot keep between turns.
var stateAnalyzer = &analysis.Analyzer{
	Name: "sagastate",
	Doc: `report states, and inputs and results of effects, that cannot be encoded

What a saga keeps between two turns travels as JSON. Registration refuses types that
would lose something; this analyzer finds them without running anything.`,
	Requires: []*analysis.Analyzer{inspect.Analyzer},
	Run: func(pass *analysis.Pass) (any, error) {
		if !usesSaga(pass.Pkg) {
			return nil, nil
		}
		r := newReporter(pass)
		in := pass.ResultOf[inspect.Analyzer].(*inspector.Inspector)
		for n := range in.PreorderSeq((*ast.CompositeLit)(nil)) {
			lit := n.(*ast.CompositeLit)
			t := namedSaga(pass.TypesInfo.TypeOf(lit))
			if t == nil {
				continue
			}
			const advice = "Use exported fields of types that encode to JSON, and refer to everything else by an id"
			switch t.Obj().Name() {
			case "Machine", "Prompt", "Resource":
				e := encoder{methods: jsonMethods}
				if hasField(lit, "Encoding") {
					e.methods = append(e.methods, "MarshalBinary", "GobEncode") // it may call them
				}
				if problem := e.lost(t.TypeArgs().At(1), "the state"); problem != "" {
					r.report(lit.Pos(), "the state cannot be kept between turns: %s", advice, problem)
				}
			case "Effect":
				for i, at := range []string{"the input", "the result"} {
					if problem := (encoder{jsonMethods}).lost(t.TypeArgs().At(i), at); problem != "" {
						r.report(lit.Pos(), "%s of the effect cannot be kept between turns: %s", advice, at, problem)
					}
				}
			}
		}
		return nil, nil
	},
}

// encoder knows by which methods types can take care of their encoding.
type encoder struct{ methods []string }

var jsonMethods = []string{"MarshalJSON", "MarshalText"}

// anyEncoder knows all methods by which a type may encode itself.
var anyEncoder = encoder{[]string{"MarshalJSON", "MarshalText", "MarshalBinary"}}

// hasField reports whether a composite literal sets a field by its name.
func hasField(lit *ast.CompositeLit, name string) bool {
	for _, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := kv.Key.(*ast.Ident); ok && key.Name == name {
				return true
			}
		}
	}
	return false
}

// lost says what of a type would be lost or fail when it is encoded, by the rules of
// registration; it is empty if nothing would.
func (e encoder) lost(t types.Type, at string) string {
	if problem := e.walk(t, at, make(map[types.Type]bool)); problem != "" {
		return problem
	}
	return secrets(t, at)
}

func (e encoder) walk(t types.Type, at string, seen map[types.Type]bool) string {
	t = types.Unalias(t)
	if seen[t] || e.encodesItself(t) {
		return ""
	}
	seen[t] = true
	if _, ok := t.(*types.TypeParam); ok {
		return "" // known where it is instantiated
	}
	switch u := t.Underlying().(type) {
	case *types.Chan:
		return at + " is a chan"
	case *types.Signature:
		return at + " is a func"
	case *types.Basic:
		switch u.Kind() {
		case types.UnsafePointer, types.Complex64, types.Complex128, types.Uintptr:
			return fmt.Sprintf("%s is a %s", at, u)
		}
	case *types.Interface:
		if u.NumMethods() > 0 {
			return fmt.Sprintf("%s is the interface %s, for which a decoder cannot know the type", at, name(t))
		}
	case *types.Pointer:
		return e.walk(u.Elem(), at+"'s element", seen)
	case *types.Slice:
		return e.walk(u.Elem(), at+"'s element", seen)
	case *types.Array:
		return e.walk(u.Elem(), at+"'s element", seen)
	case *types.Map:
		return e.walk(u.Elem(), at+"'s element", seen)
	case *types.Struct:
		for i := range u.NumFields() {
			f := u.Field(i)
			if isSecret(f.Type()) {
				continue
			}
			field := fmt.Sprintf("field %s of %s", f.Name(), at)
			if reflect.StructTag(u.Tag(i)).Get("json") == "-" {
				return field + ` is tagged json:"-"`
			}
			if _, isStruct := f.Type().Underlying().(*types.Struct); !f.Exported() && (!f.Anonymous() || !isStruct) {
				return field + " is not exported"
			}
			if problem := e.walk(f.Type(), field, seen); problem != "" {
				return problem
			}
		}
	}
	return ""
}

func name(t types.Type) string {
	return types.TypeString(t, func(p *types.Package) string { return p.Name() })
}

func isSecret(t types.Type) bool {
	_, pointer := types.Unalias(t).(*types.Pointer)
	return !pointer && isSaga(t, "Secret")
}

// encodesItself reports whether values of a type, or pointers to them, encode
// themselves.
func (e encoder) encodesItself(t types.Type) bool {
	for _, method := range e.methods {
		o, _, _ := types.LookupFieldOrMethod(t, true, nil, method)
		f, ok := o.(*types.Func)
		if !ok {
			continue
		}
		sig := f.Signature()
		if sig.Params().Len() == 0 && sig.Results().Len() == 2 && isError(sig.Results().At(1).Type()) &&
			types.Identical(sig.Results().At(0).Type(), types.NewSlice(types.Typ[types.Byte])) {
			return true
		}
	}
	return false
}

// secrets says what is wrong with the places of Secrets: they must be the whole of what
// is kept, or exported fields of it, or of structs in it.
func secrets(t types.Type, at string) string {
	if isSecret(t) {
		return ""
	}
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		if holdsSecret(t, make(map[types.Type]bool)) {
			return at + " has a Secret that is not the field of a struct"
		}
		return ""
	}
	for f := range s.Fields() {
		field := fmt.Sprintf("field %s of %s", f.Name(), at)
		_, isStruct := f.Type().Underlying().(*types.Struct)
		switch {
		case isSecret(f.Type()):
			if !f.Exported() {
				return field + " is a Secret but not exported"
			}
		case isStruct && f.Exported():
			if problem := secrets(f.Type(), field); problem != "" {
				return problem
			}
		case holdsSecret(f.Type(), make(map[types.Type]bool)):
			return field + " has a Secret that is not the field of a struct"
		}
	}
	return ""
}

func holdsSecret(t types.Type, seen map[types.Type]bool) bool {
	t = types.Unalias(t)
	if isSecret(t) {
		return true
	}
	if seen[t] {
		return false
	}
	seen[t] = true
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		return holdsSecret(u.Elem(), seen)
	case *types.Slice:
		return holdsSecret(u.Elem(), seen)
	case *types.Array:
		return holdsSecret(u.Elem(), seen)
	case *types.Map:
		return holdsSecret(u.Key(), seen) || holdsSecret(u.Elem(), seen)
	case *types.Struct:
		for f := range u.Fields() {
			if holdsSecret(f.Type(), seen) {
				return true
			}
		}
	}
	return false
}
