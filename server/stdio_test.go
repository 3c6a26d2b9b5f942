package server_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/internal/leaktest"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// patience is how long a test waits for what the server should say. One whose server
// says nothing fails, rather than keep all others waiting.
const patience = time.Minute

// impatiently closes a pipe after the time of patience, unless stopped before.
func impatiently(pipe interface{ CloseWithError(error) error }) (stop func() bool) {
	return time.AfterFunc(patience, func() { pipe.CloseWithError(errors.New("the server neither speaks nor reads")) }).Stop
}

func TestMain(m *testing.M) {
	http.DefaultClient.Timeout = patience // for streams as well
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // most tests end before there is much to collect
	}
	// Those that are parallel wait most of the time. -parallel changes it.
	if err := flag.Set("test.parallel", "24"); err != nil {
		panic(err)
	}
	leaktest.Main(m, goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

func newStdio(t testing.TB, tools ...saga.Definition) *server.Server {
	t.Helper()
	if tools == nil {
		tools = []saga.Definition{complextool.Tool}
	}
	s, err := server.New(server.Options{Keys: newKeys(t), Tools: tools, MaxBody: 2000, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return s
}

// lines serves the input to its end and returns the answers.
func lines(t testing.TB, s *server.Server, input string) []string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, s.ServeStdio(context.Background(), strings.NewReader(input), &out))
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func TestStdioTranscript(t *testing.T) {
	s := newStdio(t)
	playTranscript(t, func(request string) string {
		got := lines(t, s, request+"\n")
		require.Len(t, got, 1)
		return got[0]
	})
}

// A line that is no message is answered, and the connection goes on.
func TestStdioBadLines(t *testing.T) {
	ping := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}` }
	pong := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":{}}` }
	tests := []struct{ name, line, want string }{
		{"not JSON", "hello", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700`},
		{"half a message", `{"jsonrpc":"2.0","id":1`, `"code":-32700`},
		{"batch", "[" + ping("1") + "]", `"code":-32600`},
		{"id null", ping("null"), `"id":null,"error":{"code":-32600`},
		{"id with a fraction", ping("1.5"), `"id":null,"error":{"code":-32600,"message":"the id must be a string or an integer"`},
		{"id beyond 64 bits", ping("18446744073709551616"), `"id":null,"error":{"code":-32600,"message":"the id must be a string or an integer"`},
		{"no method", `{"jsonrpc":"2.0","id":5}`, `"id":5,"error":{"code":-32600`},
		{"unknown method", `{"jsonrpc":"2.0","id":-5,"method":"x"}`, `"id":-5,"error":{"code":-32601`},
		{"too long", strings.Repeat("x", 100_000), `"code":-32600,"message":"the message is too large"`},
		{"invalid UTF-8", "\"\xff\"", `"code":-32700`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := lines(t, newStdio(t), test.line+"\n"+ping(`"after"`)+"\n")
			require.Len(t, got, 2, got)
			all := strings.Join(got, "\n")
			assert.Contains(t, all, test.want)
			assert.Contains(t, all, pong(`"after"`))
		})
	}
	t.Run("silent", func(t *testing.T) {
		got := lines(t, newStdio(t), "\n  \r\n"+`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"+
			`{"jsonrpc":"2.0","id":1,"result":{}}`+"\n"+`{"jsonrpc":"2.0","id":-1,"result":{}}`+"\n"+`{"jsonrpc":"2.0","id":"1","result":{}}`+"\n"+
			ping("1")) // no newline at the end
		assert.Equal(t, []string{pong("1")}, got)
	})
	t.Run("ids", func(t *testing.T) {
		for _, id := range []string{"-7", "0", `"x"`, "9007199254740993", `"\u00e9<&"`} {
			assert.Equal(t, []string{pong(id)}, lines(t, newStdio(t), ping(id)+"\n"))
		}
	})
}

func TestStdioAnswersEverythingBeforeItEnds(t *testing.T) {
	var in strings.Builder
	for i := range 500 {
		fmt.Fprintf(&in, `{"jsonrpc":"2.0","id":%d,"method":"tools/callSaga","params":{"name":"complex_tool"}}`+"\n", i)
	}
	got := lines(t, newStdio(t), in.String())
	assert.Len(t, got, 500)
}

func TestStdioCancellation(t *testing.T) {
	type none struct{}
	entered := make(chan bool)
	cancelled := make(chan error, 1)
	slow := saga.Machine[none, none]{Info: saga.Info{Name: "slow"}, Start: func(t *saga.Turn[none, none]) (saga.Next, error) {
		entered <- true
		<-t.Done()
		cancelled <- t.Err()
		return nil, t.Err()
	}}
	in, write := io.Pipe()
	read, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- newStdio(t, slow).ServeStdio(context.Background(), in, out) }()
	answers := bufio.NewScanner(read)

	fmt.Fprintln(write, `{"jsonrpc":"2.0","id":"a","method":"tools/callSaga","params":{"name":"slow"}}`)
	<-entered
	fmt.Fprintln(write, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	require.True(t, answers.Scan(), "a request under way does not hold up others")
	assert.Contains(t, answers.Text(), `"id":1`)
	fmt.Fprintln(write, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"nobody"}}`)
	fmt.Fprintln(write, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}`)
	assert.ErrorIs(t, <-cancelled, context.Canceled)
	fmt.Fprintln(write, `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	require.True(t, answers.Scan())
	assert.Contains(t, answers.Text(), `"id":2`, "a cancelled request gets no answer")
	write.Close()
	assert.NoError(t, <-ended)
}

func TestStdioStopsWithItsContext(t *testing.T) {
	in, write := io.Pipe()
	defer write.Close()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- newStdio(t).ServeStdio(ctx, in, io.Discard) }()
	stop()
	select {
	case err := <-ended:
		assert.NoError(t, err)
	case <-time.After(time.Minute):
		t.Fatal("still serving")
	}
}

// A server that is told to stop says what it knows before it ends, and waits a moment for that, but
// no longer if nobody reads it.
func TestStdioSaysWhatItKnowsInTheEnd(t *testing.T) {
	type none struct{}
	for _, reads := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newStdio(t, saga.Machine[none, none]{Info: saga.Info{Name: "slow"}, Start: func(t *saga.Turn[none, none]) (saga.Next, error) {
				<-t.Done()
				return t.Textf("stopped")
			}})
			in, write := io.Pipe()
			read, out := io.Pipe()
			ctx, stop := context.WithCancel(t.Context())
			var ended atomic.Bool
			var serving sync.WaitGroup
			serving.Go(func() {
				assert.NoError(t, s.ServeStdio(ctx, in, out))
				ended.Store(true)
			})
			fmt.Fprintln(write, `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"slow"}}`)
			synctest.Wait()
			stop()
			synctest.Wait()
			require.False(t, ended.Load(), "the response waits to be read")
			if reads {
				lines := bufio.NewScanner(read)
				require.True(t, lines.Scan())
				assert.Contains(t, lines.Text(), `"id":1`)
				synctest.Wait()
			} else {
				time.Sleep(time.Minute)
			}
			assert.True(t, ended.Load())
			read.Close()
			write.Close()
			serving.Wait()
			s.Close()
		})
	}
}

// Who is authenticated over HTTP is nobody's business on stdio: there the one caller is
// anonymous, and so are its tokens.
func TestStdioCallersAreAnonymous(t *testing.T) {
	keys := newKeys(t)
	ann := server.Options{Keys: keys, Authenticate: func(*http.Request) (saga.Caller, error) { return saga.Caller{Subject: "ann"}, nil }}
	hers, open := newRig(t, ann), newRig(t, server.Options{Keys: keys})
	token := parse(t, lines(t, hers.srv, transcript(t)[0][0]+"\n")[0]).Result.SagaToken
	require.NotEmpty(t, token)
	assert.Equal(t, refusal, hers.resume(token))
	assert.Contains(t, open.resume(token), "step-sampling-B")
	request := strings.Replace(transcript(t)[1][0], "TOKEN1", hers.firstToken(), 1)
	assert.Equal(t, []string{refusal}, lines(t, hers.srv, request+"\n"))
}

// FuzzStdio feeds lines of any content: the reader must neither crash nor hang
// nor stop serving.
func FuzzStdio(f *testing.F) {
	for _, pair := range transcript(f) {
		f.Add([]byte(pair[0]))
	}
	f.Add([]byte("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}\n[]\n\xff"))
	f.Add([]byte(initializeMessage("2025-11-25", everything) + "\n" + toolCall(1, "complex_tool", `{}`) + "\n" + `{"jsonrpc":"2.0","id":1,"result":{"action":"decline"}}`))
	f.Add([]byte(initializeMessage("2025-03-26", everything) + "\n[" + pingMessage + `,7,{"jsonrpc":"2.0","id":1,"error":{}}]`))
	s := newStdio(f)
	f.Fuzz(func(t *testing.T, input []byte) {
		var out bytes.Buffer
		in := io.MultiReader(bytes.NewReader(input), strings.NewReader("\n"+`{"jsonrpc":"2.0","id":"last","method":"ping"}`+"\n"))
		require.NoError(t, s.ServeStdio(context.Background(), in, &out))
		require.Contains(t, out.String(), `{"jsonrpc":"2.0","id":"last","result":{}}`)
	})
}

// closedPipe is standard output that nobody reads any more.
type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// A client that does not read any more does not keep the server alive by keeping
// standard input open; what its calls did is undone.
func TestStdioEndsWhenNobodyReads(t *testing.T) {
	held := map[saga.Key]bool{}
	s := newStdio(t, roomTool(1, held))
	in, write := io.Pipe()
	defer write.Close()
	read, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.ServeStdio(t.Context(), in, out) }()
	lines := bufio.NewScanner(read)
	fmt.Fprintln(write, initializeMessage("2025-11-25", everything))
	require.True(t, lines.Scan())
	fmt.Fprintln(write, toolCall(1, "room", `{}`))
	require.True(t, lines.Scan())
	require.Contains(t, lines.Text(), "elicitation/create")
	require.Len(t, held, 1)
	read.Close()
	fmt.Fprintln(write, `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	select {
	case err := <-ended:
		assert.ErrorIs(t, err, io.ErrClosedPipe)
	case <-time.After(time.Minute):
		t.Fatal("the server lives on")
	}
	assert.Empty(t, held, "what was done is undone")
}

// A client that has said all is still answered, until it does not read any more.
func TestStdioEndsWhenNobodyReadsTheLastAnswers(t *testing.T) {
	type none struct{}
	one := make(chan bool)
	tool := saga.Machine[none, none]{Info: saga.Info{Name: "slow"}, Start: func(t *saga.Turn[none, none]) (saga.Next, error) {
		if _, first := <-one; first {
			return t.Textf("one")
		}
		<-t.Done()
		return nil, t.Err()
	}}
	calls := strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"slow"}}`+"\n", 2)
	ended := make(chan error, 1)
	go func() { ended <- newStdio(t, tool).ServeStdio(t.Context(), strings.NewReader(calls), closedPipe{}) }()
	one <- true
	close(one)
	select {
	case err := <-ended:
		assert.ErrorIs(t, err, io.ErrClosedPipe)
	case <-time.After(time.Minute):
		t.Fatal("the server lives on")
	}
}

func TestStdioEndsAtTheFirstFailedWrite(t *testing.T) {
	in, write := io.Pipe()
	defer write.Close()
	ended := make(chan error, 1)
	go func() { ended <- newStdio(t).ServeStdio(t.Context(), in, closedPipe{}) }()
	fmt.Fprintln(write, pingMessage)
	select {
	case err := <-ended:
		assert.ErrorIs(t, err, io.ErrClosedPipe)
	case <-time.After(time.Minute):
		t.Fatal("the server lives on")
	}
}
