package client_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
)

// playServer is what the test binary does as a child process. Answers depend
// only on the request, as those of a server without sessions do.
func playServer(mode string) int {
	fmt.Fprintln(os.Stderr, "the child says hello")
	if mode == "stubborn" {
		signal.Ignore(syscall.SIGTERM)
	}
	stdin := bufio.NewReader(os.Stdin)
	if mode == "drowsy" {
		sleepInTheFirstLine(stdin)
	}
	in := bufio.NewScanner(stdin)
	in.Buffer(nil, 1<<22)
	var before asked
	var cancelled struct{ RequestID json.RawMessage }
	for in.Scan() {
		var request asked
		if err := json.Unmarshal(in.Bytes(), &request); err != nil {
			return 3
		}
		switch {
		case mode == "chatty":
			fmt.Println("Welcome to the server!")
		case mode == "long":
			fmt.Println(strings.Repeat("x", 1<<20))
		case mode == "stray":
			fmt.Println(`{"jsonrpc":"2.0","id":99,"result":{}}`)
		case mode == "flood": // and reads nothing of what it is answered
			for {
				fmt.Println(`{"jsonrpc":"2.0","id":"s1","method":"ping","params":{"x":"` + strings.Repeat("x", 2000) + `"}}`)
			}
		case mode == "drip":
			for {
				fmt.Print(" ")
				time.Sleep(time.Millisecond)
			}
		case mode == "asking":
			fmt.Println(`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`)
			fmt.Println(`{"jsonrpc":"2.0","id":"s1","method":"ping"}`)
			in.Scan()
			pong := in.Text()
			fmt.Println(`{"jsonrpc":"2.0","id":"s2","method":"roots/list"}`)
			in.Scan()
			answerLine(request, fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, pong+in.Text()))
		case mode == "deaf":
			if request.Method == "notifications/cancelled" {
				_ = os.WriteFile(os.Getenv("MARK"), request.Params, 0o600)
			} else {
				_ = os.WriteFile(os.Getenv("MARK"), []byte(request.Method), 0o600)
			}
		case mode == "late" && request.Method == "notifications/cancelled":
			_ = json.Unmarshal(request.Params, &cancelled)
			request.ID = cancelled.RequestID
			answerLine(request, askTarget)
		case (mode == "mute" || mode == "late") && request.Method == "tools/list":
			answerLine(request, `{"tools":[]}`)
		case mode == "mute", mode == "late":
		case mode == "pairs" && before.ID == nil:
			before = request
			firstTime()
		case mode == "pairs":
			answerLine(before, `{"tools":[]}`)
			answerLine(request, `{"tools":[]}`)
		case mode == "mortal" && request.Method == "tools/resumeSaga" && firstTime():
			return 7 // in the middle of a turn
		case mode == "later" && request.Method != "tools/callSaga" && firstTime(),
			mode == "never" && request.Method != "tools/callSaga":
			fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-31503,\"message\":\"send the same request again\"}}\n", request.ID)
		case request.Method == "prompts/get":
			answerLine(request, `{"resultType":"complete","messages":[]}`)
		case request.Method == "tools/callSaga":
			answerLine(request, askTarget)
		case bytes.Contains(request.Params, []byte(`"v1"`)):
			answerLine(request, askModel)
		case request.Method == "tools/resumeSaga":
			answerLine(request, deployed)
		default:
			fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-32601,\"message\":\"no\",\"data\":[1]}}\n", request.ID)
		}
	}
	if mode == "stubborn" {
		time.Sleep(time.Minute)
	}
	return 0
}

func answerLine(r asked, result string) {
	fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", r.ID, result)
}

// firstTime reports whether no process with the same MARK has asked before.
func firstTime() bool {
	f, err := os.OpenFile(os.Getenv("MARK"), os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false
	}
	_ = f.Close()
	return true
}

func child(t *testing.T, mode string) (*client.Stdio, *client.Client) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	transport := &client.Stdio{
		Command: self,
		Env:     append(os.Environ(), childMode+"="+mode, "MARK="+filepath.Join(t.TempDir(), "mark")),
		Stderr:  new(bytes.Buffer),
		MaxLine: 1 << 16,
		Grace:   200 * time.Millisecond,
	}
	c := client.New(transport, client.Options{Protocol: "saga"})
	t.Cleanup(func() { _ = c.Close() })
	return transport, c
}

func TestStdioTranscript(t *testing.T) {
	t.Parallel()
	transport, c := child(t, "plain")
	var who people
	got, err := c.Call(t.Context(), "complex_tool", nil, who.handlers())
	require.NoError(t, err)
	assert.NotEmpty(t, got.Content.Text())

	var refused *client.Error
	require.ErrorAs(t, reach(t.Context(), c), &refused)
	assert.Equal(t, &client.Error{Code: -32601, Message: "no", Data: json.RawMessage("[1]")}, refused)

	require.NoError(t, c.Close())
	assert.Contains(t, transport.Stderr.(*bytes.Buffer).String(), "hello")
	_, err = c.Call(t.Context(), "complex_tool", nil, who.handlers())
	require.ErrorContains(t, err, "closed")
	require.NoError(t, c.Close())
}

