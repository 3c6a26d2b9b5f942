package saga_test

import (
	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// strictJSON is an encoding that notices what a type has no place for, and keeps what is nil.
type strictJSON struct{}

var strictOptions = jsonv2.JoinOptions(
	jsonv2.FormatNilSliceAsNull(true), jsonv2.FormatNilMapAsNull(true), jsonv1.FormatDurationAsNano(true))

func (strictJSON) Name() string                  { return "json" }
func (strictJSON) Marshal(v any) ([]byte, error) { return jsonv2.Marshal(v, strictOptions) }
func (strictJSON) Unmarshal(data []byte, v any) error {
	return jsonv2.Unmarshal(data, v, strictOptions)
}
func (strictJSON) UnmarshalStrict(data []byte, v any) error {
	return jsonv2.Unmarshal(data, v, strictOptions, jsonv2.RejectUnknownMembers(true))
}
