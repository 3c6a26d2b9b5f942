package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// Numbers are compared as the decimals that they are written as: to JSON Schema 0.3 is a multiple of 0.1, and
// 9007199254740993 is more than 9007199254740992. As float64 they are neither.

// Where the library compares them, as in uniqueItems and anyOf, integers of 64 bits are what they are, and others are float64.
var (
	longNumber = regexp.MustCompile(`[0-9]{16}`)
	longChoice = regexp.MustCompile(`"(?:enum|const)":[^\]]*[0-9]{16}`) // in a schema, whose choices are float64
)

// readNumbers has integers read that float64 would round.
func (s *Schema) readNumbers(raw []byte) jsonv2.Options {
	if s.rounded || !longNumber.Match(raw) {
		return jsonv2.JoinOptions()
	}
	return jsonv2.WithUnmarshalers(jsonv2.UnmarshalFromFunc(func(d *jsontext.Decoder, v *any) error {
		if d.PeekKind() != '0' {
			return errors.ErrUnsupported
		}
		text, err := d.ReadValue()
		if err != nil {
			return err
		}
		if i, wrong := strconv.ParseInt(string(text), 10, 64); wrong == nil {
			*v = i
			return nil
		}
		if u, wrong := strconv.ParseUint(string(text), 10, 64); wrong == nil {
			*v = u
			return nil
		}
		*v, err = strconv.ParseFloat(string(text), 64)
		return err
	}))
}

// longestNumber is the longest text of a number that is taken exactly. With it the exponent is bounded, too, of
// a number that float64 has: the time that a client's number takes is.
const longestNumber = 64

// decimal is the number that a text stands for, which float64 has, perhaps rounded. One that is nearly zero is zero.
func decimal(text string) *big.Rat {
	x, _ := strconv.ParseFloat(text, 64)
	d := new(big.Rat)
	if x == 0 {
		return d
	}
	if len(text) > longestNumber {
		text = strconv.FormatFloat(x, 'g', -1, 64)
	}
	d.SetString(text)
	return d
}

// decimalOf is a float64 as it is written.
func decimalOf(x float64) *big.Rat { return decimal(strconv.FormatFloat(x, 'g', -1, 64)) }

// CompareNumber compares a number of JSON, which float64 has, with a limit.
func CompareNumber(number string, limit float64) int { return decimal(number).Cmp(decimalOf(limit)) }

// plain is a number as people write it.
func plain(x float64) string {
	raw, _ := json.Marshal(x) // no limit is infinite
	return string(raw)
}

// exactly checks the rules about numbers that the library checks of float64.
type exactly map[*jsonschema.Schema]bool

// reference is one of a schema to another.
var reference = regexp.MustCompile(`"\$(?:ref|dynamicRef)":"([^"]*)"`)

// refersToItself reports whether a schema refers to more of itself than its definitions, where no value passes anyway.
func refersToItself(raw json.RawMessage) bool {
	return slices.ContainsFunc(reference.FindAllSubmatch(raw, -1), func(m [][]byte) bool {
		return !bytes.HasPrefix(m[1], []byte("#/$defs/")) && !bytes.HasPrefix(m[1], []byte("#/definitions/"))
	})
}

// take moves the rules about numbers from library, a copy of s, to e. It does so where a value always passes: in members,
// in items, in the values of a map.
func (e exactly) take(s, library *jsonschema.Schema) {
	if s == nil || s.Ref != "" || s.DynamicRef != "" {
		return
	}
	zero := s.MultipleOf != nil && *s.MultipleOf <= 0 // means nothing
	if !zero && (s.MultipleOf != nil || s.Minimum != nil || s.Maximum != nil || s.ExclusiveMinimum != nil || s.ExclusiveMaximum != nil) {
		e[s] = true
		library.MultipleOf, library.Minimum, library.Maximum, library.ExclusiveMinimum, library.ExclusiveMaximum = nil, nil, nil, nil, nil
	}
	for name, member := range s.Properties {
		e.take(member, library.Properties[name])
	}
	if s.PatternProperties == nil {
		e.take(s.AdditionalProperties, library.AdditionalProperties)
	}
	if s.PrefixItems == nil {
		e.take(s.Items, library.Items)
	}
}

// broken returns the rule of s that a value breaks, or "".
func (e exactly) broken(s *jsonschema.Schema, v any) string {
	n, ok := v.(json.Number)
	if !ok || !e[s] {
		return ""
	}
	compare := func(limit float64) int { return CompareNumber(n.String(), limit) }
	switch {
	case s.Minimum != nil && compare(*s.Minimum) < 0:
		return "must be at least " + plain(*s.Minimum)
	case s.Maximum != nil && compare(*s.Maximum) > 0:
		return "must be at most " + plain(*s.Maximum)
	case s.ExclusiveMinimum != nil && compare(*s.ExclusiveMinimum) <= 0:
		return "must be more than " + plain(*s.ExclusiveMinimum)
	case s.ExclusiveMaximum != nil && compare(*s.ExclusiveMaximum) >= 0:
		return "must be less than " + plain(*s.ExclusiveMaximum)
	case s.MultipleOf != nil && !new(big.Rat).Quo(decimal(n.String()), decimalOf(*s.MultipleOf)).IsInt():
		return "must be a multiple of " + plain(*s.MultipleOf)
	}
	return ""
}

// checkDefaults finds a default that breaks such a rule.
func (e exactly) checkDefaults(at *jsonschema.Schema) error {
	if at.Default != nil {
		if where, rule := firstBroken(at, numbered(at.Default), e.broken); rule != "" {
			return fmt.Errorf("its default %s is wrong: %s", at.Default, strings.TrimLeft(where+" "+rule, " "))
		}
	}
	for _, member := range at.Properties {
		if err := e.checkDefaults(member); err != nil {
			return err
		}
	}
	return nil
}

// numbered is JSON whose numbers are as they are written.
func numbered(raw json.RawMessage) (v any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	_ = d.Decode(&v) // it is valid
	return v
}
