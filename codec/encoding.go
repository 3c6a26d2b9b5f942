package codec

import (
	"fmt"

	"github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// Encoding turns typed states into bytes and back. The [Codec] itself handles
// bytes only: this is for those who use it. An encoding must decode what earlier
// versions of it encoded, and must not decode into types named by the data.
type Encoding interface {
	// Marshal returns v encoded.
	Marshal(v any) ([]byte, error)
	// Unmarshal decodes data into the value v points to.
	Unmarshal(data []byte, v any) error
	// Name returns a short name for the encoding, such as "json".
	Name() string
}

// JSON is the default encoding. It is strict: member names must match in case
// and not repeat, and strings must be valid UTF-8. Fields, tags and methods are
// those encoding/json knows. A nil slice or map stays nil, a [time.Duration] is a
// number of nanoseconds, and equal values give equal bytes.
var JSON Encoding = jsonEncoding{}

type jsonEncoding struct{}

func (jsonEncoding) Name() string { return "json" }

func (jsonEncoding) Marshal(v any) ([]byte, error) {
	data, err := json.Marshal(v, jsonOptions)
	if err != nil {
		return nil, fmt.Errorf("codec: encode the state: %w", err)
	}
	return data, nil
}

func (jsonEncoding) Unmarshal(data []byte, v any) error {
	if err := json.Unmarshal(data, v, jsonOptions); err != nil {
		return fmt.Errorf("codec: decode the state: %w", err)
	}
	return nil
}

// UnmarshalStrict is Unmarshal, but fails if data holds what v has no place for.
func (jsonEncoding) UnmarshalStrict(data []byte, v any) error {
	if err := json.Unmarshal(data, v, jsonOptions, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("codec: decode the state: %w", err)
	}
	return nil
}

// jsonOptions make what was encoded come back as it was.
var jsonOptions = json.JoinOptions(
	json.Deterministic(true),
	json.FormatNilSliceAsNull(true),
	json.FormatNilMapAsNull(true),
	jsonv1.FormatDurationAsNano(true),
)
