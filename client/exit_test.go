//go:build unix

package client_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
)

// A shell that finds no command, or may not run it, is not started again: it would say the same.
func TestCommandsThatCannotRunAreStartedOnce(t *testing.T) {
	t.Parallel()
	for _, code := range []int{126, 127} {
		marks := filepath.Join(t.TempDir(), "marks")
		c := client.New(&client.Stdio{Command: "sh", Args: []string{"-c", fmt.Sprintf("echo started >> %s; read line; exit %d", marks, code)}}, client.Options{})
		_, err := c.Call(t.Context(), "tool", nil, client.Handlers{})
		require.Error(t, err)
		assert.Contains(t, err.Error(), fmt.Sprintf("exit status %d", code))
		require.NoError(t, c.Close())
		started, err := os.ReadFile(marks)
		require.NoError(t, err)
		assert.Equal(t, 1, strings.Count(string(started), "started"), code)
	}
}
