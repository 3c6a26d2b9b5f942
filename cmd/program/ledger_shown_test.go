package program

import (
	"bufio"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
)

// What is a call of a session is not called a task.
func TestLedgerTellsCallsFromTasks(t *testing.T) {
	t.Parallel()
	for want, w := range map[string]durable.Waiting{"task": {Task: true}, "call": {Call: true}, "": {}} {
		what, ok := driven(&w)
		assert.Equal(t, want != "", ok)
		if ok {
			assert.Equal(t, want, what)
		}
	}
}

// What is given up is due never, and what is late is due now.
func TestLedgerSaysWhatIsDue(t *testing.T) {
	t.Parallel()
	later := time.Now().Add(time.Hour)
	for want, at := range map[string]time.Time{
		"never": {},
		"now":   time.Now().Add(-time.Hour),
		later.Local().Format("2006-01-02 15:04:05"): later,
	} {
		assert.Equal(t, want, due(at))
	}
}

// What is mistyped may have a password, and is not shown.
func TestMistypedLedgersAreNotShown(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.ok("keys", "new", "--keyset", "k.json")
	for _, name := range []string{"POSTGRES://u:hunter2@db/x", " postgres://u:hunter2@db/x", "postgres:/u:hunter2@db/x", "host=db password=hunter2"} {
		stdout, stderr, code := h.run("serve", "--print-config", "--keyset", "k.json", "--ledger", name)
		assert.Equal(t, exitUsage, code)
		assert.Contains(t, stderr, "--ledger is none of")
		assert.NotContains(t, stdout+stderr, "hunter2", name)
	}
	for _, name := range []string{"off", "memory", "sqlite:/x.db"} {
		assert.Regexp(t, `(?m)^ledger: "?`+name+`"?  # command line$`, h.ok("serve", "--print-config", "--keyset", "k.json", "--ledger", name))
	}
}

// Whatever is wrong with a URL, its password is not shown.
func TestPasswordOfALedgerIsNotShown(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.ok("keys", "new", "--keyset", "k.json")
	const secret = "hunter2"
	for _, url := range []string{
		"postgres://saga:" + secret + "@127.0.0.1:1/x",
		"postgres://saga@127.0.0.1:1/x?password=" + secret,
		"postgres://saga:" + secret + "@127.0.0.1:not-a-port/x",
		"postgres://saga:" + secret + "%zz@127.0.0.1/x",
		"postgres://saga:" + secret + "@127.0.0.1:1/x?sslmode=perhaps",
		"postgre://saga:" + secret + "@127.0.0.1:1/x",
		"postgres:saga:" + secret + "@127.0.0.1:1/x",
	} {
		h.env = append(h.env, "SAGA_LEDGER="+url)
		for _, args := range [][]string{
			{"ledger", "--keyset", "k.json"}, {"ledger", "check", "--keyset", "k.json"}, {"ledger", "--help"}, {"serve", "--help"}, {"serve", "--log-level", "loud"},
			{"ledger", "--keyset", "k.json", "--output", "json"},
		} {
			stdout, stderr, _ := h.run(args...)
			assert.NotContains(t, stdout+stderr, secret, "%s %s", url, args)
		}
		cmd := h.command("stdio", "--keyset", "k.json", "--log-level", "debug")
		said, err := cmd.StderrPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines, text := bufio.NewScanner(said), ""
		for lines.Scan() {
			if text += lines.Text(); strings.Contains(lines.Text(), "is waited for") {
				_ = cmd.Process.Kill() // it would wait as long as there is no database
			}
		}
		_ = cmd.Wait()
		assert.NotEmpty(t, text)
		assert.NotContains(t, text, secret, url)
	}
}
