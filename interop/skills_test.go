package interop

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// TestSkillsOfTheTypeScriptSDK has the official SDK list, read and verify the manuals of tools.
func TestSkillsOfTheTypeScriptSDK(t *testing.T) {
	t.Parallel()
	url := appServer(t, server.Options{Skills: true, Tools: []saga.Definition{complextool.Tool}})
	for mode, protocol := range map[string]string{`{"pin":"2026-07-28"}`: "2026-07-28", `"legacy"`: "2025-11-25"} {
		spec, err := json.Marshal(map[string]any{"url": url, "mode": json.RawMessage(mode)})
		require.NoError(t, err)
		cmd := needNode(t).command("skills.mjs", string(spec))
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		raw, err := cmd.Output()
		require.NoError(t, err, "%s", &stderr)
		var got struct {
			Supported bool
			Protocol  string
			Found     map[string]string
		}
		require.NoError(t, json.Unmarshal(raw, &got))
		assert.True(t, got.Supported)
		assert.Equal(t, protocol, got.Protocol)
		assert.Contains(t, got.Found["complex-tool"], "How to use the tool", "%s", raw)
	}
}

// TestConformanceOfSkills runs what the official suite has for skills.
func TestConformanceOfSkills(t *testing.T) {
	t.Parallel()
	node := needNode(t)
	url := appServer(t, server.Options{Skills: true, Tools: []saga.Definition{complextool.Tool}})
	for scenario, most := range map[string]int{"sep-2640-skills-enumeration": 32, "sep-2640-skills-manifest": 6} {
		t.Run(scenario, func(t *testing.T) {
			dir := t.TempDir()
			out, err := node.command(suite, "server", "--url", url, "--scenario", scenario, "--output-dir", dir).CombinedOutput()
			require.NoError(t, err, "%s", out)
			checks := readResults(t, dir)[scenario]
			assert.Len(t, checks, most, "the suite itself has changed")
			for _, c := range checks {
				assert.Equal(t, "SUCCESS", c.Status, "%s %s: %s", c.ID, c.Description, c.ErrorMessage)
			}
		})
	}
}
