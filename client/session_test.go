package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// heldSession is a session whose server answers when, and what, it is told to.
type heldSession struct {
	config  client.SessionConfig
	begun   chan<- *heldSession // with every request
	answers chan error          // to requests; nil is a result
	closed  atomic.Bool
	token   string // of the last request's progress, as JSON
}

// Request implements [client.Session].
func (s *heldSession) Request(ctx context.Context, _ string, params json.RawMessage) (json.RawMessage, error) {
	s.token = string(jsonview.Get(params, "_meta", "progressToken"))
	s.begun <- s
	select {
	case err := <-s.answers:
		return json.RawMessage(`{"content":[]}`), err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close implements [client.Session].
func (s *heldSession) Close() error {
	s.closed.Store(true)
	return nil
}

func (s *heldSession) ask() (json.RawMessage, error) {
	form := `{"message":"Really?","requestedSchema":{"type":"object","properties":{}}}`
	return s.config.Answer(context.Background(), "elicitation/create", json.RawMessage(form))
}

// What a call asks that was given up, nobody is asked on behalf of the next: nothing tells whose a question is.
func TestQuestionsOfCallsThatWereGivenUp(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]struct {
		end  func(s *heldSession, cancel func())
		kept bool // the session is for the next call as well
	}{
		"cancelled": {end: func(_ *heldSession, cancel func()) { cancel() }},
		"paused":    {end: func(s *heldSession, _ func()) { _, _ = s.ask() }},
		"malformed": {end: func(s *heldSession, _ func()) { s.answers <- &client.ProtocolError{Reason: "what is this?"} }},
		"lost": {end: func(s *heldSession, _ func()) {
			s.answers <- &client.TransportError{Sent: true, Err: errors.New("lost")}
		}},
		"answered": {end: func(s *heldSession, _ func()) { s.answers <- nil }, kept: true},
		"refused":  {end: func(s *heldSession, _ func()) { s.answers <- &client.Error{Code: -32602, Message: "no"} }, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun := make(chan *heldSession, 9)
			c := client.New(&client.HTTP{URL: "http://unused.example/"}, client.Options{
				Protocol: "2025-06-18",
				Sessions: func(_ context.Context, config client.SessionConfig) (client.Session, error) {
					return &heldSession{config: config, begun: begun, answers: make(chan error)}, nil
				},
			})
			defer c.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			given := inBackground(func() error {
				_, err := c.Call(ctx, "delete_all", nil, client.Handlers{
					Elicit: func(context.Context, *client.Request) (*client.ElicitResult, error) { return nil, client.ErrPause },
				})
				return err
			})
			first := <-begun
			call.end(first, cancel)
			if err := <-given; name != "answered" {
				require.Error(t, err)
			}

			asked := 0
			next := inBackground(func() error {
				_, err := c.Call(t.Context(), "make_tea", nil, client.Handlers{
					Elicit: func(context.Context, *client.Request) (*client.ElicitResult, error) {
						asked++
						return client.Decline(), nil
					},
				})
				return err
			})
			second := <-begun
			_, err := first.ask()
			if call.kept {
				assert.NoError(t, err)
				assert.Same(t, first, second)
			} else {
				assert.ErrorContains(t, err, "this client has called nothing that could ask")
				assert.NotSame(t, first, second)
				assert.True(t, first.closed.Load())
			}
			second.answers <- nil
			require.NoError(t, <-next)
			assert.Equal(t, call.kept, asked == 1)
		})
	}
}

// What a handler panics with comes to who has called, who can recover from it.
func TestPanicsOfHandlersInSessions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handlers client.Handlers
		meets    func(s *heldSession)
	}{
		"asked": {
			client.Handlers{Elicit: func(context.Context, *client.Request) (*client.ElicitResult, error) { panic("mine") }},
			func(s *heldSession) { _, _ = s.ask() },
		},
		"told": {
			client.Handlers{OnProgress: func(client.Progress) { panic("mine") }},
			func(s *heldSession) {
				s.config.Notify("notifications/progress", json.RawMessage(`{"progressToken":`+s.token+`,"progress":1}`))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			begun := make(chan *heldSession, 1)
			caller := client.New(&client.HTTP{URL: "http://127.0.0.1:1"}, client.Options{Protocol: "2025-11-25", Sessions: func(_ context.Context, config client.SessionConfig) (client.Session, error) {
				return &heldSession{config: config, begun: begun, answers: make(chan error, 1)}, nil
			}})
			defer caller.Close()
			var s *heldSession
			go func() {
				s = <-begun
				c.meets(s)
			}()
			assert.PanicsWithValue(t, "mine", func() { _, _ = caller.Call(t.Context(), "x", nil, c.handlers) })
			assert.True(t, s.closed.Load())
		})
	}
}

// So it does if a process tells of progress.
func TestPanicsOfHandlersOverStdio(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("sh")
	}
	const script = `read -r line; token=$(printf '%s' "$line" | sed 's/.*progressToken":"\([A-Za-z0-9]*\).*/\1/')
printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"%s","progress":1}}\n' "$token"; cat >/dev/null`
	for _, protocol := range []string{"saga", "2026-07-28"} {
		caller := client.New(&client.Stdio{Command: "sh", Args: []string{"-c", script}}, client.Options{Protocol: protocol})
		defer caller.Close()
		assert.PanicsWithValue(t, "mine", func() {
			_, _ = caller.Call(t.Context(), "x", nil, client.Handlers{OnProgress: func(client.Progress) { panic("mine") }})
		})
	}
}

// A handler that ends its goroutine, as require does in a test, ends its call, and not what is read for other calls.
func TestHandlersOverStdioThatDoNotReturn(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("sh")
	}
	const script = `read -r line; token=$(printf '%s' "$line" | sed 's/.*progressToken":"\([A-Za-z0-9]*\).*/\1/')
printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"%s","progress":1}}\n' "$token"
while read -r line; do case $line in *'"id":'*)
printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"heard"}}\n' "$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')"; esac; done`
	caller := client.New(&client.Stdio{Command: "sh", Args: []string{"-c", script}}, client.Options{Protocol: "saga", Timeout: 20 * time.Second})
	defer caller.Close()
	_, err := caller.Call(t.Context(), "x", nil, client.Handlers{OnProgress: func(client.Progress) { runtime.Goexit() }})
	require.ErrorContains(t, err, "a handler of the call has not returned")
	_, err = caller.Call(t.Context(), "x", nil, client.Handlers{})
	require.ErrorContains(t, err, "heard")
}
