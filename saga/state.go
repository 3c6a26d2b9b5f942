package saga

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

var errNoNext = errors.New("it returned neither what to do next nor an error; end it with Ask, Goto, Text, Structured or Finish")

// ownEncoding are interfaces of types that take care of their encoding.
var ownEncoding = []reflect.Type{
	reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.BinaryMarshaler](),
}

// checkState looks for what would be lost or fail when a state is encoded:
// better to know when the tool is registered than in the middle of a saga.
func checkState(t reflect.Type) error { return walkState(t, "the state", map[reflect.Type]bool{}) }

// checkRecorded does the same for what is recorded of an effect, where there is no
// place for secrets.
func checkRecorded(t reflect.Type, at string) error {
	if err := walkState(t, at, map[reflect.Type]bool{}); err != nil {
		return err
	}
	if holdsSecret(t, map[reflect.Type]bool{}) {
		return fmt.Errorf("%s has a Secret, which is not recorded with effects", at)
	}
	return nil
}

func walkState(t reflect.Type, at string, seen map[reflect.Type]bool) error {
	if seen[t] {
		return nil
	}
	seen[t] = true
	for _, own := range ownEncoding {
		if t.Implements(own) || reflect.PointerTo(t).Implements(own) {
			return nil
		}
	}
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.UnsafePointer, reflect.Complex64, reflect.Complex128, reflect.Uintptr:
		return fmt.Errorf("%s is a %s, which cannot be encoded", at, t.Kind())
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return fmt.Errorf("%s is the interface %v; a decoder cannot know what to put there, use a concrete type", at, t)
		}
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return walkState(t.Elem(), at+"'s element", seen)
	case reflect.Map:
		return walkState(t.Elem(), at+"'s element", seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if f.Type == secretType {
				continue // findSecrets looks after it
			}
			name := fmt.Sprintf("field %s of %s", f.Name, at)
			if f.Tag.Get("json") == "-" {
				return fmt.Errorf("%s is tagged json:\"-\", so it would be lost", name)
			}
			if !f.IsExported() && !f.Anonymous {
				return fmt.Errorf("%s is not exported, so it would be lost", name)
			}
			if err := walkState(f.Type, name, seen); err != nil {
				return err
			}
		}
	}
	return nil
}
