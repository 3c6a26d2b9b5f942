package program

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// sing serves a tool that asks how it shall sound, in forms of hosts too.
func sing(t *testing.T) string {
	t.Helper()
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	tool := saga.Flow[none, string]{Info: saga.Info{Name: "sing", Asks: []steps.Question{askTone}}, Run: func(r *saga.Run, _ none) (string, error) {
		form, err := saga.Ask(r, askTone)
		return "a " + form.Tone + " song", err
	}}
	hum := saga.Flow[none, string]{Info: saga.Info{Name: "hum"}, Run: func(*saga.Run, none) (string, error) { return "hm", nil }}
	s, err := server.New(server.Options{
		Keys: keys, Tools: []saga.Definition{tool, hum}, Ledger: ledger.NewMemory(ledger.MemoryOptions{}), Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	return web.URL
}

// in sends a request to a window of the command's, and returns what it answers.
func in(t *testing.T, method, url, body string) (status int, header http.Header, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	raw, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode, response.Header, string(raw)
}

// The command has a window for the form of a tool: what the form does there ends the call. Only who knows its address
// reaches it, and the form gets the tools of the server and nothing of the window.
func TestCallInAWindow(t *testing.T) {
	t.Parallel()
	address := sing(t)
	for _, protocol := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			cmd := newHome(t).command("call", "sing", "--as", "apps", "--server", address, "--protocol", protocol)
			var out bytes.Buffer
			cmd.Stdout = &out
			said, err := cmd.StderrPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			lines := make(chan string, 100)
			go func() {
				defer close(lines)
				all := make([]byte, 1<<16)
				for {
					n, err := said.Read(all)
					if lines <- string(all[:n]); err != nil {
						return
					}
				}
			}()
			text := ""
			wait := func(pattern string) []string {
				for {
					if found := regexp.MustCompile(pattern).FindStringSubmatch(text); found != nil {
						return found
					}
					select {
					case more, ok := <-lines:
						require.True(t, ok, text)
						text += more
					case <-time.After(time.Minute):
						require.Fail(t, "not said: "+pattern, text)
					}
				}
			}
			window := wait(`shows ui://mcpsaga/form in its window[^\n]*\n +(http://127\.0\.0\.1:\d+/\w{26}/)\n`)[1]
			status, _, _ := in(t, http.MethodGet, window[:len(window)-3]+"x/", "")
			assert.Equal(t, http.StatusNotFound, status)
			status, header, page := in(t, http.MethodGet, window+"app", "")
			assert.Equal(t, http.StatusOK, status)
			assert.Contains(t, header.Get("Content-Security-Policy"), "sandbox allow-scripts")
			assert.NotContains(t, header.Get("Content-Security-Policy"), "allow-same-origin")
			assert.Contains(t, page, "ui/initialize")
			status, header, page = in(t, http.MethodGet, window, "")
			assert.Equal(t, http.StatusOK, status)
			assert.Contains(t, header.Get("Content-Security-Policy"), "frame-ancestors 'none'")
			assert.Contains(t, page, "The model has called sing.")

			token := wait(`resumeToken: ([\w-]{22})`)[1] // without authentication the form of another session does not find the call before
			wait("the call has returned, and waits")
			_, _, results := in(t, http.MethodGet, window+"results", "")
			assert.Contains(t, results, token)
			status, _, refusal := in(t, http.MethodPost, window+"call", `{"name":"nothing","arguments":{}}`)
			assert.Equal(t, http.StatusBadGateway, status)
			assert.Contains(t, refusal, "an app may not call that tool")
			answer, err := json.Marshal(object{"name": "mcpsaga_form", "arguments": object{
				"resumeToken": token, "answers": object{"tone": object{"action": "accept", "content": object{"tone": "sad"}}},
			}})
			require.NoError(t, err)
			_, _, shown := in(t, http.MethodPost, window+"call", string(answer))
			assert.Contains(t, shown, `"status":"completed"`)
			status, _, _ = in(t, http.MethodPost, window+"call", `{"message":"Call again with resumeToken: `+token+`"}`)
			assert.Equal(t, http.StatusOK, status)
			wait("the app tells the model: Call again")
			for range lines { // until it has ended
			}
			require.NoError(t, cmd.Wait())
			assert.Equal(t, "a sad song\n", out.String())
		})
	}
	t.Run("a tool that asks nothing", func(t *testing.T) {
		t.Parallel()
		out, said, code := newHome(t).run("call", "hum", "--as", "apps", "--server", address)
		assert.Zero(t, code, said)
		assert.Equal(t, "hm\n", out)
		assert.Contains(t, said, "hum has no app")
	})
}
