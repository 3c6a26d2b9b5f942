package saga

import "github.com/go-json-experiment/json/jsontext"

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

// calledBy returns the ways that an encoding leaves to a type's own methods.
func calledBy(e Encoding) []ownEncoding {
	called := [...]bool{probes[jsonProbe](e), probes[jsonToProbe](e), probes[textProbe](e), probes[binaryProbe](e), probes[gobProbe](e)}
	var list []ownEncoding
	for i, own := range ownEncodings {
		if called[i] {
			list = append(list, own)
		}
	}
	return list
}

// probes reports whether an encoding calls the methods of a probe. One that cannot
// encode a probe does not.
func probes[P interface {
	jsonProbe | jsonToProbe | textProbe | binaryProbe | gobProbe
}](e Encoding) (called bool) {
	defer func() { _ = recover() }() // an encoding may be made for one type only
	var from, to struct{ Probe P }
	_ = any(&from.Probe).(prober).take([]byte(found)) // gob leaves zero values out
	b, err := e.Marshal(&from)
	if err != nil || e.Unmarshal(b, &to) != nil {
		return false
	}
	return any(&to.Probe).(prober).wasRead()
}

type prober interface {
	take([]byte) error
	wasRead() bool
}

func (p *probe) wasRead() bool { return p.read }
