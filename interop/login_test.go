package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// commandUser uses the command, and signs in where it wants that.
type commandUser struct {
	t      *testing.T
	home   string
	server string
	// browser opens an address, as a user's does.
	browser func(at string)
	process *os.Process // the command that was started last
	mu      sync.Mutex
	asked   []url.Values // what the command wanted at the authorization server
}

func newCommandUser(t *testing.T, server string) *commandUser {
	require.NoError(t, buildSaga())
	u := &commandUser{t: t, home: t.TempDir(), server: server}
	u.browser = u.signInAs("ann")
	return u
}

// signInAs is a browser in which a user signs in, and which returns to the command.
func (u *commandUser) signInAs(user string) func(string) {
	return func(at string) {
		status, page := u.visit(u.returns(at + "&login_hint=" + user))
		assert.Equal(u.t, 200, status, page)
	}
}

// returns is where the authorization server sends the browser.
func (u *commandUser) returns(at string) string {
	resp, err := browse(u.t.Context(), at)
	if !assert.NoError(u.t, err) {
		return ""
	}
	defer resp.Body.Close()
	back, err := resp.Location()
	assert.NoError(u.t, err)
	return back.String()
}

func (u *commandUser) visit(address string) (int, string) {
	resp, err := http.Get(address)
	if !assert.NoError(u.t, err) {
		return 0, ""
	}
	defer resp.Body.Close()
	page, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(page)
}

var signInAt = regexp.MustCompile(`^  (http://\S+/auth\?\S+)$`)

// saga runs the command, without a terminal.
func (u *commandUser) saga(args ...string) (stdout, stderr string, code int) {
	ctx, cancel := context.WithTimeout(u.t.Context(), time.Minute)
	defer cancel()
	if args[0] != "logout" {
		args = append(args, "--server", u.server)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(work, "saga"), args...)
	cmd.Env = append(os.Environ(), "HOME="+u.home, "XDG_CONFIG_HOME="+u.home, "XDG_STATE_HOME="+u.home, "SAGA_RETRY_FOR=1ms")
	var out, text bytes.Buffer
	cmd.Stdout = &out
	pipe, err := cmd.StderrPipe()
	require.NoError(u.t, err)
	require.NoError(u.t, cmd.Start())
	u.mu.Lock()
	u.process = cmd.Process
	u.mu.Unlock()
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		text.WriteString(lines.Text() + "\n")
		if at := signInAt.FindStringSubmatch(lines.Text()); at != nil {
			wanted, err := url.Parse(at[1])
			require.NoError(u.t, err)
			u.mu.Lock()
			u.asked = append(u.asked, wanted.Query())
			u.mu.Unlock()
			u.browser(at[1])
		}
	}
	_ = cmd.Wait()
	if k, has := u.kept(); has {
		for _, secret := range []string{k.Access, k.Refresh} {
			if secret != "" {
				assert.NotContains(u.t, out.String()+text.String(), secret)
			}
		}
	}
	return out.String(), text.String(), cmd.ProcessState.ExitCode()
}

// ok runs a command that must succeed.
func (u *commandUser) ok(args ...string) string {
	u.t.Helper()
	out, text, code := u.saga(args...)
	require.Zero(u.t, code, "%s", text)
	return out
}

// signIns is how often the user was asked to sign in since the last time.
func (u *commandUser) signIns() int {
	n := len(u.asked)
	u.asked = nil
	return n
}

type keptLogin struct {
	Access, Refresh, Issuer string
	Client                  struct{ ID string }
}

func (u *commandUser) kept() (k keptLogin, has bool) {
	found, err := filepath.Glob(filepath.Join(u.home, "saga", "logins", "*.json"))
	require.NoError(u.t, err)
	if len(found) == 0 {
		return k, false
	}
	info, err := os.Stat(found[0])
	require.NoError(u.t, err)
	assert.Equal(u.t, os.FileMode(0o600), info.Mode().Perm())
	raw, err := os.ReadFile(found[0])
	require.NoError(u.t, err)
	require.NoError(u.t, json.Unmarshal(raw, &k))
	return k, true
}

func (u *commandUser) answers() string {
	path := filepath.Join(u.home, "answers.json")
	require.NoError(u.t, os.WriteFile(path, []byte(`{"sure":{"sure":true},"elicitation-1":{"sure":true}}`), 0o600))
	return path
}

