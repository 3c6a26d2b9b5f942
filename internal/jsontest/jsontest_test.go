package jsontest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/internal/jsontest"
)

func TestPaths(t *testing.T) {
	const doc = ` {"a": {"b.c": [1, {"d": "\u0065"}]}, "n": null, "t": true, "": 2} `
	for path, want := range map[string]string{
		`a.b\.c.0`: "1", `a.b\.c.1.d`: "e", `a.b\.c.2`: "", `a.b\.c.x`: "", `a.b`: "", `n`: "", `n.x`: "", `t`: "true", ``: "2",
		`a.b\.c.1`: `{"d": "\u0065"}`,
	} {
		assert.Equal(t, want, jsontest.Get(doc, path).String(), path)
	}
	assert.Equal(t, `"\u0065"`, jsontest.Get(doc, `a.b\.c.1.d`).Raw)
	assert.Equal(t, int64(1), jsontest.Get([]byte(doc), `a.b\.c.0`).Int())
	assert.True(t, jsontest.Get(doc, "t").Bool())
	assert.False(t, jsontest.Get(doc, "n").Bool())
	assert.True(t, jsontest.Get(doc, "n").Exists())
	assert.False(t, jsontest.Get(doc, "x").Exists())
	assert.True(t, jsontest.Get(doc, "a").IsObject())
	assert.True(t, jsontest.Get(doc, `a.b\.c`).IsArray())
	assert.Len(t, jsontest.Get(doc, `a.b\.c`).Array(), 2)
	assert.Len(t, jsontest.Get(doc, "t").Array(), 1)
	assert.Empty(t, jsontest.Get(doc, "x").Array())
	names := ""
	for name, v := range jsontest.Parse(doc).Members() {
		if names += name + v.Raw[:1]; name == "n" {
			break
		}
	}
	assert.Equal(t, `a{nn`, names)
	for range jsontest.Get(doc, `a.b\.c`).Members() {
		assert.Fail(t, "an array has no members")
	}
	assert.Equal(t, "1", jsontest.Get(doc, `a.b\.c`).Array()[0].Raw)
}

// A path leads nowhere in what is not JSON, so that a test does not pass with that.
func TestNothingIsReadOfBrokenJSON(t *testing.T) {
	for _, broken := range []string{`{"a":{"b":"x"`, `{"a":{"b":"x"}`, `{"z":tru,"a":{"b":"x"}}`, `{"z":[1,{]},"a":{"b":"x"}}`, `{"a":{"b":"x"}}}`} {
		assert.False(t, jsontest.Get(broken, "a.b").Exists(), broken)
	}
}
