// Package e2e runs the built programs as their users do.
package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/buildtest"
)

// saga is the built command.
var saga string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "saga-e2e")
	if err != nil {
		panic(err)
	}
	saga = filepath.Join(dir, "saga")
	code := 1
	if err := buildtest.Program(saga, "github.com/mcpsaga/mcpsaga/cmd/saga", "-ldflags=-s -w"); err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// process is a running `saga serve`.
type process struct {
	cmd *exec.Cmd
	url string
	log *bytes.Buffer
}

var serving = regexp.MustCompile(`url=(http://\S+/mcp)`)

func serve(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(saga, append([]string{"serve", "--addr", "127.0.0.1:0"}, args...)...), log: new(bytes.Buffer)}
	stderr, err := p.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(p.kill)
	lines := bufio.NewScanner(io.TeeReader(stderr, p.log))
	for lines.Scan() {
		if m := serving.FindStringSubmatch(lines.Text()); m != nil {
			p.url = m[1]
			go io.Copy(io.Discard, stderr)
			return p
		}
	}
	t.Fatalf("the server did not start: %s", p.log)
	return nil
}

// kill is kill -9: the process gets no chance to save anything.
func (p *process) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

func newKeyset(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keyset.json")
	out, err := exec.Command(saga, "keys", "new", "--keyset", path).CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

func (p *process) post(t *testing.T, message string) string {
	t.Helper()
	client := http.Client{Timeout: time.Minute}
	defer client.CloseIdleConnections()
	resp, err := client.Post(p.url, "application/json", strings.NewReader(message))
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body)
}

func transcript(t *testing.T) (pairs [][2]string) {
	raw, err := os.ReadFile("../../testdata/transcripts/saga-proposal.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if request, ok := strings.CutPrefix(line, "→ "); ok {
			pairs = append(pairs, [2]string{request})
		} else if response, ok := strings.CutPrefix(line, "← "); ok {
			pairs[len(pairs)-1][1] = response
		}
	}
	return pairs
}

