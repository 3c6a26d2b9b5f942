package interop

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rawMessage is any JSON-RPC message.
type rawMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// rawSession is a session of 2025-11-25, message by message, with a server that dies now and then.
type rawSession interface {
	// begin introduces the client to a server that has just been started.
	begin() error
	// number has the next request have an id, instead of the next.
	number(id int)
	// call sends a request and returns its response; heard gets each message before that.
	call(method string, params string, heard func(rawMessage) error) (rawMessage, error)
	// answer sends a response of the client's.
	answer(id json.RawMessage, result string) error
	// kill ends the server without notice and starts another one.
	kill()
}

const introduction = `{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"experimental":%s},"clientInfo":{"name":"raw","version":"1"}}`

// errDied ends what a client does when its server has been killed.
var errDied = errors.New("the server has been killed")

// overHTTP is a rawSession whose id outlives the server.
type overHTTP struct {
	*process
	experiments string
	session     string
	sent        int
}

func (s *overHTTP) post(body string) (*http.Response, error) {
	req, err := http.NewRequest(http.MethodPost, s.url(), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if s.session != "" {
		req.Header.Set("Mcp-Session-Id", s.session)
	}
	return http.DefaultClient.Do(req)
}

func (s *overHTTP) begin() error {
	if s.session != "" {
		return nil
	}
	resp, err := s.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":` + fmt.Sprintf(introduction, s.experiments) + `}`)
	if err == nil {
		s.session = resp.Header.Get("Mcp-Session-Id")
		resp.Body.Close()
	}
	return err
}

func (s *overHTTP) call(method, params string, heard func(rawMessage) error) (m rawMessage, err error) {
	s.sent++
	resp, err := s.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, s.sent, method, params))
	if err != nil {
		return m, err
	}
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") == "application/json" {
		return m, json.NewDecoder(resp.Body).Decode(&m)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		m = rawMessage{}
		if err := json.Unmarshal(data, &m); err != nil || m.Method == "" {
			return m, err
		}
		if err := heard(m); err != nil {
			return m, err
		}
	}
	return m, cmp.Or(lines.Err(), io.ErrUnexpectedEOF)
}

func (s *overHTTP) answer(id json.RawMessage, result string) error {
	resp, err := s.post(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":` + result + `}`)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		return errors.New(resp.Status)
	}
	return nil
}

func (s *overHTTP) number(id int)  { s.sent = id - 1 }
func (s *overPipes) number(id int) { s.sent = id - 1 }

func (s *overHTTP) kill() { require.NoError(s.t, s.restart()) }

// overPipes is a rawSession of a process of its own.
type overPipes struct {
	t           *testing.T
	experiments string
	at          target
	cmd         *exec.Cmd
	in          io.Writer
	out         *bufio.Scanner
	sent        int
}

func (s *overPipes) begin() error {
	s.cmd = exec.Command(s.at.Command, s.at.Args...)
	in, err := s.cmd.StdinPipe()
	require.NoError(s.t, err)
	out, err := s.cmd.StdoutPipe()
	require.NoError(s.t, err)
	require.NoError(s.t, s.cmd.Start())
	s.in, s.out = in, bufio.NewScanner(out)
	_, err = s.call("initialize", fmt.Sprintf(introduction, s.experiments), nil)
	return err
}

func (s *overPipes) call(method, params string, heard func(rawMessage) error) (m rawMessage, err error) {
	s.sent++
	if _, err := fmt.Fprintf(s.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", s.sent, method, params); err != nil {
		return m, err
	}
	for s.out.Scan() {
		m = rawMessage{}
		if err := json.Unmarshal(s.out.Bytes(), &m); err != nil || m.Method == "" {
			return m, err
		}
		if err := heard(m); err != nil {
			return m, err
		}
	}
	return m, cmp.Or(s.out.Err(), io.ErrUnexpectedEOF)
}

func (s *overPipes) answer(id json.RawMessage, result string) error {
	_, err := fmt.Fprintf(s.in, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, result)
	return err
}

func (s *overPipes) kill() {
	s.end()
	require.NoError(s.t, s.begin())
}