func TestStdioSurvivesTheDeathOfTheServer(t *testing.T) {
	t.Parallel()
	_, c := child(t, "mortal")
	var who people
	_, err := c.Call(t.Context(), "complex_tool", nil, who.handlers())
	require.NoError(t, err)
	assert.Equal(t, people{elicited: 1, sampled: 1}, who)
}

func TestStdioServersOfNoUse(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		"chatty": "Welcome", "long": "more than 65536 bytes", "stray": "not asked",
	} {
		t.Run(mode, func(t *testing.T) {
			_, c := child(t, mode)
			_, err := c.Call(t.Context(), "x", nil, client.Handlers{})
			var wrong *client.ProtocolError
			require.ErrorAs(t, err, &wrong)
			assert.ErrorContains(t, err, want)
		})
	}
}

func TestStdioAnswersTheServer(t *testing.T) {
	t.Parallel()
	_, c := child(t, "asking")
	got, err := c.Call(t.Context(), "x", nil, client.Handlers{})
	require.NoError(t, err)
	assert.Contains(t, got.Content.Text(), `"s1"`)
	assert.Contains(t, got.Content.Text(), `-32601`)
}

// A process that floods its client with requests, or never ends a line, is given up
// in time, and can be got rid of.
func TestStdioHostileServers(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"flood", "drip"} {
		t.Run(mode, func(t *testing.T) {
			transport, _ := child(t, mode)
			c := client.New(transport, client.Options{Protocol: "saga", Timeout: 300 * time.Millisecond})
			began := time.Now()
			_, err := c.Call(t.Context(), "x", nil, client.Handlers{})
			require.ErrorIs(t, err, client.ErrTimeout)
			require.NoError(t, c.Close())
			assert.Less(t, time.Since(began), 10*time.Second)
		})
	}
}

func TestStdioCancels(t *testing.T) {
	t.Parallel()
	transport, c := child(t, "deaf")
	mark := strings.TrimPrefix(transport.Env[len(transport.Env)-1], "MARK=")
	received := func(what string) {
		t.Helper()
		require.Eventually(t, func() bool {
			data, err := os.ReadFile(mark)
			return err == nil && string(data) == what
		}, time.Minute, 10*time.Millisecond)
	}
	ctx, cancel := context.WithCancel(t.Context())
	given := make(chan error, 1)
	go func() { given <- reach(ctx, c) }()
	received("tools/list")
	cancel()
	require.ErrorIs(t, <-given, context.Canceled)
	received(`{"requestId":1}`)
}

func TestStdioKillsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	_, c := child(t, "stubborn")
	require.Error(t, reach(t.Context(), c))
	start := time.Now()
	require.NoError(t, c.Close())
	assert.Less(t, time.Since(start), 10*time.Second)
}

func TestStdioWithoutProgram(t *testing.T) {
	t.Parallel()
	c := client.New(&client.Stdio{Command: "no-such-program-anywhere"}, client.Options{Protocol: "saga"})
	_, err := c.Call(t.Context(), "x", nil, client.Handlers{})
	var lost *client.TransportError
	require.ErrorAs(t, err, &lost)
	assert.False(t, lost.Sent)
	require.NoError(t, c.Close())
}

// A server that asks for the same request again gets it, over stdio as over HTTP.
func TestStdioRepeatsWhatTheServerAsksFor(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(*client.Client) error{
		"a saga": func(c *client.Client) error {
			var who people
			_, err := c.Call(t.Context(), "complex_tool", nil, who.handlers())
			assert.Equal(t, people{elicited: 1, sampled: 1}, who, "nobody is asked twice")
			return err
		},
		"a prompt": func(c *client.Client) error {
			_, err := c.GetPrompt(t.Context(), "p", nil, client.Handlers{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			transport, _ := child(t, "later")
			var told []error
			c := client.New(transport, client.Options{Protocol: "saga",
				RetryPause: time.Millisecond,
				OnRetry:    func(err error) { told = append(told, err) },
			})
			require.NoError(t, do(c))
			require.Len(t, told, 1)
			assert.ErrorContains(t, told[0], "-31503")
			require.NoError(t, c.Close())
		})
	}
	t.Run("for RetryFor", func(t *testing.T) {
		transport, _ := child(t, "never")
		tries := 0
		c := client.New(transport, client.Options{Protocol: "saga",
			RetryFor: 2 * time.Second, RetryPause: 10 * time.Millisecond,
			OnRetry: func(error) { tries++ },
		})
		var who people
		_, err := c.Call(t.Context(), "complex_tool", nil, who.handlers())
		var refused *client.Error
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, int64(-31503), refused.Code)
		assert.Positive(t, tries)
		require.NoError(t, c.Close())
	})
}

// What cannot be repeated is not, whatever the server says: it may have acted.
func TestFirstTurnsAreNotRepeatedAtRequest(t *testing.T) {
	t.Parallel()
	s := play(t, refuse(-31503, "again"))
	_, err := s.client(t).Call(t.Context(), "complex_tool", nil, client.Handlers{})
	var refused *client.Error
	require.ErrorAs(t, err, &refused)
	assert.Len(t, s.got(), 1)
}
