package arguments

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const inputSchema = `{"type":"object","additionalProperties":false,"properties":{
	"s":{"type":"string"},"i":{"type":"integer"},"n":{"type":["number","null"]},"b":{"type":"boolean"},
	"l":{"type":"array","items":{"type":"integer"}},"o":{"type":"object"},"any":{},"either":{"type":["string","integer"]}}}`

func TestParse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path, []byte("from a file"), 0o600))
	for line, want := range map[string]string{
		"":                         `{}`,
		"s=5 i=5 n=0.5 b=true":     `{"s":"5","i":5,"n":0.5,"b":true}`,
		"s=a=b":                    `{"s":"a=b"}`,
		"s=":                       `{"s":""}`,
		"l=1":                      `{"l":[1]}`,
		"l=1 l=2":                  `{"l":[1,2]}`,
		"l=[3,4]":                  `{"l":[3,4]}`,
		"l:=[5]":                   `{"l":[5]}`,
		`o={"x":1} any:={"y":[2]}`: `{"o":{"x":1},"any":{"y":[2]}}`,
		"any=text either=7":        `{"any":"text","either":"7"}`,
		"any=1 any=2":              `{"any":["1","2"]}`,
		"s=@" + path:               `{"s":"from a file"}`,
	} {
		got, err := Parse(nil, strings.Fields(line), json.RawMessage(inputSchema))
		require.NoError(t, err, line)
		data, err := json.Marshal(got)
		require.NoError(t, err)
		assert.JSONEq(t, want, string(data), line)
	}
	for _, line := range []string{"word", "=x", "unknown=1", "i=x", "i=1.5", "n=inf", "b=yes", "o=[", "l=x", "any:={", "s=1 s=2", "s=@/does/not/exist"} {
		_, err := Parse(nil, strings.Fields(line), json.RawMessage(inputSchema))
		require.Error(t, err, line)
	}
	got, err := Parse(map[string]any{"s": "old", "i": 1}, []string{"s=new"}, nil)
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"s": "new", "i": 1}, got)
}

// Schemas have more than one way to say that a value may be missing, or anything.
func TestParseWhatMayBeNull(t *testing.T) {
	const schema = `{"type":"object","properties":{"any":true,"none":false,"list":{"type":"array","items":true},
		"i":{"anyOf":[{"type":"integer"},{"type":"null"}],"default":null},"b":{"oneOf":[{"type":"null"},{"type":"boolean"}]},
		"l":{"anyOf":[{"type":"array","items":{"anyOf":[{"type":"number"},{"type":"null"}]}},{"type":"null"}]},
		"either":{"anyOf":[{"type":"integer"},{"type":"string"},{"type":"null"}]},"both":{"anyOf":[{"type":"integer"},true]},
		"deep":{"anyOf":[{"anyOf":[{"type":"integer"}]},{"type":["null"]}]},"nothing":{"anyOf":[{"type":"null"}]},"n":{"type":"number"}}}`
	for line, want := range map[string]string{
		"n=5 any=5 i=5 b=true":   `{"n":5,"any":"5","i":5,"b":true}`,
		"l=1 list=1":             `{"l":[1],"list":["1"]}`,
		"l=1 l=2":                `{"l":[1,2]}`,
		"l=[3,null]":             `{"l":[3,null]}`,
		"either=7 both=7 deep=7": `{"either":"7","both":"7","deep":7}`,
		"i:=null nothing:=null":  `{"i":null,"nothing":null}`,
		"none=x nothing=x":       `{"none":"x","nothing":"x"}`, // for the server to refuse
	} {
		got, err := Parse(nil, strings.Fields(line), json.RawMessage(schema))
		require.NoError(t, err, line)
		data, err := json.Marshal(got)
		require.NoError(t, err)
		assert.JSONEq(t, want, string(data), line)
	}
	for _, line := range []string{"i=x", "i=1.5", "b=1", "l=x", "deep=x", "i=1 i=2"} {
		_, err := Parse(nil, strings.Fields(line), json.RawMessage(schema))
		require.Error(t, err, line)
	}
	got, err := Parse(nil, []string{"a=1"}, json.RawMessage("true"))
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"a": "1"}, got)
}

// What JSON cannot hold is not changed without a word.
func TestParseRefusesWhatIsNotUTF8(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "latin.txt")
	require.NoError(t, os.WriteFile(path, []byte("Gr\xfc\xdfe"), 0o600))
	for _, word := range []string{"a=@" + path, "a=Gr\xfc\xdfe", "a:=\"\xfc\"", "\xfc=a"} {
		_, err := Parse(nil, []string{word}, nil)
		require.ErrorContains(t, err, "UTF-8", word)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("l=1", "o:={}", inputSchema)
	f.Add("a=1", "a=2", `{"properties":{"a":null},"additionalProperties":false}`)
	f.Add("a=1", "b=true", `{"properties":{"a":{"anyOf":[{"type":"integer"},{"type":"null"}]},"b":true}}`)
	f.Fuzz(func(t *testing.T, one, two, schema string) {
		if strings.Contains(one+two, "=@") {
			return
		}
		if got, err := Parse(nil, []string{one, two}, json.RawMessage(schema)); err == nil {
			_, err := json.Marshal(got)
			require.NoError(t, err)
		}
	})
}
