package doccheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The forge's jobs run where .ci/debian finds all its packages, and actions of others are those that
// were looked at: a tag can be moved.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".github/workflows/*.yml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text := read(t, ".github/workflows/"+filepath.Base(file))
		assert.Regexp(t, `(?m)^ {4}container:\n {6}image: golang:1\.\d+-bookworm$`, text, file)
		for _, uses := range regexp.MustCompile(`(?m)uses: (.*)$`).FindAllStringSubmatch(text, -1) {
			assert.Regexp(t, `^[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`, uses[1], file)
		}
	}
}

// What Debian, or a system like it, does not have keeps nothing else away, and is named.
func TestDebianInstallsWhatItCan(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	dir := t.TempDir()
	for name, script := range map[string]string{
		"dpkg-query": `for p; do :; done; [ -e "$STATE/$p" ] && echo -n installed`,
		// All or nothing, and no chromium.
		"apt-get": `case "$*" in *" install "*) ;; *) exit 0 ;; esac
case "$*" in *chromium*) echo "E: Package 'chromium' has no installation candidate" >&2; exit 100 ;; esac
for p; do case "$p" in [a-z]*) touch "$STATE/$p" ;; esac; done`,
		"sudo": `exec "$@"`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!"+bash+"\n"+script+"\n"), 0o755))
	}
	state := t.TempDir()
	cmd := exec.Command(bash, filepath.Join(root, ".ci/debian"))
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "STATE="+state)
	said, err := cmd.CombinedOutput()
	assert.Error(t, err, "%s", said)
	assert.Contains(t, string(said), "not installed: chromium (")
	assert.FileExists(t, filepath.Join(state, "postgresql"))
	assert.FileExists(t, filepath.Join(state, "caddy"))
}
