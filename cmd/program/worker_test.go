package program

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/auth"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Servers and workers of a tool that asks others share a file. A worker has no callers, so it does not ask how to know them;
// links that its tools make lead to the servers' pages.
func TestWorkersOfToolsThatAskOthers(t *testing.T) {
	t.Parallel()
	approve := &steps.Form[none]{ID: "approve", Message: "Pay?", By: steps.By{"fay"}, Within: time.Hour}
	links := make(chan string, 10)
	pay := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "pay", Asks: []steps.Question{approve}, Tasks: saga.Tasks{Mode: saga.TasksRequired}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			link, err := saga.Page(r, approve)
			if err != nil {
				return "", err
			}
			links <- link
			_, err = saga.Ask(r, approve)
			return "paid", err
		},
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	require.NoError(t, codec.KeysetFile{Path: filepath.Join(dir, "k.json")}.Create(keys))
	key, hash := auth.NewAPIKey()
	settings := "keyset: " + filepath.Join(dir, "k.json") + "\naudience: shop\nledger: sqlite:" + filepath.Join(dir, "l.db") +
		"\nauth-api-keys: " + file("keys.yaml", "- {hash: "+hash+", subject: ann}\n") + "\naddr: 127.0.0.1:0\nallow-host: [shop.example.com]\nworkers: 0\n"
	start := func(config string, args ...string) (log func() string, ended <-chan int) {
		said, err := os.CreateTemp(dir, "log")
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		code, done := make(chan int, 1), make(chan struct{})
		p := &program{options: Options{Server: server.Options{Name: "shop", Tools: []saga.Definition{pay}}}, stdin: os.Stdin, stdout: nowhere(t), stderr: said}
		go func() {
			defer close(done)
			code <- p.run(ctx, append([]string{"shop", "--config", config}, args...))
		}()
		t.Cleanup(func() {
			stop()
			<-done
			assert.NoError(t, said.Close())
		})
		return func() string {
			all, err := os.ReadFile(said.Name())
			require.NoError(t, err)
			return string(all)
		}, code
	}

	config := file("shop.yaml", settings+"public-url: https://shop.example.com\n")
	log, _ := start(config, "serve")
	url := regexp.MustCompile(`url=(http://[^ ]+)`)
	require.Eventually(t, func() bool { return url.MatchString(log()) }, 10*time.Second, 10*time.Millisecond)
	request, err := http.NewRequest(http.MethodPost, url.FindStringSubmatch(log())[1], strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+
		`"name":"pay","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`))
	require.NoError(t, err)
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28",
		"Mcp-Method": "tools/call", "Mcp-Name": "pay", "Authorization": "Bearer " + key,
	} {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)

	log, ended := start(config, "worker", "--workers", "2")
	select {
	case link := <-links:
		assert.True(t, strings.HasPrefix(link, "https://shop.example.com/ask/waiting/"), link)
	case code := <-ended:
		t.Fatalf("the worker ended with %d: %s", code, log())
	case <-time.After(20 * time.Second):
		t.Fatal("the worker does nothing: ", log())
	}

	log, ended = start(file("none.yaml", settings), "worker", "--workers", "2")
	assert.Equal(t, exitUsage, <-ended, "it does not know where the pages are")
	assert.Contains(t, log(), "--public-url")
	assert.NotContains(t, log(), "Options")
}
