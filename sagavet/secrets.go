package sagavet

import (
	"cmp"
	"go/ast"
	"go/types"
	"reflect"
	"strings"

	"github.com/mcpsaga/mcpsaga/internal/secretname"
)

// secretsAnalyzer finds fields that are kept between turns and named like secrets, but are no
// saga.Secret.
var secretsAnalyzer = analyzer("sagasecrets", `report fields of states and effects that are named like secrets

What is kept between turns shows in logs, journals and saga token explain, and a state
is compressed together with text of the client's that the tool puts there, so lengths
may tell it bit by bit. A saga.Secret is not compressed, and does not print itself. A
field that is none although it is named like one says why in the tag notsecret.`, func(v *source) {
	for n := range v.nodes() {
		lit, ok := n.(*ast.CompositeLit)
		if !ok || !isNamed(v.TypesInfo.TypeOf(lit), sagaPath) {
			continue
		}
		t := namedType(v.TypesInfo.TypeOf(lit))
		switch t.Obj().Name() {
		case "Machine", "Prompt", "Resource":
			v.fields(lit, t.TypeArgs().At(1), "the state", make(map[types.Type]bool))
		case "Effect":
			v.fields(lit, t.TypeArgs().At(0), "the input of the effect", make(map[types.Type]bool))
			v.fields(lit, t.TypeArgs().At(1), "the result of the effect", make(map[types.Type]bool))
		}
	}
})

// fields reports fields whose names are those of secrets.
func (v *source) fields(lit *ast.CompositeLit, t types.Type, at string, seen map[types.Type]bool) {
	t = types.Unalias(t)
	if seen[t] || encodesItself(t) {
		return
	}
	seen[t] = true
	switch u := t.Underlying().(type) {
	case *types.Chan: // does not encode
	case interface{ Elem() types.Type }:
		v.fields(lit, u.Elem(), at, seen)
	case *types.Struct:
		for i := range u.NumFields() {
			f, tag := u.Field(i), reflect.StructTag(u.Tag(i))
			key, _, _ := strings.Cut(tag.Get("json"), ",")
			if key == "-" || !f.Exported() && !f.Anonymous() || strings.TrimSpace(tag.Get("notsecret")) != "" {
				continue
			}
			if legible(f.Type()) && (secretname.Looks(f.Name()) || secretname.Looks(key)) {
				const advice = `Make it a saga.Secret, or say why it is none in the tag notsecret:"..."`
				pos := lit.Pos()
				if f.Pkg() == v.Pkg {
					pos = cmp.Or(f.Pos(), pos)
				}
				v.report(pos, "field %s is named like a secret, but is kept in %s like anything else: logs may show it, and the length of what is compressed may tell it", advice, f.Name(), at)
				continue
			}
			v.fields(lit, f.Type(), at, seen)
		}
	}
}

// legible reports whether a type is text, bytes, or a collection of them.
func legible(t types.Type) bool {
	switch u := t.Underlying().(type) {
	case *types.Basic:
		return u.Info()&types.IsString != 0 || u.Kind() == types.Byte
	case *types.Chan:
		return false
	case interface{ Elem() types.Type }:
		return legible(u.Elem())
	}
	return false
}

// marshals is the signature of methods by which types encode themselves.
var marshals = types.NewSignatureType(nil, nil, nil, nil, types.NewTuple(
	types.NewParam(0, nil, "", types.NewSlice(types.Typ[types.Byte])), types.NewParam(0, nil, "", errorType)), false)

// encodesItself reports whether values of a type, or pointers to them, have a Marshal method.
func encodesItself(t types.Type) bool {
	for _, method := range []string{"MarshalJSON", "MarshalText", "MarshalBinary"} {
		o, _, _ := types.LookupFieldOrMethod(t, true, nil, method)
		if f, ok := o.(*types.Func); ok && types.Identical(f.Signature(), marshals) {
			return true
		}
	}
	return false
}
