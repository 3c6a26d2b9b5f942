package server_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

func TestStatelessNameHeader(t *testing.T) {
	r := newModern(t)
	tests := []struct {
		name, header string
		ok           bool
	}{
		{"plain", "hello", true},
		{"white space around", " \thello\t ", true},
		{"encoded", "=?base64?aGVsbG8=?=", true},
		{"white space around the encoded", "  =?base64?aGVsbG8=?= ", true},
		{"other case", "Hello", false},
		{"another name", "ask_name", false},
		{"empty", "", false},
		{"encoded, another name", "=?base64?SGVsbG8=?=", false},
		{"no padding", "=?base64?aGVsbG8?=", false},
		{"not the alphabet", "=?base64?aGVs!!!bG8=?=", false},
		{"bits left over", "=?base64?aGVsbG9=?=", false},
		{"white space within", "=?base64?aGVs bG8=?=", false},
		{"not UTF-8", "=?base64?/w==?=", false},
		{"no prefix", "aGVsbG8=?=", false},
		{"no suffix", "=?base64?aGVsbG8=", false},
		{"other case of the prefix", "=?BASE64?aGVsbG8=?=", false},
		{"URL in place of base64", "=?base64?aGVsbG8-?=", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			q := callTool("hello", nil)
			q.header["Mcp-Name"] = []string{test.header}
			got := r.send(q)
			if test.ok {
				assert.Equal(t, 200, got.status, got.raw)
				return
			}
			assert.Equal(t, 400, got.status)
			assert.Equal(t, -32020, got.code())
		})
	}
	t.Run("not required elsewhere", func(t *testing.T) {
		q := modernRequest("tools/list", nil)
		q.header.Set("Mcp-Name", "anything")
		assert.Equal(t, 200, r.send(q).status)
	})
	t.Run("resources go by their URI", func(t *testing.T) {
		q := modernRequest("resources/read", object{"uri": "test://motto"})
		q.header.Set("Mcp-Name", "motto")
		assert.Equal(t, -32020, r.send(q).code())
	})
	t.Run("names beyond ASCII come encoded", func(t *testing.T) {
		q := modernRequest("resources/read", object{"uri": "test://note/é"})
		assert.Equal(t, -32020, r.send(q).code(), "as raw bytes")
		q.header.Set("Mcp-Name", "=?base64?dGVzdDovL25vdGUvw6k=?=")
		assert.Equal(t, -32602, r.send(q).code(), "accepted, and there is no such resource")
	})
	t.Run("control characters", func(t *testing.T) {
		q := callTool("hello", nil)
		q.header.Set("Mcp-Name", "hel\tlo")
		assert.Equal(t, -32020, r.send(q).code())
	})
	t.Run("names of headers in any case", func(t *testing.T) {
		q := callTool("hello", nil)
		q.header = http.Header{"CONTENT-TYPE": {"application/json"}, "mcp-protocol-version": {"2026-07-28"}, "mcp-METHOD": {"tools/call"}, "MCP-name": {"hello"}}
		assert.Equal(t, 200, r.send(q).status)
	})
	t.Run("the method's value is case-sensitive", func(t *testing.T) {
		q := callTool("hello", nil)
		q.header.Set("Mcp-Method", "Tools/Call")
		assert.Equal(t, -32020, r.send(q).code())
	})
}