// TestLogin: the user signs in once; later commands need no browser; a tool that takes more has them sign in for that, and the
// call goes on; after logout nothing is left, here or at the authorization server.
func TestLogin(t *testing.T) {
	t.Parallel()
	issuer := startAuthServer(t)
	for _, protocol := range []string{"saga", "2026-07-28", "2025-11-25"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			u := newCommandUser(t, serveProtected(t, issuer, "/mcp", false))
			_, text, code := u.saga("call", "whoami", "--protocol", protocol)
			assert.Equal(t, 4, code)
			assert.Contains(t, text, "Sign in with --login")
			assert.Zero(t, u.signIns())

			out := u.ok("call", "whoami", "--protocol", protocol, "--login")
			assert.Contains(t, out, "ann may tools:read")
			require.Len(t, u.asked, 1)
			assert.Equal(t, u.server, u.asked[0].Get("resource"))
			assert.Equal(t, "S256", u.asked[0].Get("code_challenge_method"))
			assert.Equal(t, "tools:read offline_access", u.asked[0].Get("scope"))
			assert.Regexp(t, `^http://127\.0\.0\.1:\d+/callback$`, u.asked[0].Get("redirect_uri"))
			u.asked = nil
			first, _ := u.kept()

			assert.Contains(t, u.ok("call", "whoami", "--protocol", protocol), "ann may tools:read")
			assert.Contains(t, u.ok("tools", "--protocol", protocol, "--login"), "whoami")
			assert.Zero(t, u.signIns())

			order := []string{"call", "order", "--protocol", protocol, "--answers", u.answers()}
			_, text, code = u.saga(order...)
			assert.Equal(t, 4, code)
			assert.Contains(t, text, "sign in for it with --login")
			assert.Contains(t, u.ok(append(order, "--login")...), "ordered: ann may orders tools:read")
			require.Len(t, u.asked, 1)
			assert.Equal(t, "orders tools:read offline_access", u.asked[0].Get("scope"))
			second, _ := u.kept()
			assert.Equal(t, first.Client, second.Client, "the client is registered once")

			_, text, code = u.saga("logout", u.server)
			assert.Zero(t, code, text)
			_, has := u.kept()
			assert.False(t, has)
			assert.Equal(t, 400, refreshAt(t, second), "it is revoked")
			_, text, code = u.saga("logout", u.server)
			assert.NotZero(t, code)
			assert.Contains(t, text, "there is no login")
		})
	}
}

// TestLoginAtTheGoSDK: it is the same where the tools are on the Go SDK, and with a client that was registered by hand.
func TestLoginAtTheGoSDK(t *testing.T) {
	t.Parallel()
	issuer := startAuthServer(t)
	for _, protocol := range []string{"saga", "2026-07-28", "2025-11-25"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			u := newCommandUser(t, serveProtected(t, issuer, "/mcp", true))
			assert.Contains(t, u.ok("call", "whoami", "--protocol", protocol, "--login", "--client-id", "desk"), "ann may tools:read")
			assert.Contains(t, u.ok("call", "order", "--protocol", protocol, "--login", "--answers", u.answers()), "ordered: ann may orders tools:read")
			require.Len(t, u.asked, 2)
			assert.Equal(t, "desk", u.asked[0].Get("client_id"))
			assert.Equal(t, "desk", u.asked[1].Get("client_id"))
		})
	}
}

// refreshAt is the status of an authorization server's answer to a refresh token.
func refreshAt(t *testing.T, k keptLogin) int {
	resp, err := http.PostForm(k.Issuer+"/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {k.Refresh}, "client_id": {k.Client.ID}})
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

// TestLoginsAreRenewed: an access token that has expired is renewed without the user, once for two commands that want it at
// the same time, as a refresh token is good once. If it is refused, the user signs in again.
func TestLoginsAreRenewed(t *testing.T) {
	t.Parallel()
	u := newCommandUser(t, serveProtected(t, startAuthServer(t), "/short/mcp", false))
	expire := func() keptLogin {
		k, _ := u.kept()
		require.Eventually(t, func() bool {
			status, _, _ := ask(t, u.server, "2025-11-25", "initialize", k.Access)
			return status == 401
		}, 10*time.Second, 100*time.Millisecond)
		return k
	}
	whoami := []string{"call", "whoami", "--protocol", "2026-07-28"}
	u.ok(append(whoami, "--login")...)
	assert.Equal(t, 1, u.signIns())
	old := expire()
	require.NotEmpty(t, old.Refresh)

	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			out, text, _ := u.saga(whoami...)
			assert.Contains(t, out, "ann may tools:read", text)
		})
	}
	wait.Wait()
	k, _ := u.kept()
	assert.NotEqual(t, old.Access, k.Access)
	assert.Zero(t, u.signIns())

	old = expire()
	assert.Equal(t, 200, refreshAt(t, old)) // another has used it
	_, text, code := u.saga(whoami...)
	assert.Equal(t, 4, code)
	assert.Contains(t, text, "Sign in with --login")
	assert.Contains(t, u.ok(append(whoami, "--login")...), "ann may tools:read")
	assert.Equal(t, 1, u.signIns())
}

