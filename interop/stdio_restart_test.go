package interop

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/gittest"
)

// errAsked ends a call at the client, which does not answer.
var errAsked = errors.New("asked")

// stdioEnds are the ways in which hosts end a server that they have started.
var stdioEnds = map[string]func(t *testing.T, s *overPipes){
	"SIGKILL":      func(t *testing.T, s *overPipes) { require.NoError(t, s.cmd.Process.Kill()) },
	"SIGTERM":      func(t *testing.T, s *overPipes) { require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM)) },
	"end of input": func(t *testing.T, s *overPipes) { require.NoError(t, s.in.(io.Closer).Close()) },
}

// gone ends the process, and returns what it still said of the call with that id, if anything.
func (s *overPipes) gone(end func(*testing.T, *overPipes), id int) (last *rawMessage) {
	end(s.t, s)
	for s.out.Scan() {
		var m rawMessage
		require.NoError(s.t, json.Unmarshal(s.out.Bytes(), &m))
		if m.Method == "" && string(m.ID) == fmt.Sprint(id) {
			last = &m
		}
	}
	_ = s.cmd.Wait()
	return last
}

// A host starts its server anew while the user is asked. What was sent by requests/resume and by
// the saga methods goes on in the new process; a plain call does not.
func TestStdioServerStartedAnew(t *testing.T) {
	onlyIfWanted(t, "starts a server for each of many rounds")
	t.Parallel()
	require.NoError(t, buildSaga())
	for how, end := range stdioEnds {
		begin := func(t *testing.T, ledger bool) *overPipes {
			t.Parallel()
			p := newProcess(t)
			makeRepository(t, p.root)
			addDirectories(t, filepath.Join(p.root, "repo"), "here", "there")
			at := p.reference()
			if ledger {
				at.Args = append(at.Args, "--ledger", "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"))
			} else {
				at.Args = append(at.Args, "--ledger", "off")
			}
			s := &overPipes{t: t, experiments: `{"resumableRequests":{}}`, at: at}
			t.Cleanup(func() { s.end() })
			require.NoError(t, s.begin())
			return s
		}
		// asked calls a tool until it asks, as the request 40.
		asked := func(s *overPipes, tool, args string) (token string) {
			s.number(40)
			_, err := s.call("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, args), func(m rawMessage) error {
				switch m.Method {
				case "notifications/requests/resumePolicy":
					var policy struct{ ResumeToken string }
					require.NoError(s.t, json.Unmarshal(m.Params, &policy))
					token = policy.ResumeToken
				case "elicitation/create":
					return errAsked
				}
				return nil
			})
			require.ErrorIs(s.t, err, errAsked)
			return token
		}
		t.Run(how+", requests/resume", func(t *testing.T) {
			s := begin(t, true)
			token := asked(s, "repo_report", `{"repo":"repo"}`)
			require.NotEmpty(t, token)
			assert.Nil(t, s.gone(end, 40), "the request is not over")
			require.NoError(t, s.begin())
			m, err := s.call("requests/getStatus", fmt.Sprintf(`{"requestId":40,"resumeToken":%q}`, token), nil)
			require.NoError(t, err)
			require.Contains(t, string(m.Result), `"hasInputRequest":true`, "%v", m.Error)
			s.number(40)
			questions := 0
			m, err = s.call("requests/resume", fmt.Sprintf(`{"resumeToken":%q}`, token), func(m rawMessage) error {
				if m.Method == "elicitation/create" {
					questions++
					return s.answer(m.ID, `{"action":"accept","content":{"directories":["here"]}}`)
				}
				return nil
			})
			require.NoError(t, err)
			assert.Equal(t, "40", string(m.ID))
			assert.Equal(t, 1, questions)
			assert.Contains(t, string(m.Result), `"content":[`, "%v", m.Error)
			assert.NotContains(t, string(m.Result), `"isError":true`)
		})
		for name, ledger := range map[string]bool{"a ledger": true, "no ledger": false} {
			t.Run(how+", the saga methods, "+name, func(t *testing.T) {
				s := begin(t, ledger)
				m, err := s.call("tools/callSaga", `{"name":"complex_tool"}`, nil)
				require.NoError(t, err)
				for _, answer := range []string{
					`{"stepId":"step-elicitation-A","result":{"action":"accept","content":{"target":"production"}}}`,
					`{"stepId":"step-sampling-B","result":{"role":"assistant","model":"m","content":{"type":"text","text":"Yes."}}}`,
				} {
					var saga struct{ SagaToken string }
					require.NoError(t, json.Unmarshal(m.Result, &saga))
					require.NotEmpty(t, saga.SagaToken, "%v", m.Error)
					s.gone(end, 0)
					require.NoError(t, s.begin())
					m, err = s.call("tools/resumeSaga", fmt.Sprintf(`{"sagaToken":%q,"completedSteps":[%s]}`, saga.SagaToken, answer), nil)
					require.NoError(t, err)
				}
				assert.Contains(t, string(m.Result), deployed, "%v", m.Error)
			})
			t.Run(how+", a plain call, "+name, func(t *testing.T) {
				s := begin(t, ledger)
				assert.Empty(t, asked(s, "release_notes", `{"repo":"repo"}`), "the tool cannot be a task, so nothing promises that the call goes on")
				switch last := s.gone(end, 40); how {
				case "SIGKILL":
					assert.Nil(t, last)
				case "SIGTERM":
					require.NotNil(t, last)
					assert.Equal(t, "the server stops; call again", last.Error.Message)
				default:
					require.NotNil(t, last)
					assert.Equal(t, "the session ended before the client had answered", last.Error.Message)
				}
				require.NoError(t, s.begin())
				asked(s, "release_notes", `{"repo":"repo"}`) // the same id is another call
			})
		}
	}
}

// addDirectories commits a file in each of the directories.
func addDirectories(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, "thing.txt"), []byte(name), 0o600))
	}
	gittest.Commit(t, dir, "Add directories", 1_790_000_100)
}
