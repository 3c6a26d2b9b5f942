package saga

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/mcpsaga/mcpsaga/internal/engine"
)

// ownEncoding is a way in which a type can take care of its encoding.
type ownEncoding struct {
	method             string
	marshal, unmarshal reflect.Type
	// calledBy reports whether an encoding leaves that to a type.
	calledBy func(Encoding) bool
}

// ownEncodings are those ways, the three of JSON first.
var ownEncodings = []ownEncoding{
	{"MarshalJSON", reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler](), calls[jsonProbe]},
	{"MarshalJSONTo", reflect.TypeFor[jsonv2.MarshalerTo](), reflect.TypeFor[jsonv2.UnmarshalerFrom](), calls[jsonToProbe]},
	{"MarshalText", reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](), calls[textProbe]},
	{"MarshalBinary", reflect.TypeFor[encoding.BinaryMarshaler](), reflect.TypeFor[encoding.BinaryUnmarshaler](), calls[binaryProbe]},
	{"GobEncode", reflect.TypeFor[interface{ GobEncode() ([]byte, error) }](), reflect.TypeFor[interface{ GobDecode([]byte) error }](), calls[gobProbe]},
}

// keeper checks that values of a type come back from an encoding as they were: better
// to know when the tool is registered than in the middle of a saga.
type keeper struct {
	encoding Encoding
	// calls are the methods that the encoding calls; a type is taken at its word only
	// if it has one of these.
	calls []ownEncoding
}

// keeps returns what is lost when values of the type are encoded, or nil.
func (k *keeper) keeps(t reflect.Type, at string) error {
	if err := k.walk(t, at, map[reflect.Type]bool{}); err != nil {
		return err
	}
	return k.try(t, at, map[reflect.Type]bool{})
}

func newKeeper(e Encoding) *keeper {
	if _, ok := e.(jsonEncoding); ok {
		return &keeper{e, ownEncodings[:3]}
	}
	return &keeper{e, slices.DeleteFunc(slices.Clone(ownEncodings), func(own ownEncoding) bool { return !own.calledBy(e) })}
}

// encodesItself reports whether the encoding leaves a type to the type's own methods,
// both ways.
func (k *keeper) encodesItself(t reflect.Type) bool {
	var marshals, unmarshals bool
	for _, own := range k.calls {
		marshals = marshals || implements(t, own.marshal)
		unmarshals = unmarshals || implements(t, own.unmarshal)
	}
	return marshals && unmarshals
}

// uncalled names a method by which the type would encode itself and which the
// encoding does not call.
func (k *keeper) uncalled(t reflect.Type) string {
	for _, own := range ownEncodings {
		if implements(t, own.marshal) {
			return own.method
		}
	}
	return ""
}

func implements(t, i reflect.Type) bool { return t.Implements(i) || reflect.PointerTo(t).Implements(i) }

func (k *keeper) walk(t reflect.Type, at string, seen map[reflect.Type]bool) error {
	if seen[t] {
		return nil
	}
	seen[t] = true
	if t == secretType || k.encodesItself(t) {
		return nil
	}
	err := k.walkInto(t, at, seen)
	if method := k.uncalled(t); err != nil && method != "" && t.Kind() != reflect.Pointer {
		return fmt.Errorf("%s is a %v, whose %s the encoding does not call, so it would be lost; keep its text in a string, its bytes in a []byte, or set an Encoding that calls it", at, t, method)
	}
	return err
}

func (k *keeper) walkInto(t reflect.Type, at string, seen map[reflect.Type]bool) error {
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.UnsafePointer, reflect.Complex64, reflect.Complex128, reflect.Uintptr:
		return fmt.Errorf("%s is a %s, which cannot be encoded", at, t.Kind())
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return fmt.Errorf("%s is the interface %v; a decoder cannot know what to put there, use a concrete type", at, t)
		}
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return k.walk(t.Elem(), at+"'s element", seen)
	case reflect.Map:
		return k.walk(t.Elem(), at+"'s element", seen)
	case reflect.Struct:
		var found engine.Problems
		for f := range t.Fields() {
			name := fmt.Sprintf("field %s of %s", f.Name, at)
			var err error
			switch {
			case f.Type == secretType: // findSecrets looks after it
			case f.Tag.Get("json") == "-":
				err = fmt.Errorf("%s is tagged json:\"-\", so it would be lost", name)
			case !f.IsExported() && (!f.Anonymous || f.Type.Kind() != reflect.Struct):
				err = fmt.Errorf("%s is not exported, so it would be lost", name)
			default:
				err = k.walk(f.Type, name, seen)
			}
			found.Join(err)
		}
		return found.Err()
	}
	return nil
}

// try encodes two values of the type, the zero value and one in which everything that
// can be is set, and looks whether they come back.
func (k *keeper) try(t reflect.Type, at string, tried map[reflect.Type]bool) error {
	tried[t] = true
	sample, back := reflect.New(t), reflect.New(t)
	if err := k.roundTrip(sample, back); err != nil {
		return k.locate(t, at, tried, fmt.Errorf("the zero value of %s does not come back: %w", at, err))
	}
	s := sampler{keeper: k}
	s.fill(sample.Elem(), 0)
	back = reflect.New(t)
	if err := k.roundTrip(sample, back); err != nil {
		return k.locate(t, at, tried, fmt.Errorf("a sample value of %s does not come back: %w; every value that the type can have must survive", at, err))
	}
	if path := lost(sample.Elem(), back.Elem(), at); path != "" {
		return fmt.Errorf("%s does not come back as it was; keep what it says in fields of strings, numbers and the like, or give its type methods that the encoding calls, such as MarshalText and UnmarshalText", path)
	}
	return nil
}

// locate looks whether an error is that of a part of the type, as encodings do not
// always say where they failed.
func (k *keeper) locate(t reflect.Type, at string, tried map[reflect.Type]bool, err error) error {
	if k.encodesItself(t) {
		return err
	}
	part := func(t reflect.Type, at string) error {
		if tried[t] || t == secretType {
			return nil
		}
		return k.try(t, at, tried)
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		if inner := part(t.Elem(), at+"'s element"); inner != nil {
			return inner
		}
	case reflect.Struct:
		for f := range t.Fields() {
			if inner := part(f.Type, fmt.Sprintf("field %s of %s", f.Name, at)); inner != nil {
				return inner
			}
		}
	}
	return err
}

// roundTrip encodes a value and decodes it again. The methods that do so may be the
// author's, who may not have thought of such a value.
func (k *keeper) roundTrip(from, to reflect.Value) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("its encoding panics: %v", v)
		}
	}()
	b, err := k.encoding.Marshal(from.Interface())
	if err != nil {
		return err
	}
	return k.encoding.Unmarshal(b, to.Interface())
}

// checkKept finds the secrets in a type that is kept between turns, and fails if
// something of it would be lost.
func checkKept(t reflect.Type, e Encoding, at string) ([]secretField, error) {
	secrets, err := findSecrets(t, at)
	if err != nil {
		return nil, err
	}
	return secrets, newKeeper(e).keeps(t, at)
}
