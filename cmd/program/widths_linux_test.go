package program

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What is written in rows, and all help, fits the terminal, and breaks no word that does.
func TestOutputFitsTheTerminal(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.ok("keys", "new", "--keyset", "k.json")
	words := strings.Repeat("Which of the directories of the repository matter-most to you? ", 3)
	server := hostile(t, map[string]any{
		"tools/list": object{"tools": []object{
			{"name": "release_notes", "description": words, "inputSchema": object{"properties": object{"repository": object{}, "from": object{}}}},
			{"name": "x", "description": "Short."},
		}},
		"tasks/get": object{"resultType": "task", "taskId": "t", "status": "working", "statusMessage": words, "createdAt": "2026-07-28T15:00:00Z", "ttlMs": 1e12},
	})
	calls := filepath.Join(h.dir, "state", "saga", "calls")
	require.NoError(t, os.MkdirAll(calls, 0o700))
	for _, name := range []string{"20260728-150000-ABCDEF", "20260728-150000-GHIJKL"} {
		saved, err := json.Marshal(object{"url": server, "position": object{"version": 1, "dialect": "mcp-2026-07-28", "tool": "repo_report", "task": "t", "round": 1}})
		require.NoError(t, err)
		path, old := filepath.Join(calls, name+".json"), time.Now().Add(-60*time.Hour) // its age does not change meanwhile
		require.NoError(t, os.WriteFile(path, saved, 0o600))
		require.NoError(t, os.Chtimes(path, old, old))
	}
	commands := []string{"tools --server " + server, "tasks", "calls", "version", "keys list --keyset k.json"}
	for _, help := range []string{"", "serve", "call", "tasks answer"} {
		commands = append(commands, strings.TrimSpace(help+" --help"))
	}
	for _, command := range commands {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			wide, _, _ := h.run(strings.Fields(command)...)
			columns := []int{40, 60, 80, 100, 185}
			if strings.HasSuffix(command, "--help") {
				columns = []int{40, 80, 185}
			}
			for _, columns := range columns {
				cmd := h.command(strings.Fields(command)...)
				person := inTerminal(t, cmd, uint16(columns), true)
				_ = cmd.Wait()
				shown := regexp.MustCompile(`\x1b\[[0-9;?]*[a-zA-Z]|\r`).ReplaceAllString(person.end(), "")
				require.NotEmpty(t, strings.TrimSpace(wide))
				for line := range strings.Lines(shown) {
					assert.LessOrEqual(t, ansi.StringWidth(strings.TrimRight(line, "\n")), columns, "%q", line)
				}
				parts := map[string]bool{}
				for _, part := range strings.Fields(shown) {
					parts[part] = true
				}
				for _, word := range strings.Fields(wide) {
					assert.True(t, len(word) > columns/2 || parts[word], "%d columns break or lose %q:\n%s", columns, word, shown)
				}
			}
		})
	}
}
