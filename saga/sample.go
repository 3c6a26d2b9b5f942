package saga

import (
	"fmt"
	"reflect"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/mcpsaga/mcpsaga/internal/schema"
)

// Probes find out by which methods an encoding lets types encode themselves. Each has
// the methods of one kind, and without these nothing that could be encoded.
type (
	jsonProbe   struct{ probe }
	jsonToProbe struct{ probe }
	textProbe   struct{ probe }
	binaryProbe struct{ probe }
	gobProbe    struct{ probe }
)

type probe struct{ read bool }

// found is what the probes encode themselves as; it is JSON too.
const found = "17"

func (p *probe) take(b []byte) error {
	p.read = string(b) == found
	return nil
}

func (p jsonProbe) MarshalJSON() ([]byte, error)     { return []byte(found), nil }
func (p *jsonProbe) UnmarshalJSON(b []byte) error    { return p.take(b) }
func (p textProbe) MarshalText() ([]byte, error)     { return []byte(found), nil }
func (p *textProbe) UnmarshalText(b []byte) error    { return p.take(b) }
func (p binaryProbe) MarshalBinary() ([]byte, error) { return []byte(found), nil }
func (p *binaryProbe) UnmarshalBinary(b []byte) error {
	return p.take(b)
}
func (p gobProbe) GobEncode() ([]byte, error) { return []byte(found), nil }
func (p *gobProbe) GobDecode(b []byte) error  { return p.take(b) }

func (p jsonToProbe) MarshalJSONTo(e *jsontext.Encoder) error {
	return e.WriteValue(jsontext.Value(found))
}

func (p *jsonToProbe) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	b, err := d.ReadValue()
	if err != nil {
		return err
	}
	return p.take(b)
}

// at is the probe in a type of one.
func (p *probe) at() *probe { return p }

// calls reports whether an encoding calls the methods of a probe. One that cannot
// encode a probe does not.
func calls[P any, At interface {
	*P
	at() *probe
}](e Encoding) (called bool) {
	defer func() { _ = recover() }() // an encoding may be made for one type only
	var from, to struct{ Probe P }
	At(&from.Probe).at().read = true // gob leaves zero values out
	b, err := e.Marshal(&from)
	if err != nil || e.Unmarshal(b, &to) != nil {
		return false
	}
	return At(&to.Probe).at().read
}

// sampler fills values so that what gets lost, or gets into another field, is noticed:
// no two numbers or strings in a sample are the same.
type sampler struct {
	keeper *keeper
	count  int
}

func (s *sampler) next() int { s.count++; return s.count }

// maxSampleDepth is how deep samples go: types may hold themselves.
const maxSampleDepth = 8

func (s *sampler) fill(v reflect.Value, depth int) {
	t := v.Type()
	if depth > maxSampleDepth || t == secretType || !v.CanSet() && t.Kind() != reflect.Struct {
		return
	}
	if s.keeper.encodesItself(t) && t.Kind() != reflect.Pointer {
		fillItself(v)
		return
	}
	depth++
	switch t.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(s.next() & 0x7f))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(s.next() & 0xff))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(s.next()) + 0.5)
	case reflect.String:
		v.SetString(strconv.Itoa(s.next())) // a number, as some strings have to be one
	case reflect.Interface:
		v.Set(reflect.ValueOf(strconv.Itoa(s.next())))
	case reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		s.fill(v.Elem(), depth)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(t, 1, 1))
		s.fill(v.Index(0), depth)
	case reflect.Array:
		for i := range min(v.Len(), 2) {
			s.fill(v.Index(i), depth)
		}
	case reflect.Map:
		key, value := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		s.fill(key, depth)
		s.fill(value, depth)
		v.Set(reflect.MakeMap(t))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range t.NumField() {
			s.fill(v.Field(i), depth)
		}
	}
}

// spellings are JSON values that types which encode themselves may understand.
var spellings = []string{`"2001-02-03T04:05:06Z"`, `"192.0.2.1"`, `"192.0.2.0/24"`, `"192.0.2.1:80"`, `"b7e1a3c4-0d52-4f6b-8e9a-1c2d3e4f5a6b"`, `"17"`, `17`, `"en"`, `"1s"`, `true`, `"x"`, `["17","18"]`, `{"x":"17"}`}

// fillItself has a type that encodes itself read something that it understands. One
// that understands nothing of it stays as it is, and is taken at its word.
func fillItself(v reflect.Value) {
	for _, spelling := range spellings {
		into := reflect.New(v.Type())
		if err := jsonv2.Unmarshal([]byte(spelling), into.Interface(), schema.JSONOptions); err == nil && !into.Elem().IsZero() {
			v.Set(into.Elem())
			return
		}
	}
}

// lost returns where back is not what a sample was, or "".
func lost(sample, back reflect.Value, at string) string {
	if sample.CanInterface() && reflect.DeepEqual(sample.Interface(), back.Interface()) {
		return ""
	}
	switch t := sample.Type(); t.Kind() {
	case reflect.Pointer:
		if !back.IsNil() {
			return lost(sample.Elem(), back.Elem(), at+"'s element")
		}
	case reflect.Slice, reflect.Array:
		if sample.Len() != back.Len() {
			return at
		}
		for i := range sample.Len() {
			if path := lost(sample.Index(i), back.Index(i), at+"'s element"); path != "" {
				return path
			}
		}
	case reflect.Map:
		for key, v := range sample.Seq2() {
			if b := back.MapIndex(key); b.IsValid() {
				if path := lost(v, b, at+"'s element"); path != "" {
					return path
				}
			}
		}
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() && !f.Anonymous {
				continue // of a type that encodes itself
			}
			if path := lost(sample.Field(i), back.Field(i), fmt.Sprintf("field %s of %s", f.Name, at)); path != "" {
				return path
			}
		}
		if !sample.CanInterface() {
			return "" // all that it has is compared
		}
	}
	return at
}