func token(t *testing.T, body string) string {
	var r struct {
		Result struct {
			SagaToken string `json:"sagaToken"`
		} `json:"result"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &r), body)
	return r.Result.SagaToken
}

// Call on A, kill A, resume on B, kill B, resume on C, which was not there
// before: the same result as on one server.
func TestReplicasDie(t *testing.T) {
	keyset := newKeyset(t)
	run := func(t *testing.T, next func() *process) string {
		var body, held string
		for _, pair := range transcript(t) {
			p := next()
			body = p.post(t, strings.NewReplacer("TOKEN1", held, "TOKEN2", held).Replace(pair[0]))
			held = token(t, body)
		}
		return body
	}
	one := serve(t, "--keyset", keyset)
	want := run(t, func() *process { return one })
	assert.Equal(t, transcript(t)[2][1], want)

	a, b := serve(t, "--keyset", keyset), serve(t, "--keyset", keyset)
	turn := 0
	got := run(t, func() *process {
		turn++
		switch turn {
		case 1:
			return a
		case 2:
			a.kill()
			return b
		}
		b.kill()
		return serve(t, "--keyset", keyset)
	})
	assert.Equal(t, want, got)

	t.Run("with other keys it does not go on", func(t *testing.T) {
		held := token(t, one.post(t, transcript(t)[0][0]))
		stranger := serve(t, "--keyset", newKeyset(t))
		body := stranger.post(t, strings.ReplaceAll(transcript(t)[1][0], "TOKEN1", held))
		assert.Contains(t, body, `"code":-32602`)
	})
	t.Run("with another audience it does not go on", func(t *testing.T) {
		held := token(t, one.post(t, transcript(t)[0][0]))
		stranger := serve(t, "--keyset", keyset, "--audience", "elsewhere")
		body := stranger.post(t, strings.ReplaceAll(transcript(t)[1][0], "TOKEN1", held))
		assert.Contains(t, body, `"code":-32602`)
	})
}

// git makes a small repository with two releases and something after them.
func gitRepository(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed: it makes the repository of this test")
	}
	dir := t.TempDir()
	git := func(args ...string) {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
			"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com",
			fmt.Sprintf("GIT_COMMITTER_DATE=2026-01-%02dT00:00:00Z", step()))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	git("init", "-q")
	for _, release := range []string{"v1", "v2", ""} {
		git("commit", "-q", "--allow-empty", "-m", "Work for "+release)
		if release != "" {
			git("tag", release)
		}
	}
	return dir
}

var steps int

// step numbers commits, so that their order does not depend on the clock.
func step() int {
	steps++
	return steps
}

// The command drives release_notes to its end without a terminal; and when the
// server dies in the middle, it saves where the call stands, and another server
// and another client process go on.
func TestReleaseNotesFromTheCommandLine(t *testing.T) {
	repo, keyset := gitRepository(t), newKeyset(t)
	written := filepath.Join(repo, "RELEASE_NOTES.md")
	answers := filepath.Join(t.TempDir(), "answers.json")
	answer := func(json string) { require.NoError(t, os.WriteFile(answers, []byte(json), 0o600)) }
	call := func(args ...string) (string, int) {
		cmd := exec.Command(saga, append([]string{"call", "--answers", answers, "--retry-for", "1s"}, args...)...)
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if exit := new(exec.ExitError); err != nil {
			require.ErrorAs(t, err, &exit)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	a := serve(t, "--keyset", keyset, "--repo", repo)

	t.Run("declining leaves the repository alone", func(t *testing.T) {
		for _, json := range []string{
			`{"range":"decline"}`, `{"range":"cancel"}`, `{"range":{"range":"v1..v2"},"draft":null}`,
			`{"range":{"range":"v1..v2"},"draft":"# v2","review":"decline"}`,
		} {
			answer(json)
			out, code := call("release_notes", "--server", a.url)
			assert.NotZero(t, code, out)
			assert.NoFileExists(t, written)
		}
	})
	t.Run("across a dead server", func(t *testing.T) {
		saved := filepath.Join(t.TempDir(), "saved.json")
		answer(`{"range":{"range":"v1..v2"}}`)
		out, code := call("release_notes", "--server", a.url, "--save", saved)
		assert.Equal(t, 5, code, "the draft needs an answer: %s", out)
		a.kill()
		answer(`{"draft":"# v2\n\nBetter.","review":{"notes":"# v2\n\nMuch better."}}`)
		out, code = call("--resume", saved, "--server", a.url)
		assert.Equal(t, 4, code, "no server: %s", out)
		b := serve(t, "--keyset", keyset, "--repo", repo)
		out, code = call("--resume", saved, "--server", b.url)
		require.Zero(t, code, out)
		assert.Contains(t, out, "Wrote the release notes for v1..v2 to RELEASE_NOTES.md.")
		text, err := os.ReadFile(written)
		require.NoError(t, err)
		assert.Equal(t, "# v2\n\nMuch better.\n", string(text))
	})
	t.Run("cancelled", func(t *testing.T) {
		b := serve(t, "--keyset", keyset, "--repo", repo)
		saved := filepath.Join(t.TempDir(), "saved.json")
		answer(`{"range":{"range":"v1..v2"}}`)
		out, code := call("release_notes", "--server", b.url, "--save", saved)
		require.Equal(t, 5, code, out)
		cancel, err := exec.Command(saga, "cancel", saved, "--server", b.url).CombinedOutput()
		require.NoError(t, err, string(cancel))
		assert.Contains(t, string(cancel), "Cancelled.")
		assert.NoFileExists(t, saved)
	})
	t.Run("over stdio", func(t *testing.T) {
		answer(`{"range":{"range":"up to v1"},"draft":"# v1","review":{"notes":"# v1"},"replace":{"replace":true}}`)
		out, code := call("release_notes", "--stdio", saga+" stdio --keyset "+keyset+" --repo "+repo)
		require.Zero(t, code, out)
		text, err := os.ReadFile(written)
		require.NoError(t, err)
		assert.Equal(t, "# v1\n", string(text))
	})
}
