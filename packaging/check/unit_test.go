package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unit has systemd-analyze look at packaging/saga.service, with something replaced.
func unit(t *testing.T, command []string, change ...string) (string, error) {
	t.Helper()
	analyze := need(t, "systemd-analyze")
	text, err := os.ReadFile("../saga.service")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "saga.service")
	change = append(change, "/usr/bin/saga ", "/bin/true ") // it is not installed here
	require.NoError(t, os.WriteFile(path, []byte(strings.NewReplacer(change...).Replace(string(text))), 0o600))
	said, err := exec.CommandContext(t.Context(), analyze, append(command, path)...).CombinedOutput()
	return string(said), err
}

func TestUnit(t *testing.T) {
	said, err := unit(t, []string{"verify", "--man=no"})
	require.NoError(t, err, said)
	assert.Empty(t, said)
	for right, wrong := range map[string]string{"TimeoutStopSec=": "TimeoutStopSecs=", "ProtectSystem=strict": "ProtectSystem=strictly", "[Service]": "[Servise]"} {
		said, _ := unit(t, []string{"verify", "--man=no"}, right, wrong)
		assert.NotEmpty(t, said, wrong)
	}
}

// How much of the system a server that is taken over can reach: 0 is nothing, 10 everything.
func TestUnitIsConfined(t *testing.T) {
	said, err := unit(t, []string{"security", "--offline=yes", "--no-pager"})
	require.NoError(t, err, said)
	level := regexp.MustCompile(`Overall exposure level for saga.service: ([\d.]+)`).FindStringSubmatch(said)
	require.NotNil(t, level, said)
	exposure, err := strconv.ParseFloat(level[1], 64)
	require.NoError(t, err)
	assert.LessOrEqual(t, exposure, 1.3)
}
