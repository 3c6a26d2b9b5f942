package jsonview

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// isCanonical is what Canonical finds out by itself.
func isCanonical(v []byte) bool {
	valid, canonical := isPlain(v)
	return valid && canonical
}

func TestIsCanonical(t *testing.T) {
	for _, v := range []string{`{}`, `[]`, `""`, `0`, `12`, `null`, `{"action":"accept","content":{"n":1,"o":["ü",true]}}`, `[[],{}]`, `{"ü":1}`, `{"a":1,"aü":2,"b":3}`} {
		assert.True(t, isCanonical([]byte(v)), v)
	}
	for _, v := range []string{
		``, ` {}`, `{} `, `{ }`, `[ ]`, `[1, 2]`, `{"a":1 }`, `{"a": 1}`, `{"b":1,"a":2}`, `{"\u0061":1}`, `{"a":"\u0061"}`,
		`{"a":"\/"}`, `-0`, `1.0`, `1e3`, `12345678901234567`, `-1`, `{"ab":1,"a":2}`, `{"a":1,"ü":2}`, `{"\u0061":1}`, `{"a\tb":1}`,
		`"`, `"a`, `"a"b"`, `[ []`, "\"\xff\"", `{`, `{"a":1`, `{"a":1,}`, `{"a":1]`, `{"a" 1}`, `{"a":}`, `[1,]`, `[1}`, `[1 2]`, `tru`, `nul`, `01`, `x`, `{"a":1,"a":2}`,
	} {
		assert.False(t, isCanonical([]byte(v)), v)
	}
}

// FuzzCanonical compares with the library.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`{"a":1,"b":[true,"x"]}`, `{"b":{"c":null},"a":-0}`, `[1.50,"\u00e9",{"":{}}]`, `{"a":1,"a\u0000":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		want := append(jsontext.Value(nil), raw...)
		fault := want.Canonicalize()
		got, err := Canonical(raw)
		require.Equal(t, fault, err)
		if err == nil {
			require.Equal(t, string(want), string(got))
		}
	})
}
