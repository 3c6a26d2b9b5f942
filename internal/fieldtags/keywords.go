// Package fieldtags reads the struct tags that say more about a field than its Go
// type: enum, minimum, format and the others. Forms, arguments and structured
// results are declared with the same tags, so they are read in one place.
//
// What a tag cannot mean for a field is an error, never ignored: a rule that its
// author believes in and that nothing enforces is worse than none.
package fieldtags

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Keywords are what the tags of one field say. What no tag says is zero.
type Keywords struct {
	Title                              string
	Choices                            []Choice
	LegacyTitles                       bool
	Format, Pattern                    string
	MinLength, MaxLength               *int
	Minimum, Maximum                   *float64
	ExclusiveMinimum, ExclusiveMaximum *float64
	MultipleOf                         *float64
	MinItems, MaxItems                 *int
	UniqueItems                        bool
	Default                            *string // as it is written
	Header                             string
	NotSecret                          bool
}

// Choice is one of the values of an enum tag.
type Choice struct{ Value, Title string }

// Kind classifies fields by the tags they can have.
type Kind uint16

// The kinds. An enum tag makes Text a Choice, and TextList a ChoiceList.
const (
	Text Kind = 1 << iota
	Time
	Number
	Integer
	Bool
	Choosing // one of the choices that the type has
	TextList
	ChoiceList // of choices that the type has
	List       // of anything else
	Object     // a struct or a map
	Anything

	numbers = Number | Integer
	lists   = TextList | ChoiceList | List
	all     = 1<<iota - 1
)

// String returns what messages call the kind.
func (k Kind) String() string {
	return map[Kind]string{
		Text: "text", Time: "time.Time", Number: "a number", Integer: "a number", Bool: "a boolean",
		Choosing: "a choice", TextList: "a list of text", ChoiceList: "a list of choices", List: "a list of something else than strings",
		Object: "an object", Anything: "a field that can hold anything",
	}[k]
}

// Place says what the field belongs to.
type Place uint8

// The places. MCP allows fewer keywords in forms than in other schemas.
const (
	Form   Place = 1 << iota // what is asked of a user
	Schema                   // arguments and results
)

// Error says what is wrong with a field's tags.
type Error struct {
	// Tag is the tag's name, or empty if it is about several.
	Tag string
	// Reason says what is wrong, and what to do.
	Reason string
}

// Error implements error.
func (e *Error) Error() string {
	if e.Tag == "" {
		return e.Reason
	}
	return "tag " + e.Tag + ": " + e.Reason
}

// Read adds to k what a field's tags say. k holds the limits that the field's type
// has, which tags can only narrow. The error is an *[Error].
func (k *Keywords) Read(st reflect.StructTag, kind Kind, in Place) error {
	written, ok := Keys(st)
	if !ok {
		return &Error{"", fmt.Sprintf("its tags `%s` are not written as Go wants them, so some are not seen; write them as name:\"value\", separated by a space", st)}
	}
	for i, key := range written {
		if slices.Contains(written[:i], key) {
			return &Error{key, "is there twice, and only the first is seen"}
		}
		if name := misspelt(key); name != "" {
			return &Error{key, cmp.Or(refused(name, in), "is written "+name)}
		}
		if reason := refused(key, in); reason != "" {
			return &Error{key, reason}
		}
	}
	for _, t := range tags() {
		value, ok := st.Lookup(t.name)
		if !ok {
			continue
		}
		if t.on&kind == 0 {
			return &Error{t.name, fmt.Sprintf("is not for %s; allowed here: %s", kind, strings.Join(allowed(kind, in), ", "))}
		}
		if reason := t.apply(k, kind, value); reason != "" {
			return &Error{t.name, reason}
		}
		if t.name == "enum" {
			kind = map[Kind]Kind{Text: Choosing, TextList: ChoiceList}[kind]
		}
	}
	if reason := k.contradiction(); reason != "" {
		return &Error{"", reason}
	}
	return nil
}

// Any reports whether a field has one of the tags that this package reads.
func Any(st reflect.StructTag) bool {
	written, _ := Keys(st)
	return slices.ContainsFunc(tags(), func(t tag) bool { return slices.Contains(written, t.name) })
}

func allowed(kind Kind, in Place) []string {
	var names []string
	for _, t := range tags() {
		if t.on&kind != 0 && t.in&in != 0 {
			names = append(names, t.name)
		}
	}
	return names
}

// contradiction returns why nothing can satisfy k, or "".
func (k *Keywords) contradiction() string {
	switch {
	case crossed(k.MinLength, k.MaxLength):
		return fmt.Sprintf("minLength %d is more than maxLength %d", *k.MinLength, *k.MaxLength)
	case crossed(k.MinItems, k.MaxItems):
		return fmt.Sprintf("minItems %d is more than maxItems %d", *k.MinItems, *k.MaxItems)
	case crossed(k.Minimum, k.Maximum):
		return fmt.Sprintf("minimum %v is more than maximum %v", *k.Minimum, *k.Maximum)
	case reaches(k.ExclusiveMinimum, k.Maximum):
		return fmt.Sprintf("exclusiveMinimum %v leaves nothing up to maximum %v", *k.ExclusiveMinimum, *k.Maximum)
	case reaches(k.Minimum, k.ExclusiveMaximum):
		return fmt.Sprintf("exclusiveMaximum %v leaves nothing from minimum %v on", *k.ExclusiveMaximum, *k.Minimum)
	case reaches(k.ExclusiveMinimum, k.ExclusiveMaximum):
		return fmt.Sprintf("nothing is between exclusiveMinimum %v and exclusiveMaximum %v", *k.ExclusiveMinimum, *k.ExclusiveMaximum)
	}
	return ""
}

func crossed[T cmp.Ordered](low, high *T) bool { return low != nil && high != nil && *low > *high }
func reaches[T cmp.Ordered](low, high *T) bool { return low != nil && high != nil && *low >= *high }
