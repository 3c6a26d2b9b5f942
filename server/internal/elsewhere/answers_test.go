package elsewhere

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/steps"
)

// Content must be an object, and its numbers are looked at as they are written, not as float64 has them.
func TestMisfit(t *testing.T) {
	q := steps.Step{ID: "q", Kind: steps.Elicitation, Params: json.RawMessage(`{"message":"?","requestedSchema":{"type":"object","properties":{
		"n":{"type":"integer"},"x":{"type":"number","maximum":0.3}}}}`)}
	for content, want := range map[string]string{
		`{"n":9223372036854775807,"x":0.3}`: "",
		`{"n":9223372036854775808}`:         "n: must be a whole number",
		`{"x":0.30000000000000001}`:         "x: must be at most 0.3",
		`{"x":1e400}`:                       "x: must be a number",
		`[1]`:                               "no object",
		`"x"`:                               "no object",
		`null`:                              "",
	} {
		why := Misfit(q, json.RawMessage(`{"action":"accept","content":`+content+`}`))
		if want == "" {
			assert.Empty(t, why, content)
		} else {
			assert.Contains(t, why, want, content)
		}
	}
}
