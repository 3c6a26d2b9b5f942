package legacy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/client/legacy"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/memoryhttp"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

type place struct {
	Where string `json:"where"`
}

var askWhere = &steps.Form[place]{ID: "where", Message: "Where?"}

// survey has to be a task.
var survey = saga.Flow[struct{}, string]{
	Info: saga.Info{Name: "survey", Asks: []steps.Question{askWhere}, Tasks: saga.Tasks{Mode: saga.TasksRequired, Poll: 100 * time.Millisecond}},
	Run: func(r *saga.Run, _ struct{}) (string, error) {
		r.Progress(1, 2, "looking")
		if err := r.Sleep(150 * time.Millisecond); err != nil {
			return "", err
		}
		got, err := saga.Ask(r, askWhere)
		return "surveyed " + got.Where, err
	},
}

// newTaskServer is a server of this module, and how to stop it.
func newTaskServer() (*server.Server, func()) {
	keys, err := codec.NewKeyset()
	if err != nil {
		panic(err)
	}
	store := ledger.NewMemory(ledger.MemoryOptions{})
	s, err := server.New(server.Options{Tools: []saga.Definition{survey}, Keys: keys, Ledger: store, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	return s, func() {
		s.Close()
		_ = store.Close()
	}
}

// recorder notes what is sent and answered, but for streams.
type recorder struct {
	mu            sync.Mutex
	said, answers []string
}

func (r *recorder) RoundTrip(q *http.Request) (*http.Response, error) {
	var sent []byte
	if q.Body != nil {
		sent, _ = io.ReadAll(q.Body)
		q.Body = io.NopCloser(bytes.NewReader(sent))
	}
	response, err := http.DefaultTransport.RoundTrip(q)
	if err == nil && strings.Contains(string(sent), `"tasks/cancel"`) {
		got, _ := io.ReadAll(response.Body)
		response.Body = io.NopCloser(bytes.NewReader(got))
		r.mu.Lock()
		r.said = append(r.said, string(got))
		r.mu.Unlock()
	}
	if strings.Contains(string(sent), `"action"`) {
		r.mu.Lock()
		r.answers = append(r.answers, string(sent))
		r.mu.Unlock()
	}
	return response, err
}

// A tool that has to be a task is called as one: it shows how it is, asks, ends, and is cancelled
// with its call.
func TestToolsThatMustBeTasks(t *testing.T) {
	t.Parallel()
	s, stop := newTaskServer()
	defer stop()
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	self, err := os.Executable()
	require.NoError(t, err)
	var heard recorder
	for name, transport := range map[string]client.Transport{
		"HTTP":  &client.HTTP{URL: web.URL + server.Endpoint, RoundTripper: &heard},
		"stdio": &client.Stdio{Command: self, Env: append(os.Environ(), asServer+"=tasks", "STARTS="+os.DevNull), Stderr: io.Discard},
	} {
		t.Run(name, func(t *testing.T) {
			c := client.New(transport, client.Options{Protocol: "2025-11-25", Sessions: legacy.Open})
			defer c.Close()
			var asked []string
			var states []string
			h := handlers(&asked)
			h.OnProgress = func(p client.Progress) {
				if p.Task != nil {
					states = append(states, p.Task.Status)
				}
			}
			for range 2 { // the second time the client knows
				asked, states = nil, nil
				result, err := c.Call(t.Context(), "survey", nil, h)
				require.NoError(t, err)
				assert.Equal(t, "surveyed here", result.Content.Text())
				assert.Equal(t, []string{"elicitation-1: Where?"}, asked)
				require.NotEmpty(t, states)
				assert.Equal(t, "working", states[0])
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			h.Elicit = func(ctx context.Context, _ *client.Request) (*client.ElicitResult, error) {
				cancel()
				<-ctx.Done()
				return nil, ctx.Err()
			}
			_, err := c.Call(ctx, "survey", nil, h)
			require.ErrorIs(t, err, context.Canceled)
			if name == "HTTP" {
				heard.mu.Lock()
				defer heard.mu.Unlock()
				require.Len(t, heard.said, 1)
				assert.Contains(t, heard.said[0], `"status":"cancelled"`)
				require.Len(t, heard.answers, 2)
				assert.Contains(t, heard.answers[0], `"io.modelcontextprotocol/related-task":{"taskId":"`)
			}
			h.Elicit = func(context.Context, *client.Request) (*client.ElicitResult, error) { return nil, errors.New("no") }
			_, err = c.Call(t.Context(), "survey", nil, h)
			assert.NotErrorIs(t, err, context.Canceled, "the session continues")
		})
	}
}

// A server may refuse such a call by a result, and the wait for one may break: the task goes on.
func TestWaitForATaskThatBreaks(t *testing.T) {
	t.Parallel()
	for name, breaks := range map[string]func(http.ResponseWriter, *http.Request){
		"the stream ends": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}\n\n")
		},
		"the gateway is alone": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				status := "working"
				count := map[string]int{}
				url, through := memoryhttp.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					var m struct {
						Method string
						ID     json.RawMessage
						Params struct {
							Task   any
							TaskID string
							Cursor string
						}
					}
					_ = json.NewDecoder(r.Body).Decode(&m)
					mu.Lock()
					count[m.Method]++
					n, now := count[m.Method], status
					mu.Unlock()
					say := func(result string) {
						w.Header().Set("Content-Type", "application/json")
						_, _ = fmt.Fprintf(w, "{\"jsonrpc\":\"2.0\",\n\"id\":%s,\"result\":%s}", m.ID, result)
					}
					task := `{"taskId":"t1","statusMessage":"of itself","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":null}`
					switch {
					case r.Method == http.MethodGet:
						w.WriteHeader(http.StatusMethodNotAllowed)
					case m.Method == "initialize":
						w.Header().Set("Mcp-Session-Id", "s")
						say(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":""}}`)
					case m.Method == "tools/list" && m.Params.Cursor == "":
						say(`{"tools":[{"name":"other"}],"nextCursor":"2"}`)
					case m.Method == "tools/list":
						say(`{"tools":[{"name":"slow","execution":{"taskSupport":"required"}}]}`)
					case m.Method == "tools/call" && m.Params.Task == nil:
						say(`{"isError":true,"content":[{"type":"text","text":"Tool slow requires task augmentation"}]}`)
					case m.Method == "tools/call":
						say(`{"task":` + task + `}`)
					case m.Method == "tasks/result" && n == 1:
						breaks(w, r)
					case m.Method == "tasks/result" && now == "cancelled":
						w.Header().Set("Content-Type", "application/json")
						_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"the task was cancelled"}}`, m.ID)
					case m.Method == "tasks/result":
						time.Sleep(10 * time.Minute) // longer than a client waits for one turn
						w.Header().Set("Content-Type", "text/event-stream")
						_, _ = fmt.Fprintf(w, "event: message\r\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\r\ndata: \"result\":{\"content\":[{\"type\":\"text\",\"text\":\"there\"}]}}\r\n\r\n", m.ID)
					default:
						w.WriteHeader(http.StatusAccepted)
					}
				}))
				c := client.New(&client.HTTP{URL: url, RoundTripper: through}, client.Options{Protocol: "2025-11-25", Sessions: legacy.Open})
				defer c.Close()
				result, err := c.Call(t.Context(), "slow", nil, client.Handlers{})
				require.NoError(t, err)
				assert.Equal(t, "there", result.Content.Text())
				result, err = c.Call(t.Context(), "other", nil, client.Handlers{})
				require.NoError(t, err)
				assert.NotEmpty(t, result)
				mu.Lock()
				status = "cancelled"
				mu.Unlock()
				_, err = c.Call(t.Context(), "slow", nil, client.Handlers{})
				require.ErrorContains(t, err, "the task was cancelled")
				mu.Lock()
				defer mu.Unlock()
				assert.Equal(t, []int{3, 2, 5}, []int{count["tasks/result"], count["tools/list"], count["tools/call"]})
			})
		})
	}
}
