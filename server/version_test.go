package server_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/buildtest"
)

// Clients see the version that a release says of itself.
func TestReleasesSayTheirVersion(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	file := filepath.Join(t.TempDir(), "serves")
	require.NoError(t, buildtest.Program(file, "./testdata/serves", "-ldflags=-s -w -X github.com/mcpsaga/mcpsaga/internal/buildinfo.version=v7.8.9"))
	cmd := exec.Command(file)
	cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}` + "\n")
	out, err := cmd.Output()
	require.NoError(t, err)
	assert.Contains(t, string(out), `"version":"v7.8.9"`)
}