func TestStatelessParamHeaders(t *testing.T) {
	r := newModern(t)
	tests := []struct {
		name   string
		args   object
		header map[string]string
		ok     bool
	}{
		{"none of either", object{}, nil, true},
		{"no arguments at all", nil, nil, true},
		{"equal", object{"region": "eu"}, map[string]string{"Region": "eu"}, true},
		{"equal, encoded", object{"region": "é"}, map[string]string{"Region": "=?base64?w6k=?="}, true},
		{"white space around", object{"region": "eu"}, map[string]string{"Region": "  eu\t"}, true},
		{"empty", object{"region": ""}, map[string]string{"Region": ""}, true},
		{"header missing", object{"region": "eu"}, nil, false},
		{"header different", object{"region": "eu"}, map[string]string{"Region": "us"}, false},
		{"other case", object{"region": "eu"}, map[string]string{"Region": "EU"}, false},
		{"bad base64", object{"region": "eu"}, map[string]string{"Region": "=?base64?ZXU?="}, false},
		{"argument missing", object{}, map[string]string{"Region": "eu"}, false},
		{"integer", object{"level": 42}, map[string]string{"Level": "42"}, true},
		{"integer with a fraction of zero", object{"level": 42}, map[string]string{"Level": "42.0"}, true},
		{"integer with an exponent", object{"level": 42}, map[string]string{"Level": "4.2e1"}, true},
		{"negative integer", object{"level": -7}, map[string]string{"Level": "-7"}, true},
		{"the largest integer", object{"level": int64(1<<53 - 1)}, map[string]string{"Level": "9007199254740991"}, true},
		{"beyond the largest", object{"level": int64(1 << 53)}, map[string]string{"Level": "9007199254740992"}, false},
		{"another integer", object{"level": 42}, map[string]string{"Level": "43"}, false},
		{"a fraction", object{"level": 42}, map[string]string{"Level": "42.5"}, false},
		{"hexadecimal", object{"level": 42}, map[string]string{"Level": "0x2a"}, false},
		{"a plus", object{"level": 42}, map[string]string{"Level": "+42"}, false},
		{"a huge exponent", object{"level": 42}, map[string]string{"Level": "1e999999999"}, false},
		{"not a number", object{"level": 42}, map[string]string{"Level": "NaN"}, false},
		{"boolean", object{"dry": true}, map[string]string{"Dry": "true"}, true},
		{"boolean, other case", object{"dry": true}, map[string]string{"Dry": "True"}, false},
		{"boolean, other value", object{"dry": true}, map[string]string{"Dry": "false"}, false},
		{"nested", object{"nested": object{"zone": "a"}}, map[string]string{"Zone": "a"}, true},
		{"nested, missing", object{"nested": object{"zone": "a"}}, nil, false},
		{"nested, nothing there", object{"nested": object{}}, nil, true},
		{"nested, parent absent", object{}, map[string]string{"Zone": "a"}, false},
		{"nested, parent not an object", object{"nested": "a"}, map[string]string{"Zone": "a"}, false},
		{"null with a header", object{"region": nil}, map[string]string{"Region": "null"}, false},
		{"a list with a header", object{"region": []string{"eu"}}, map[string]string{"Region": "eu"}, false},
		{"other headers do not matter", object{}, map[string]string{"Color": "red"}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			q := callTool("headers", test.args)
			for name, v := range test.header {
				q.header["Mcp-Param-"+name] = []string{v}
			}
			got := r.send(q)
			assert.Equal(t, test.ok, got.status == 200, got.raw)
			if !test.ok {
				assert.Equal(t, -32020, got.code())
			}
		})
	}
	t.Run("null without a header", func(t *testing.T) {
		// The headers fit; the argument does not fit the schema, which is the
		// tool's answer.
		got := r.send(callTool("headers", object{"region": nil}))
		assert.True(t, got.result(t).IsError)
	})
	t.Run("a header twice", func(t *testing.T) {
		q := callTool("headers", object{"region": "eu"})
		q.header["Mcp-Param-Region"] = []string{"eu", "eu"}
		assert.Equal(t, -32020, r.send(q).code())
	})
	t.Run("the list shows the annotation", func(t *testing.T) {
		assert.Contains(t, r.send(modernRequest("tools/list", nil)).raw, `"x-mcp-header":"Region"`)
	})
}

// An annotation that clients would refuse is found when the server is made.
func TestParamHeaderAnnotations(t *testing.T) {
	tests := []struct{ name, schema, problem string }{
		{"string", `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}`, ""},
		{"a property of that name", `{"type":"object","properties":{"x-mcp-header":{"type":"number"}}}`, ""},
		{"within a value", `{"type":"object","properties":{"a":{"type":"object","default":{"x-mcp-header":7}}}}`, ""},
		{"number", `{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"A"}}}`, "type must be"},
		{"no type", `{"type":"object","properties":{"a":{"x-mcp-header":"A"}}}`, "type must be"},
		{"two types", `{"type":"object","properties":{"a":{"type":["string","null"],"x-mcp-header":"A"}}}`, "type must be"},
		{"empty", `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":""}}}`, "name of a header"},
		{"not a token", `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A B"}}}`, "name of a header"},
		{"not a string", `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":7}}}`, "name of a header"},
		{"twice", `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`, "two properties"},
		{"at the root", `{"type":"object","x-mcp-header":"A"}`, "allowed on properties"},
		{"in items", `{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}}`, "allowed on properties"},
		{"in a choice", `{"type":"object","anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}`, "allowed on properties"},
		{"in a definition", `{"type":"object","$defs":{"d":{"type":"string","x-mcp-header":"A"}}}`, "allowed on properties"},
		{"in a condition", `{"type":"object","if":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}`, "allowed on properties"},
		{"in further properties", `{"type":"object","additionalProperties":{"type":"string","x-mcp-header":"A"}}`, "allowed on properties"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := saga.Machine[map[string]any, none]{Info: saga.Info{Name: "annotated", RawInputSchema: []byte(test.schema)}}
			m.Start = func(t *saga.Turn[map[string]any, none]) (saga.Next, error) { return t.Textf("x") }
			_, err := server.New(server.Options{Keys: newKeys(t), Tools: []saga.Definition{m}})
			if test.problem == "" {
				require.NoError(t, err)
				return
			}
			var definition *saga.DefinitionError
			require.ErrorAs(t, err, &definition)
			assert.Equal(t, "annotated", definition.Tool)
			assert.ErrorContains(t, err, test.problem)
		})
	}
}