// TestLoginInTheMiddle: a server that wants more scopes when the user answers gets them, and the saga goes on.
func TestLoginInTheMiddle(t *testing.T) {
	t.Parallel()
	issuer := startAuthServer(t)
	for _, protocol := range []string{"saga", "2026-07-28"} {
		var strict atomic.Bool
		u := newCommandUser(t, serveProtected(t, issuer, "/mcp", false, func(o *server.Options) {
			permit := o.Permit
			o.Permit = func(ctx context.Context, who saga.Caller, kind, name string) error {
				if !strict.Load() {
					return nil
				}
				return permit(ctx, who, kind, name)
			}
		}))
		_, text, code := u.saga("call", "order", "--protocol", protocol, "--login")
		require.Equal(t, 5, code, text)
		assert.Equal(t, 1, u.signIns())
		name := regexp.MustCompile(`--resume (\S+)`).FindStringSubmatch(text)
		require.NotNil(t, name, text)

		strict.Store(true)
		out := u.ok("call", "--resume", name[1], "--answers", u.answers(), "--login", "--protocol", protocol)
		assert.Contains(t, out, "ordered: ann may orders tools:read")
		assert.Equal(t, 1, u.signIns())
	}
}

// TestLoginForTasks: several requests at once have the user sign in once.
func TestLoginForTasks(t *testing.T) {
	t.Parallel()
	u := newCommandUser(t, serveProtected(t, startAuthServer(t), "/most/mcp", false))
	for range 2 {
		u.ok("call", "order", "--protocol", "2026-07-28", "--detach", "--login")
	}
	assert.Equal(t, 1, u.signIns())
	_, text, code := u.saga("logout", u.server)
	require.Zero(t, code, text)
	assert.NotContains(t, u.ok("tasks"), "Sure?")
	out := u.ok("tasks", "--login")
	assert.Equal(t, 2, strings.Count(out, "asks: Sure?"), out)
	assert.Equal(t, 1, u.signIns())
}

// TestLoginsThatAreRefused: what comes back from the browser counts only if it has the state that was sent, and the user can
// deny.
func TestLoginsThatAreRefused(t *testing.T) {
	t.Parallel()
	u := newCommandUser(t, serveProtected(t, startAuthServer(t), "/mcp", false))
	u.browser = u.signInAs("deny")
	_, text, code := u.saga("call", "whoami", "--login")
	assert.Equal(t, 4, code)
	assert.Contains(t, text, "it was denied at")
	assert.Contains(t, text, "ann said no")
	assert.Equal(t, 1, u.signIns())

	u.browser = func(string) {}
	_, text, code = u.saga("call", "whoami", "--login", "--timeout", "2s")
	assert.Equal(t, 4, code)
	assert.Contains(t, text, "it was not finished within 1.8s, which --timeout extends")
	u.browser = func(string) { _ = u.process.Signal(os.Interrupt) }
	_, text, code = u.saga("call", "whoami", "--login")
	assert.Equal(t, 130, code, text)

	u.browser = func(at string) {
		back, err := url.Parse(u.returns(at))
		require.NoError(t, err)
		q := back.Query()
		forged := *back
		for _, state := range []string{"", q.Get("state") + "x"} {
			q.Set("state", state)
			forged.RawQuery = q.Encode()
			status, page := u.visit(forged.String())
			assert.Equal(t, 400, status, page)
		}
		status, _ := u.visit(back.String())
		assert.Equal(t, 200, status)
	}
	assert.Contains(t, u.ok("call", "whoami", "--login"), "ann may tools:read")

	u = newCommandUser(t, u.server)
	u.browser = func(at string) {
		back := u.returns(at)
		u.visit(strings.Replace(back, "iss=", "iss=https%3A%2F%2Fevil.example&was=", 1))
	}
	_, text, code = u.saga("call", "whoami", "--login")
	assert.Equal(t, 4, code)
	assert.Contains(t, text, "the answer is of the issuer https://evil.example")
	_, has := u.kept()
	assert.False(t, has)
}
