package program

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The address comes from a server: the browser gets it as it is, and no shell sees it.
func TestBrowsersAreOpened(t *testing.T) {
	dir := t.TempDir()
	opened := filepath.Join(dir, "opened")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "xdg-open"), []byte("#!/bin/sh\nprintf '%s' \"$*\" >"+opened+".new && mv "+opened+".new "+opened), 0o700))
	t.Setenv("PATH", dir+":/bin:/usr/bin")
	at := "https://login.example.com/auth?state=x&scope=a+b;$(id)"
	openBrowser(at)
	assert.EventuallyWithT(t, func(c *assert.CollectT) {
		got, _ := os.ReadFile(opened)
		assert.Equal(c, at, string(got))
	}, 10*time.Second, 20*time.Millisecond)
}
