package jsonview

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// surely is what Valid finds out by itself.
func surely(v string) bool {
	valid, _ := isPlain([]byte(v))
	return valid
}

func TestValidRecognises(t *testing.T) {
	for _, v := range []string{
		`{}`, ` [ ] `, `""`, `0`, `-12`, `null`, "{\"a\" : [true,false , null]\t,\n\"b\":{\"a\":\"\"}}", `"12345678\"\\\/\b\f\n\r\t"`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"grüße","arguments":{"n":[1,-2,{"x":"y"}]}}}`,
	} {
		assert.True(t, surely(v), v)
		assert.True(t, Valid([]byte(v)), v)
	}
}

func TestValidLeavesToTheLibrary(t *testing.T) {
	for v, want := range map[string]bool{
		`1.5`: true, `-0`: true, `1e3`: true, `"\u00e9"`: true, `{"\u0061":1}`: true, `"\ud83d\ude00"`: true,
		`{"\u0061":1,"a":2}`: false, `{"a":1,"a":1}`: false, `{"a":{"b":1,"c":2,"b":3}}`: false, `"\ud83d"`: false,
		``: false, ` `: false, `{`: false, `{"a"`: false, `{"a":`: false, `{"a":1`: false, `{"a":1,`: false, `{"a":1,}`: false, `{,}`: false,
		`[1,]`: false, `[,1]`: false, `[1 2]`: false, `[1}`: false, `{"a":1]`: false, `{a:1}`: false, `01`: false, `-`: false, `1-`: false, `+1`: false, `tru`: false,
		`truex`: false, `nul`: false, `{} {}`: false, `"a`: false, `"\`: false, `"\x"`: false, "\"\x01\"": false, "\"a\nb\"": false, "\"\xff\"": false,
		`"123456789` + "\x1f" + `bcdefgh"`: false, strings.Repeat("[", 99) + strings.Repeat("]", 99): true,
	} {
		assert.Equal(t, want, Valid([]byte(v)), v)
		assert.Equal(t, want, jsontext.Value(v).IsValid(), v)
	}
	many := `{"a":1`
	for i := range 40 {
		many += `,"` + strings.Repeat("b", i+1) + `":1`
	}
	assert.True(t, Valid([]byte(many+`}`)))
	assert.False(t, Valid([]byte(many+`,"bb":1}`)))
}

// FuzzValid compares with the library.
func FuzzValid(f *testing.F) {
	for _, s := range classes {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		require.Equal(t, jsontext.Value(raw).IsValid(), Valid(raw))
	})
}

// BenchmarkValid is a message of the middle of a saga.
func BenchmarkValid(b *testing.B) {
	message := []byte(`{"jsonrpc":"2.0","id":2,"method":"tools/resumeSaga","params":{"sagaToken":"` + strings.Repeat("token", 55) +
		`","completedSteps":[{"stepId":"step-elicitation-A","result":{"action":"accept","content":{"target":"production"}}}]}}`)
	for name, f := range map[string]func() bool{
		"jsonview": func() bool { return Valid(message) },
		"jsontext": func() bool { return jsontext.Value(message).IsValid() },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(message)))
			for b.Loop() {
				if !f() {
					b.Fatal("not valid")
				}
			}
		})
	}
}
