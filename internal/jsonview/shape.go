package jsonview

import "github.com/go-json-experiment/json/jsontext"

// Member says what a member of an object must be. Struct tags cannot say it: a
// decoder does not know required members, takes null for anything, and its errors
// name Go types. So objects from outside are checked before they are decoded.
type Member struct {
	name     string
	required bool
	is       func(jsontext.Value) error
}

// Required is a member that must be there. What is wrong with its value is decides;
// the value of a missing member is nil.
func Required(name string, is func(jsontext.Value) error) Member { return Member{name, true, is} }

// Optional is a member that may be missing, or be null, which some peers write for
// that.
func Optional(name string, is func(jsontext.Value) error) Member { return Member{name, false, is} }

// maxMembers is as many as any object here has.
const maxMembers = 12

// Check returns the first of the members, in their order, that is not as it must be,
// and what is wrong with it. Members that are not in the list are ignored.
func Check(object []byte, members []Member) (name string, err error) {
	var found [maxMembers]jsontext.Value
	for name, v := range Members(object) {
		for i := range members {
			if members[i].name == string(name) {
				found[i] = v
			}
		}
	}
	for i, m := range members {
		if v := found[i]; m.required || v != nil && v.Kind() != 'n' {
			if err := m.is(v); err != nil {
				return m.name, err
			}
		}
	}
	return "", nil
}
