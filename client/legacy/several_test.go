package legacy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/client/legacy"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// newSeveral is a server whose tool asks several things at once, and says what was answered to which.
func newSeveral() *server.Server {
	var asks []steps.Request
	var questions []steps.Question
	for i := range 5 {
		q := &steps.Form[place]{ID: fmt.Sprintf("q%d", i), Message: fmt.Sprint("Where is ", i+1, "?")}
		asks, questions = append(asks, q), append(questions, q)
	}
	keys, err := codec.NewKeyset()
	if err != nil {
		panic(err)
	}
	s, err := server.New(server.Options{Keys: keys, Logger: slog.New(slog.DiscardHandler), Tools: []saga.Definition{saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "several", Asks: questions},
		Run: func(r *saga.Run, _ struct{}) (said string, err error) {
			err = r.AskAll(asks...)
			for _, q := range asks {
				if err == nil {
					var got place
					got, err = q.(*steps.Form[place]).Answer(r)
					said += got.Where + " "
				}
			}
			return said, err
		},
	}}})
	if err != nil {
		panic(err)
	}
	return s
}

// Questions that a server asks at once are numbered, and put to the handlers, in the order in which they come.
func TestSeveralQuestionsAtOnce(t *testing.T) {
	t.Parallel()
	running := httptest.NewServer(newSeveral().Handler())
	t.Cleanup(running.Close)
	self, err := os.Executable()
	require.NoError(t, err)
	for name, to := range map[string]client.Transport{
		"HTTP":  &client.HTTP{URL: running.URL + "/mcp"},
		"stdio": &client.Stdio{Command: self, Env: append(os.Environ(), asServer+"=several"), Stderr: io.Discard},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := client.New(to, client.Options{Protocol: "2025-11-25", Sessions: legacy.Open})
			defer c.Close()
			for range 100 {
				var asked []string
				result, err := c.Call(t.Context(), "several", nil, client.Handlers{Elicit: func(_ context.Context, r *client.Request) (*client.ElicitResult, error) {
					var form struct{ Message string }
					err := json.Unmarshal(r.Params, &form)
					asked = append(asked, form.Message)
					return client.Accept(map[string]any{"where": r.StepID}), err
				}})
				require.NoError(t, err)
				require.Equal(t, []string{"Where is 1?", "Where is 2?", "Where is 3?", "Where is 4?", "Where is 5?"}, asked)
				require.Equal(t, "elicitation-1 elicitation-2 elicitation-3 elicitation-4 elicitation-5 ", result.Content.Text())
			}
		})
	}
}

// Nor does one keep the others waiting that is refused, or has the id of another, or is the last of its stream; and
// what else comes is not kept waiting by questions.
func TestSeveralQuestionsOfWhichSomeAreRefused(t *testing.T) {
	t.Parallel()
	question := func(id int, mode, message string) string {
		return fmt.Sprintf(`data: {"jsonrpc":"2.0","id":%d,"method":"elicitation\/create",`+"\ndata:"+`"params":{"mode":"%s","message":"%s","requestedSchema":{"type":"object","properties":{}}}}`, id, mode, message)
	}
	for name, events := range map[string][]string{
		"refused":   {question(1, "song", "x"), question(2, "form", "1"), question(3, "song", "x"), question(4, "form", "2"), question(5, "form", "3")},
		"repeated":  {question(1, "form", "1"), question(1, "form", "x"), question(2, "form", "2"), question(3, "form", "3")},
		"no params": {`data: {"jsonrpc":"2.0","id":1,"method":"elicitation/create"}`, question(2, "form", "1"), question(3, "form", "2"), question(4, "form", "3")},
		"long ends": {question(1, "form", "1") + "\n" + strings.Repeat("\r", 5000) + "\n" + question(2, "form", "2") + "\n" + strings.Repeat("\r", 5000) + "\n" + question(3, "form", "3")},
		"cancelled": {question(1, "form", "1"), `data: {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`, question(2, "form", "2"), question(3, "form", "3")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var answers sync.WaitGroup
			answers.Add(3)
			running := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var m struct {
					ID     json.RawMessage
					Method string
					Result json.RawMessage
				}
				_ = json.NewDecoder(r.Body).Decode(&m)
				w.Header().Set("Mcp-Session-Id", "s")
				switch {
				case m.Method == "initialize":
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}`, m.ID)
				case m.Method == "tools/call":
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, strings.Join(events, "\n\n")+"\n\n")
					_ = http.NewResponseController(w).Flush()
					answers.Wait()
					fmt.Fprintf(w, `data: {"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, m.ID)
				case r.Method == http.MethodGet:
					w.WriteHeader(http.StatusMethodNotAllowed)
				default:
					if m.Result != nil {
						answers.Done()
					}
					w.WriteHeader(http.StatusAccepted)
				}
			}))
			defer running.Close()
			c := client.New(&client.HTTP{URL: running.URL}, client.Options{Protocol: "2025-11-25", Sessions: legacy.Open, Timeout: 20 * time.Second})
			defer c.Close()
			var asked []string
			_, err := c.Call(t.Context(), "x", nil, client.Handlers{Elicit: func(_ context.Context, r *client.Request) (*client.ElicitResult, error) {
				var form struct{ Message string }
				err := json.Unmarshal(r.Params, &form)
				asked = append(asked, r.StepID+" "+form.Message)
				time.Sleep(200 * time.Millisecond) // so that what is repeated comes meanwhile
				return client.Accept(map[string]any{}), err
			}})
			require.NoError(t, err)
			assert.Equal(t, []string{"elicitation-1 1", "elicitation-2 2", "elicitation-3 3"}, asked)
		})
	}
}
