package program

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSelfCommand(t *testing.T) {
	hash := strings.Repeat("0a", 32)
	run := "/tmp/go-build123/b001/exe/saga"
	for name, c := range map[string]struct {
		arg0, version, want string
	}{
		"from PATH":                {arg0: "saga", want: "saga"},
		"a path":                   {arg0: "./bin/saga", want: "./bin/saga"},
		"a path with a space":      {arg0: "/home/me/my tools/saga", want: "'/home/me/my tools/saga'"},
		"go run in a clone":        {arg0: run, version: "(devel)", want: "go run example.com/m/cmd/saga"},
		"go run from the cache":    {arg0: "/home/me/.cache/go-build/0a/" + hash + "-d/saga", want: "go run example.com/m/cmd/saga"},
		"a cache of another name":  {arg0: "/var/c/0a/" + hash + "-d/saga", want: "/var/c/0a/" + hash + "-d/saga"},
		"go run of a version":      {arg0: run, version: "v1.2.3", want: "go run example.com/m/cmd/saga@v1.2.3"},
		"go run of a working tree": {arg0: run, version: "v1.2.3-0.20260101+dirty", want: "go run example.com/m/cmd/saga"},
		"a binary in a clone":      {arg0: "./saga", want: "./saga"},
		"a directory like a cache": {arg0: "/home/me/0a/" + hash + "-d/saga", want: "/home/me/0a/" + hash + "-d/saga"},
		"a test's binary":          {arg0: "/tmp/go-build123/b001/saga.test", want: "/tmp/go-build123/b001/saga.test"},
	} {
		info := &debug.BuildInfo{Path: "example.com/m/cmd/saga", Main: debug.Module{Path: "example.com/m", Version: c.version}}
		assert.Equal(t, c.want, selfCommandOf(c.arg0, info), name)
	}
	assert.NotEmpty(t, selfCommand("saga"))
}

func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"plain/path.json": "plain/path.json", "": "''", "it's": `'it'\''s'`, "a b": "'a b'", "$(x)": "'$(x)'", "a;b": "'a;b'",
	} {
		assert.Equal(t, want, quote(word))
	}
}
