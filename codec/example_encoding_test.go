package codec_test

import (
	"encoding/json"
	"fmt"

	"github.com/mcpsaga/mcpsaga/codec"
)

// lenient is an encoding like [codec.JSON], but with the habits of encoding/json.
type lenient struct{}

func (lenient) Name() string                       { return "lenient json" }
func (lenient) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (lenient) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

// Another encoding is a type with three methods. CBOR and Protocol Buffers fit as
// well. Formats that let the data choose the type to decode into do not: a leaked
// key would become a way to run code.
func ExampleEncoding() {
	type state struct{ City string }
	for _, e := range []codec.Encoding{codec.JSON, lenient{}} {
		var s state
		err := e.Unmarshal([]byte(`{"CITY":"Ghent"}`), &s)
		fmt.Printf("%s: %q %v\n", e.Name(), s.City, err)
	}
	// Output:
	// json: "" <nil>
	// lenient json: "Ghent" <nil>
}
