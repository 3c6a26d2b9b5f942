package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func play(t *testing.T, events ...string) (r *report, said string, complete bool) {
	t.Helper()
	var out bytes.Buffer
	r = newReport(&out)
	require.NoError(t, r.read(strings.NewReader(strings.Join(events, "\n"))))
	complete = r.close()
	return r, out.String(), complete
}

// What was left out is said once for each reason, and that the repository has a way to it.
func TestSkippedTestsAreNamed(t *testing.T) {
	skip := func(test, why string) string {
		return `{"Action":"output","Package":"p","Test":"` + test + `","Output":"=== RUN   ` + test + `\n"}
{"Action":"output","Package":"p","Test":"` + test + `","Output":"    a_test.go:3: ` + why + `\n"}
{"Action":"output","Package":"p","Test":"` + test + `","Output":"--- SKIP: ` + test + ` (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"` + test + `"}`
	}
	const installs = "PostgreSQL is not installed; .ci/debian installs it"
	r, said, complete := play(t,
		skip("TestA", installs), skip("TestB", "only root can give files away"), skip("TestC", installs),
		`{"Action":"output","Package":"p","Test":"TestD","Output":"chatter\n"}`, `{"Action":"pass","Package":"p","Test":"TestD"}`,
		`{"Action":"output","Package":"p","Output":"PASS\n"}`, `{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}`, `{"Action":"pass","Package":"p"}`)
	assert.False(t, complete)
	assert.Zero(t, r.failed)
	assert.Equal(t, "ok  \tp\t0.1s\n\nLeft out:\n     2  "+installs+"\n     1  only root can give files away\n\n"+
		"To have them: .ci/debian and .ci/node install other people's programs, and SAGA_LONG=1 runs what takes long.\n\n1 passed, 0 failed, 3 skipped\n", said)

	_, said, complete = play(t, skip("TestB", "only root can give files away"))
	assert.True(t, complete, "no program brings it")
	assert.NotContains(t, said, "To have them")
}

// A failure is shown whole, also that of a test which did not come to its end.
func TestFailuresAreShown(t *testing.T) {
	r, said, _ := play(t,
		`{"Action":"build-output","ImportPath":"q","Output":"q.go:1: undefined: x\n"}`,
		`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:3: wrong\n"}`, `{"Action":"fail","Package":"p","Test":"TestA"}`,
		`{"Action":"output","Package":"p","Test":"TestB","Output":"panic: oh\n"}`, `{"Action":"fail","Package":"p"}`,
		`no event`)
	assert.Equal(t, 2, r.failed)
	assert.Equal(t, "q.go:1: undefined: x\n    a_test.go:3: wrong\npanic: oh\nno event\n0 passed, 2 failed, 0 skipped\n", said)
}

// All modules of a workspace are tested, and where a program is required it is a failure that a test
// went without it.
func TestWorkspace(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.work":  "go 1.26\n\nuse (\n\t./a\n\t./b\n)\n",
		"a/go.mod": "module a\n\ngo 1.26\n", "b/go.mod": "module b\n\ngo 1.26\n",
		"a/a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {}\n",
		"b/b_test.go": "package b\n\nimport \"testing\"\n\nfunc TestB(t *testing.T) { t.Skip(\"caddy is not installed\") }\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	t.Chdir(dir)
	t.Setenv("SAGA_REQUIRE_DEBIAN", "")
	t.Setenv("SAGA_REQUIRE_NODE", "")
	var out bytes.Buffer
	ok, err := run(t.Context(), &out, nil)
	require.NoError(t, err, out.String())
	assert.True(t, ok)
	assert.Contains(t, out.String(), "\n     1  caddy is not installed\n")
	assert.Contains(t, out.String(), "\n1 passed, 0 failed, 1 skipped\n")

	t.Setenv("SAGA_REQUIRE_DEBIAN", "1")
	ok, err = run(t.Context(), &out, nil)
	assert.False(t, ok)
	assert.EqualError(t, err, "nothing may be left out where SAGA_REQUIRE_DEBIAN or SAGA_REQUIRE_NODE is 1")

	require.NoError(t, os.WriteFile("a/a_test.go", []byte("package a\n\nnot Go\n"), 0o644))
	t.Setenv("SAGA_REQUIRE_DEBIAN", "")
	out.Reset()
	ok, err = run(t.Context(), &out, nil)
	assert.False(t, ok, err)
	assert.Contains(t, out.String(), "a_test.go:3")
}