func (s *overPipes) end() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// killed runs a test on HTTP and on pipes, with a client of these experiments, each time with a server that is killed after another
// event; but for SAGA_NIGHTLY=1, every other event has its turn on HTTP and the rest on pipes. play
// calls event for each, which fails when the server was killed.
func killed(t *testing.T, experiments string, events int, play func(t *testing.T, s rawSession, event func() error)) {
	onlyIfWanted(t, "another worker waits until the lease of the one that died is over")
	t.Parallel()
	for nth, way := range []string{"HTTP", "stdio"} {
		for at := range events {
			if !nightly && at%2 != nth {
				continue
			}
			t.Run(fmt.Sprintf("%s %d", way, at), func(t *testing.T) {
				t.Parallel()
				ledger := filepath.Join(t.TempDir(), "ledger.db")
				var s rawSession
				if way == "HTTP" {
					s = &overHTTP{experiments: experiments, process: startHTTP(t, "--ledger", ledger)}
				} else {
					pipes := &overPipes{t: t, experiments: experiments, at: newProcess(t, "--ledger", ledger).stdio()}
					t.Cleanup(func() { pipes.end() })
					s = pipes
				}
				require.NoError(t, s.begin())
				seen := 0
				play(t, s, func() error {
					if seen++; seen == at+1 {
						s.kill()
						return errDied
					}
					return nil
				})
				assert.Greater(t, seen, at, "the server was killed")
			})
		}
	}
}

// answering answers what a task asks.
func answering(s rawSession, event func() error) func(rawMessage) error {
	return func(m rawMessage) error {
		if err := event(); err != nil || m.ID == nil {
			return err
		}
		if err := s.answer(m.ID, `{"action":"accept","content":{"name":"Jo","confirm":true}}`); err != nil {
			return err
		}
		return event()
	}
}

// TestSessionTaskWhileServersDie kills the server between any two messages of a task's. The
// client looks again, and is answered in the end.
func TestSessionTaskWhileServersDie(t *testing.T) {
	killed(t, `{}`, 9, func(t *testing.T, s rawSession, event func() error) {
		m, err := s.call("tools/call", `{"name":"test_tool_with_task","task":{}}`, nil)
		require.NoError(t, err)
		var created struct {
			Task struct{ TaskID string }
		}
		require.NoError(t, json.Unmarshal(m.Result, &created))
		about := fmt.Sprintf(`{"taskId":%q}`, created.Task.TaskID)
		_ = event()
		deadline, last := time.Now().Add(4*time.Minute), ""
		for ends := 0; ends < 2; { // the result can be read any number of times
			require.Less(t, time.Now(), deadline)
			m, err := s.call("tasks/get", about, nil)
			require.NoError(t, err)
			var task struct{ Status string }
			require.NoError(t, json.Unmarshal(m.Result, &task), "%s %v", m.Result, m.Error)
			if task.Status != last {
				last = task.Status
				if event() != nil {
					continue
				}
			}
			if task.Status == "working" {
				time.Sleep(20 * time.Millisecond)
				continue
			}
			m, err = s.call("tasks/result", about, answering(s, event))
			if errors.Is(err, errDied) {
				continue
			}
			require.NoError(t, err)
			require.Contains(t, string(m.Result), "Hello, Jo!", "%v", m.Error)
			ends++
			_ = event()
		}
		m, err = s.call("tasks/get", about, nil)
		require.NoError(t, err)
		require.Contains(t, string(m.Result), `"status":"completed"`)
	})
}

// TestPlainCallWhileServersDie does so while a client waits for a call, which it then sends again
// with the same key.
func TestPlainCallWhileServersDie(t *testing.T) {
	killed(t, `{}`, 3, func(t *testing.T, s rawSession, event func() error) {
		deadline := time.Now().Add(4 * time.Minute)
		for ends := 0; ends < 2; {
			require.Less(t, time.Now(), deadline)
			m, err := s.call("tools/call", `{"name":"confirm_delete","arguments":{"filename":"a"},"_meta":{"io.github.mcpsaga/idempotencyKey":"k"}}`, answering(s, event))
			if errors.Is(err, errDied) {
				continue
			}
			require.NoError(t, err)
			require.Contains(t, string(m.Result), "a would be deleted.", "%v", m.Error)
			ends++
			_ = event()
		}
		if _, ok := s.(*overPipes); !ok {
			return // nobody in particular is shown a list
		}
		m, err := s.call("tasks/list", `{}`, nil)
		require.NoError(t, err)
		require.Equal(t, 0, strings.Count(string(m.Result), `"taskId"`), "a call is none of the client's tasks: %s", m.Result)
	})
}
