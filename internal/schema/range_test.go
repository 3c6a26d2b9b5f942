package schema

import (
	"encoding/json"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
)

// What no number of Go's holds is called what it is.
func TestNumbersBeyondAnyRange(t *testing.T) {
	s, _, err := Resolve(&jsonschema.Schema{Type: "object"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		`{"a":{"n":1e400}}`: "the number at /a/n is too large",
		`{"a":[1,-1e999]}`:  "the number at /a/1 is too large",
		`{"a":1,"a":2}`:     "they are not valid JSON, or a name occurs twice",
	} {
		assert.EqualError(t, s.Validate(json.RawMessage(in)), want)
	}
}
