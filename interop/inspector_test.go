package interop

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/porttest"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// startInspector starts the official Inspector, and returns the address of its page. Who opens that says the token.
func startInspector(t *testing.T, token string) string {
	t.Helper()
	page, sandbox := porttest.Reserve(t), porttest.Reserve(t)
	cmd := needNode(t).command("node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js", "--web")
	cmd.Env = append(cmd.Env, "HOME="+t.TempDir(), "MCP_INSPECTOR_SECRET_STORE=memory", "MCP_INSPECTOR_API_TOKEN="+token, "MCP_AUTO_OPEN_ENABLED=false",
		"CLIENT_PORT="+portOf(page), "MCP_SANDBOX_PORT="+portOf(sandbox))
	var said shared
	cmd.Stdout, cmd.Stderr = &said, &said
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	address := "http://localhost:" + portOf(page) + "/"
	require.Eventually(t, func() bool {
		response, err := http.Get(address)
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, time.Minute, 100*time.Millisecond, "%s", &said)
	return address
}

func portOf(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// overheard is the address of a server, of which all is kept that it says.
func overheard(t *testing.T, address string) (string, *shared) {
	t.Helper()
	to, err := url.Parse(address)
	require.NoError(t, err)
	said := new(shared)
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host },
		ModifyResponse: func(r *http.Response) error {
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.TeeReader(r.Body, said), r.Body}
			return nil
		},
	}
	hs := httptest.NewUnstartedServer(proxy)
	hs.Start()
	t.Cleanup(func() {
		hs.CloseClientConnections() // of streams that stay open
		hs.Close()
	})
	return hs.URL + to.Path, said
}

// A link opens the form in the official Inspector, where the tool is called and its questions are answered. The Inspector
// could ask itself, so the server is told to use the form.
func TestInspectorOpensTheForm(t *testing.T) {
	t.Parallel()
	needNode(t)
	browser := needBrowser(t)
	var booked atomic.Int32
	address, said := overheard(t, appServer(t, server.Options{
		Tools: []saga.Definition{stay(counts(&booked))}, Questions: server.Questions{Force: steps.RouteApp, TrustedApps: []string{"mcp-inspector"}},
	}))
	const token = "the-token-of-this-test"
	link := startInspector(t, token) + "?" + url.Values{
		"MCP_INSPECTOR_API_TOKEN": {token}, "serverUrl": {address}, "transport": {"http"}, "autoConnect": {token},
		"openApp": {"stay"}, "autoOpen": {token}, "appArgs": {base64.RawURLEncoding.EncodeToString([]byte(`{"who":"Ann"}`))},
	}.Encode()
	require.NoError(t, chromedp.Do(browser, chromedp.Navigate(link)))
	h := &appHost{T: t, page: browser, sandbox: "about:srcdoc", within: "window"}
	h.see("Where do you want to stay?")
	h.accessible()
	h.fill("City", "Rome")
	h.press("Send")
	h.see("For how many nights?")
	h.fill("Nights", "3")
	h.press("Send")
	h.see("Shall it be booked?")
	h.tick("Book it")
	h.press("Send")
	h.see("Done.")
	assert.EqualValues(t, 1, booked.Load())
	if strings.Contains(said.String(), `"status":"waiting"`) { // on a slow machine the call was not held for long enough
		h.see(`Call the tool "stay" again`)
		return
	}
	require.Eventually(t, func() bool { return strings.Contains(said.String(), `"text":"booked Ann in Rome for 3"`) }, time.Minute, 50*time.Millisecond)
}

// inspect has the Inspector's command line call whoami.
func inspect(t *testing.T, address string, more ...string) (*exec.Cmd, *shared) {
	t.Helper()
	cmd := needNode(t).command("node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js", append([]string{
		"--cli", "--transport", "http", "--server-url", address, "--method", "tools/call", "--tool-name", "whoami"}, more...)...)
	cmd.Env = append(cmd.Env, "HOME="+t.TempDir(), "MCP_INSPECTOR_SECRET_STORE=memory", "MCP_AUTO_OPEN_ENABLED=true")
	said := new(shared)
	cmd.Stdout, cmd.Stderr = said, said
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, said
}

// The Inspector's command line finds the authorization server from the 401, registers, has the user sign in, and calls a
// tool. With a token in a header it does without.
func TestInspectorSignsIn(t *testing.T) {
	t.Parallel()
	issuer := startAuthServer(t)
	address := serveProtected(t, issuer, "/mcp", false)
	cmd, said := inspect(t, address, "--callback-url", "http://127.0.0.1:0/oauth/callback")
	var at []string
	require.Eventually(t, func() bool {
		at = regexp.MustCompile(`Please navigate to: (http\S+)`).FindStringSubmatch(said.String())
		return at != nil
	}, time.Minute, 50*time.Millisecond, "%s", said)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	resp, err := (&http.Client{Jar: jar}).Get(at[1])
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.NoError(t, cmd.Wait(), "%s", said)
	assert.Contains(t, said.String(), "ann may orders tools:read")

	cmd, said = inspect(t, address, "--header", "Authorization: Bearer "+machineToken(t, issuer, "machine", address, "tools:read"))
	require.NoError(t, cmd.Wait(), "%s", said)
	assert.Contains(t, said.String(), "machine may tools:read")
}
