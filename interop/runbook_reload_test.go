package interop

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// SIGHUP has a server take the level of its log from the file again, and name what else has changed. A file that is wrong changes
// nothing, and what the environment says stays.
func TestRunbookSettingsAreLoadedAgain(t *testing.T) {
	t.Parallel()
	s := newFleet(t, ledgers["SQLite"](t))
	settings := s.file("settings.yaml", "log-level: info\ntoken-ttl: 5m\n")
	a := s.serve("--config", settings)
	s.env = append(s.env, "RUNBOOK_LOG_LEVEL=info")
	b := s.serve("--config", settings)
	again := func(p *served, text, says string) {
		t.Helper()
		s.file("settings.yaml", text)
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGHUP))
		p.says(says)
	}
	again(a, "log-level: loud\n", `cannot load the settings again, keeping those there are" error="slog: level string`)
	again(a, "log-lvel: debug\n", `there is no setting`)
	again(a, "log-level: warn\ntoken-ttl: xyz\n", `settings.yaml, line 2: token-ttl: .*xyz`)
	again(a, "log-level: warn\nlease: 1ms\n", `lease: it must be 1s at least`)
	again(a, "log-level: warn\nskills: perhaps\n", `line 2: skills: `)
	again(a, "log-level: warn\ntool-rate: [order=5/m, order_task=x]\n", `line 2: tool-rate: of \\\"order_task\\\"`)
	assert.NotContains(t, a.said(), "from the next start on", "nothing counts of a file that is wrong")
	again(a, "log-level: warn\ntool-rate: [order=5/m, order_task=6/m]\nallow-host: []\n", `next start on" settings="\[token-ttl tool-rate\]"`)
	again(a, "log-level: warn\ntoken-ttl: 5m\nlease: 11s\n", `which count from the next start on" settings=\[lease\]`)
	assert.NotContains(t, a.said(), "settings loaded again", "it warns only")
	again(a, "log-level: info\ntoken-ttl: 9m\naudience: other\n", `next start on" settings="\[audience token-ttl\]"`)
	assert.Contains(t, a.said(), `"settings loaded again" log-level=INFO`)
	again(b, "log-level: error\n", `"settings loaded again" log-level=INFO`)
}
