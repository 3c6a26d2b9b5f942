package jsonview_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

const sample = ` { "a" : 1 ,"b":"x\"}\\" , "\u0063\n":[1,{"d":"]"},[ ]],"e":{ },"f":null,"":-1.5e3,"g":true } `

func TestMembers(t *testing.T) {
	got := map[string]string{}
	for name, value := range jsonview.Members([]byte(sample)) {
		got[string(name)] = string(value)
	}
	assert.Equal(t, map[string]string{
		"a": "1", "b": `"x\"}\\"`, "c\n": `[1,{"d":"]"},[ ]]`, "e": "{ }", "f": "null", "": "-1.5e3", "g": "true",
	}, got)
}

func TestElements(t *testing.T) {
	var got []string
	for v := range jsonview.Elements([]byte(` [ 1, "a,]" ,[2],{"x":[3]} ,null ] `)) {
		got = append(got, string(v))
	}
	assert.Equal(t, []string{"1", `"a,]"`, "[2]", `{"x":[3]}`, "null"}, got)
	for _, none := range []string{"", "[]", "[ ]", "{}", "1", `"[1]"`} {
		for v := range jsonview.Elements([]byte(none)) {
			t.Errorf("%q has the element %q", none, v)
		}
	}
}

func TestPartsCannotGrowIntoTheRest(t *testing.T) {
	body := []byte(`{"a":1,"b":2}`)
	v := jsonview.Get(body, "a")
	_ = append(v, "999"...)
	assert.Equal(t, `{"a":1,"b":2}`, string(body))
	assert.Nil(t, jsonview.Get(body, "c"))
}

func TestString(t *testing.T) {
	for in, want := range map[string]string{`"a"`: "a", `""`: "", `"\u00e9\\"`: `é\`} {
		got, ok := jsonview.String([]byte(in))
		assert.True(t, ok)
		assert.Equal(t, want, got)
	}
	for _, in := range []string{"", "1", "null", "{}"} {
		_, ok := jsonview.String([]byte(in))
		assert.False(t, ok, in)
	}
}

func TestValidWithin(t *testing.T) {
	for _, depth := range []int{1, 2, 63, 64, 65, 100} { // beyond 64 levels the library looks
		v := []byte(strings.Repeat(`{"a":[`, depth/2) + strings.Repeat("[", depth%2) + strings.Repeat("]", depth%2) + strings.Repeat("]}", depth/2))
		for _, levels := range []int{depth - 1, depth, 256} {
			valid, within := jsonview.ValidWithin(v, levels)
			assert.True(t, valid, depth)
			assert.Equal(t, levels >= depth, within, "%d levels in %d", depth, levels)
		}
		valid, _ := jsonview.ValidWithin(v[1:], 256)
		assert.False(t, valid)
	}
}

func TestDeeper(t *testing.T) {
	for v, depth := range map[string]int{
		`1`: 0, `""`: 0, `[]`: 1, `{}`: 1, `[[],[],[]]`: 2, `{"a":[{"b":{}}],"c":[]}`: 4, `"[[[["`: 0, `["\"[[",[]]`: 2, `{"[":"{\\","{":[]}`: 2, ` [ [ ] ] `: 2,
	} {
		assert.False(t, jsonview.Deeper([]byte(v), depth), v)
		if depth > 0 {
			assert.True(t, jsonview.Deeper([]byte(v), depth-1), v)
		}
	}
	for _, v := range []string{"", "]", "]]]]", `"`, `["`, `"\`, "}{"} { // not JSON: it only must not fail
		jsonview.Deeper([]byte(v), 1)
	}
}

func TestFar(t *testing.T) {
	for v, far := range map[string]bool{
		"5e-324": true, "-1E+0100": true, "1e308": true, "2.5e-000000100": true, "1e99": false, "1e-00099": false, "true": false, "false": false, `"1e300"`: false, "12345": false,
	} {
		few := "[" + strings.Repeat(v+",", 9_999) + v
		assert.False(t, jsonview.Far([]byte(few+"]")), v)
		assert.Equal(t, far, jsonview.Far([]byte(few+","+v+"]")), v)
	}
	for _, v := range []string{"", "e", "1e", "1e-", `"`, "e1e"} { // not JSON: it only must not fail
		assert.False(t, jsonview.Far([]byte(v)))
	}
}

// FuzzAgrees compares with a decoder, and sees that nothing makes it fail.
func FuzzAgrees(f *testing.F) {
	for _, s := range []string{sample, `[1,"a",{"b":[]}]`, `{"a":{"b":"\\"}}`, `{"a`, `{"a":`, `["\`, `{"a":1}}`, `[[[`, `"\"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		members, elements := map[string]json.RawMessage{}, []json.RawMessage{}
		for name, v := range jsonview.Members(raw) {
			members[string(name)] = v
		}
		for v := range jsonview.Elements(raw) {
			elements = append(elements, v)
		}
		if !jsontext.Value(raw).IsValid() {
			return
		}
		switch jsontext.Value(raw).Kind() {
		case '{':
			var want map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(raw, &want))
			require.Equal(t, want, members)
		case '[':
			var want []json.RawMessage
			require.NoError(t, json.Unmarshal(raw, &want))
			require.Equal(t, want, elements)
		default:
			require.Empty(t, members)
			require.Empty(t, elements)
		}
	})
}
