package check

import (
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// output runs a command that must succeed, and returns what it prints.
func output(t *testing.T, command string, arguments ...string) string {
	t.Helper()
	var stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), command, arguments...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s %v: %s%s", command, arguments, out, stderr.String())
	return string(out)
}

// release makes a release of this commit with some settings, and returns its directory.
func release(t *testing.T, version string, settings ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "dist")
	cmd := exec.CommandContext(t.Context(), "../release", version, dir)
	cmd.Env = append(os.Environ(), settings...)
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", said)
	return dir
}

func read(t *testing.T, elements ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(elements...))
	require.NoError(t, err)
	return string(text)
}

// program unpacks an archive of a release, and returns the program in it.
func program(t *testing.T, dir, version, platform string) string {
	t.Helper()
	to := t.TempDir()
	output(t, "tar", "xzf", filepath.Join(dir, "saga_"+version+"_"+platform+".tar.gz"), "-C", to)
	assert.FileExists(t, filepath.Join(to, "LICENSE"))
	return filepath.Join(to, "saga")
}

// What a release has for this machine: a program that needs nothing of the system and says which version it is, and the list
// of what it was made of.
func TestRelease(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("releases are made on Linux")
	}
	dir := release(t, "v1.2.3-test", "PLATFORMS=linux/"+runtime.GOARCH, "SKIP=packages image bundle")
	saga := program(t, dir, "1.2.3-test", "linux_"+runtime.GOARCH)
	assert.Equal(t, "saga version v1.2.3-test\n", output(t, saga, "--version"))
	about := output(t, saga, "version")
	assert.Regexp(t, `(?m)^saga +v1\.2\.3-test$`, about)
	assert.NotContains(t, about, "(devel)")
	assert.NotContains(t, read(t, saga), filepath.Dir(must(t)(filepath.Abs(".."))), "where it was built")

	file, err := elf.Open(saga)
	require.NoError(t, err)
	defer file.Close()
	for _, p := range file.Progs {
		assert.NotEqual(t, elf.PT_INTERP, p.Type, "it would need a C library")
	}
	var bom struct {
		Metadata   struct{ Component struct{ Version string } }
		Components []struct{ Name, Version string }
	}
	text := read(t, dir, "saga_1.2.3-test_linux_"+runtime.GOARCH+".cdx.json")
	assert.NotContains(t, text, "(devel)")
	require.NoError(t, json.Unmarshal([]byte(text), &bom))
	assert.Equal(t, "v1.2.3-test", bom.Metadata.Component.Version)
	assert.Greater(t, len(bom.Components), 40)
	assert.Contains(t, output(t, "sh", "-c", "cd "+dir+" && sha256sum --check checksums.txt"), ".tar.gz: OK")
}

// A release that would be of no version, or among other files, is refused before anything is made.
func TestReleaseRefuses(t *testing.T) {
	for _, arguments := range [][]string{{"1.2.3", t.TempDir()}, {"v1.2", t.TempDir()}, {"v1.2.3", "."}, {}} {
		assert.Error(t, exec.CommandContext(t.Context(), "../release", arguments...).Run(), arguments)
	}
}

func must(t *testing.T) func(string, error) string {
	return func(s string, err error) string {
		require.NoError(t, err)
		return s
	}
}
