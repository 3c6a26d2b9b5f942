package interop

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// appHost is a host of MCP Apps in a browser: AppBridge of ext-apps, with the client of the TypeScript SDK. The app
// runs in a frame of another site, under the policy that the specification prescribes.
type appHost struct {
	*testing.T
	page    context.Context
	frame   context.Context // of the app's sandbox, once it is there
	sandbox string          // its address
	within  string          // the window of the app, in the sandbox
}

// appPolicy is the policy of apps that ask for nothing (MCP Apps 2026-01-26, UI resources, default).
const appPolicy = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; media-src 'self' data:; connect-src 'none'"

// hostScript is the host's script with the packages that it needs.
var hostScript = sync.OnceValues(func() ([]byte, error) {
	cmd := nodeTools{}.command("host.js")
	cmd.Path, cmd.Args = filepath.Join(nodeDir, "node_modules", ".bin", "esbuild"), []string{"esbuild", filepath.Join(nodeDir, "host.js"), "--bundle", "--format=iife", "--log-level=error"}
	cmd.Stderr = os.Stderr
	return cmd.Output()
})

// newAppHost opens the host's page.
func newAppHost(t *testing.T) *appHost {
	t.Helper()
	needNode(t)
	script, err := hostScript()
	require.NoError(t, err)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/host.js":
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write(script)
		case "/sandbox":
			w.Header().Set("Content-Security-Policy", appPolicy+"; frame-src 'self'")
			http.ServeFile(w, r, filepath.Join(nodeDir, "sandbox.html"))
		default:
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(`<!doctype html><title>host</title><script src="/host.js" defer></script><body>`))
		}
	}))
	t.Cleanup(site.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(site.URL, "http://"), ":")
	browser := needBrowser(t)
	h := &appHost{T: t, page: browser, sandbox: "http://sandbox.example:" + port + "/sandbox", within: "frames[0]"}
	require.NoError(t, chromedp.Do(h.page, chromedp.Navigate("http://localhost:"+port+"/")))
	return h
}

// run calls a function of the host's, and waits for it.
func run[T any](h *appHost, name string, params any) T {
	h.Helper()
	h.begin(name, params)
	return settled[T](h)
}

// begin calls a function of the host's.
func (h *appHost) begin(name string, params any) {
	h.Helper()
	raw, err := json.Marshal(params)
	require.NoError(h, err)
	_, err = chromedp.Run(h.page, chromedp.Evaluate[bool](`host.begin("`+name+`", `+string(raw)+`), true`))
	require.NoError(h, err)
}

// settled waits for what the host does to end.
func settled[T any](h *appHost) T {
	h.Helper()
	raw := until(h, h.page, `window.settled !== undefined && JSON.stringify(window.settled)`)
	var end struct {
		Value T      `json:"value"`
		Error string `json:"error"`
	}
	require.NoError(h, json.Unmarshal([]byte(raw), &end))
	require.Empty(h, end.Error)
	return end.Value
}

// until waits until an expression has a true value, which is a string or becomes one.
func until(h *appHost, in context.Context, expression string) string {
	h.Helper()
	got, err := chromedp.Run(in, chromedp.Poll[any](expression, chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(70*time.Second)))
	require.NoError(h, err, "%s\nthe host: %v", expression, h.log())
	text, _ := got.(string)
	return text
}

// log is what has happened at the host.
func (h *appHost) log() string {
	got, err := chromedp.Run(h.page, chromedp.Evaluate[string](`host.log.join("\n")`))
	if err != nil {
		return err.Error()
	}
	return got
}

// app waits for the app's frame, and returns its context. Expressions there find the app's document as doc.
func (h *appHost) app() context.Context {
	h.Helper()
	if h.frame != nil {
		return h.frame
	}
	require.Eventually(h, func() bool {
		infos, err := chromedp.Targets(h.page)
		if err != nil {
			return false
		}
		for _, info := range infos {
			if info.Type == "iframe" && info.URL == h.sandbox {
				frame, cancel := chromedp.NewContext(h.page, chromedp.WithTargetID(info.TargetID))
				h.Cleanup(cancel)
				h.frame = frame
			}
		}
		return h.frame != nil
	}, time.Minute, 50*time.Millisecond)
	until(h, h.frame, h.within+`?.document?.querySelector("main") && true`)
	return h.frame
}

// see waits until the app shows a text.
func (h *appHost) see(text string) {
	h.Helper()
	quoted, err := json.Marshal(text)
	require.NoError(h, err)
	until(h, h.app(), h.within+`.document.body.innerText.includes(`+string(quoted)+`)`)
}

// do runs statements in the app's page, and returns what they do.
func (h *appHost) do(statements string) string {
	h.Helper()
	got, err := chromedp.Run(h.app(), chromedp.Evaluate[string](`(() => { const doc = `+h.within+`.document, field = name => [...doc.querySelectorAll("label, legend")].find(l => l.innerText.startsWith(name));`+statements+` })() + ""`))
	require.NoError(h, err)
	return got
}

// fill types into a field by its label, as a user would who has focused it.
func (h *appHost) fill(label, text string) {
	h.Helper()
	h.do(`const input = doc.getElementById(field("` + label + `").htmlFor); input.focus(); input.select?.(); if (input.tagName === "SELECT") { input.value = "` + text + `" } else { doc.execCommand("insertText", false, "` + text + `") }`)
}

// tick ticks a box by its label.
func (h *appHost) tick(label string) {
	h.Helper()
	h.do(`field("` + label + `").querySelector("input").click()`)
}

// press presses a button.
func (h *appHost) press(label string) {
	h.Helper()
	until(h, h.app(), `[...`+h.within+`.document.querySelectorAll("button")].some(b => b.textContent === "`+label+`" && !b.disabled)`)
	h.do(`[...doc.querySelectorAll("button")].find(b => b.textContent === "` + label + `" && !b.disabled).click()`)
}

// accessible fails if axe-core finds anything in the app that shuts somebody out.
func (h *appHost) accessible() {
	h.Helper()
	axe, err := os.ReadFile(filepath.Join(nodeDir, "node_modules", "axe-core", "axe.min.js"))
	require.NoError(h, err)
	source, err := json.Marshal(string(axe))
	require.NoError(h, err)
	h.do(`if (!` + h.within + `.axe) doc.head.append(Object.assign(doc.createElement("script"), { textContent: ` + string(source) + ` }))`)
	got, err := chromedp.Run(h.app(), chromedp.Evaluate[string](h.within+`.axe.run(`+h.within+`.document).then(r => JSON.stringify(r.violations.map(v => v.id + ": " + v.nodes.map(n => n.html + " " + n.failureSummary).join("; "))))`, chromedp.EvalAwaitPromise))
	require.NoError(h, err)
	require.Equal(h, "[]", got)
}
