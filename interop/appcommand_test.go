package interop

import (
	"bytes"
	"context"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// shared is what a process writes, for others to read meanwhile.
type shared struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.Write(b)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.String()
}

// The command shows a tool's form in a window like a host's, in which it is answered; the call is held for it if the form
// can find it, and is else made again when the form says so.
func TestCommandShowsTheForm(t *testing.T) {
	t.Parallel()
	needProgram(t, "chromium")
	require.NoError(t, buildSaga())
	known := func(*http.Request) (saga.Caller, error) { return saga.Caller{Issuer: "i", Subject: "s"}, nil }
	for name, c := range map[string]struct {
		protocol string
		who      func(*http.Request) (saga.Caller, error)
		held     bool
	}{
		"in a session":  {protocol: "2025-11-25"},
		"known":         {protocol: "2026-07-28", who: known, held: true},
		"known, before": {protocol: "2025-06-18", who: known, held: true},
	} {
		t.Run(name, func(t *testing.T) {
			browser := needBrowser(t)
			var booked atomic.Int32
			url := appServer(t, server.Options{Tools: []saga.Definition{stay(counts(&booked))}, Authenticate: c.who, Questions: server.Questions{TrustedApps: []string{"saga"}}})
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, filepath.Join(work, "saga"), "call", "stay", "who=Ann", "--as", "apps", "--server", url, "--protocol", c.protocol)
			var out, said shared
			cmd.Stdout, cmd.Stderr = &out, &said
			require.NoError(t, cmd.Start())
			var address string
			require.Eventually(t, func() bool {
				address = regexp.MustCompile(`http://127\.0\.0\.1:\d+/\w+/`).FindString(said.String())
				return address != ""
			}, time.Minute, 20*time.Millisecond, "%s", &said)
			assert.Contains(t, said.String(), "a host shows ui://mcpsaga/form in its window")
			require.NoError(t, chromedp.Do(browser, chromedp.Navigate(address)))
			h := &appHost{T: t, page: browser, sandbox: address + "app", within: "window"}
			h.see("Where do you want to stay?")
			h.fill("City", "Rome")
			h.press("Send")
			h.see("For how many nights?")
			h.fill("Nights", "3")
			h.press("Send")
			h.see("Shall it be booked?")
			h.tick("Book it")
			h.press("Send")
			h.see("Done.")
			if !c.held {
				until(h, browser, `document.querySelector("ol").innerText.includes("The app says to the model: The form is answered.")`)
			}
			until(h, browser, `document.querySelector("ol").innerText.includes("The model reads: booked Ann in Rome for 3")`)
			require.NoError(t, cmd.Wait(), "%s", &said)
			assert.Equal(t, "booked Ann in Rome for 3\n", out.String())
			assert.EqualValues(t, 1, booked.Load())
			waited := assert.Contains
			if c.held {
				waited = assert.NotContains
			}
			waited(t, said.String(), "the call has returned, and waits")
			waited(t, said.String(), "the app tells the model: The form is answered.")
		})
	}
}
