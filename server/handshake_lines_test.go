package server_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// legacyPipe speaks over a pair of pipes, line by line.
type legacyPipe struct {
	t     testing.TB
	srv   *server.Server
	in    *io.PipeWriter
	out   *bufio.Scanner
	read  *io.PipeReader
	stop  context.CancelFunc
	ended chan error
}

func newLegacyPipe(t testing.TB, version string, tools ...saga.Definition) *legacyPipe {
	t.Helper()
	return newLegacyPipeTo(t, version, newStdio(t, tools...))
}

func newLegacyPipeTo(t testing.TB, version string, srv *server.Server) *legacyPipe {
	t.Helper()
	in, write := io.Pipe()
	read, out := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	c := &legacyPipe{t: t, srv: srv, in: write, out: bufio.NewScanner(read), read: read, stop: stop, ended: make(chan error, 1)}
	go func() { c.ended <- c.srv.ServeStdio(ctx, in, out); out.Close() }()
	t.Cleanup(func() {
		write.Close()
		go io.Copy(io.Discard, read)
		select {
		case err := <-c.ended:
			assert.NoError(t, err)
		case <-time.After(time.Minute):
			assert.Fail(t, "still serving")
		}
	})
	if version != "" {
		c.send(initializeMessage(version, everything))
		assert.Contains(t, string(c.message().Result), `"protocolVersion":"`+version+`"`)
		c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return c
}

func (c *legacyPipe) send(lines ...string) {
	c.t.Helper()
	defer impatiently(c.in)()
	for _, l := range lines {
		_, err := io.Copy(c.in, bytes.NewReader([]byte(l+"\n")))
		require.NoError(c.t, err)
	}
}

func (c *legacyPipe) line() string {
	c.t.Helper()
	defer impatiently(c.read)()
	require.True(c.t, c.out.Scan(), "%v", c.out.Err())
	return c.out.Text()
}

func (c *legacyPipe) message() legacyMessage {
	c.t.Helper()
	return parseLegacy(c.t, c.line())
}

func (c *legacyPipe) reply(m legacyMessage, result string) {
	c.t.Helper()
	c.send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + result + `}`)
}

func TestHandshakeLinesEightRounds(t *testing.T) {
	c := newLegacyPipe(t, "2025-11-25", legacyDefinitions()...)
	c.send(toolCall(1, "long_talk", `{"topic":"tea"}`))
	round := 0
	for range 4 {
		m := c.message()
		c.reply(m, talkAnswer(m, &round))
	}
	a, b := c.message(), c.message()
	assert.ElementsMatch(t, []string{"elicitation/create", "sampling/createMessage"}, []string{a.Method, b.Method})
	c.reply(b, talkAnswer(b, &round))
	c.send(pingMessage)
	assert.Equal(t, "{}", string(c.message().Result), "other requests go on")
	c.reply(a, talkAnswer(a, &round))
	for range 3 {
		m := c.message()
		c.reply(m, talkAnswer(m, &round))
	}
	got, _ := text(t, c.message().Result)
	assert.Equal(t, talked, got)
}

// Fields of a form stay in their order.
func TestHandshakeLinesKeepOrder(t *testing.T) {
	c := newLegacyPipe(t, "2025-11-25", legacyDefinitions()...)
	c.send(toolCall(1, "ask", `{"what":"colour"}`))
	m := c.message()
	assert.Equal(t, `{"message":"Which?","requestedSchema":{"type":"object","properties":{"colour":{"type":"string","oneOf":[{"const":"r","title":"Red"},{"const":"g","title":"Green"}]}},"required":["colour"]}}`, string(m.Params))
	c.send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-7,"message":"no","data":{"x":1}}}`)
	got, _ := text(t, c.message().Result)
	assert.Equal(t, "colour failed: -7", got)
}

// Requests that the client does not wait for are served in order all the same.
func TestHandshakeLinesInOrder(t *testing.T) {
	s := newStdio(t, legacyDefinitions()...)
	got := lines(t, s, strings.Join([]string{
		toolCall(1, "sum", `{}`), pingMessage,
		initializeMessage("2024-11-05", `{}`), toolCall(2, "contents", `{}`), initializeMessage("2025-11-25", `{}`),
		`{"jsonrpc":"2.0","id":3,"method":"tools/callSaga","params":{"name":"sum"}}`, `{"jsonrpc":"2.0","id":4,"method":"nope"}`,
	}, "\n"))
	all := strings.Join(got, "\n")
	assert.Len(t, got, 7)
	assert.Contains(t, all, `"id":1,"error":{"code":-32600,"message":"send initialize first"}`)
	assert.Contains(t, all, `"id":1,"result":{}`)
	assert.Contains(t, all, `"protocolVersion":"2024-11-05"`)
	assert.Contains(t, all, "A sound that this version")
	assert.Contains(t, all, `"id":0,"error":{"code":-32600,"message":"this connection is initialized already"}`)
	assert.Contains(t, all, `"id":3,"result":{"content"`)
	assert.Contains(t, all, `"id":4,"error":{"code":-32601`)
}

// The end of the input is the end of all answers.
func TestHandshakeLinesEndWhileAsked(t *testing.T) {
	w := new(world)
	c := newLegacyPipe(t, "2025-11-25", legacyDefinitions(w.tool(newGate()))...)
	c.send(toolCall(1, "hold", `{}`))
	assert.Equal(t, "elicitation/create", c.message().Method)
	c.in.Close()
	assert.Equal(t, "notifications/cancelled", c.message().Method)
	m := c.message()
	require.NotNil(t, m.Error)
	assert.Contains(t, m.Error.Message, "the session ended")
	assert.Equal(t, "+first -first", w.was())
}

// The server stops, and first undoes what nobody can go on with.
func TestHandshakeLinesStopWhileAsked(t *testing.T) {
	t.Parallel()
	var undone atomic.Bool
	hold := &saga.Effect[struct{}, struct{}]{
		Name: "slow", Do: func(context.Context, saga.Key, struct{}) (out struct{}, err error) { return out, nil },
		Undo: func(context.Context, saga.Performed[struct{}, struct{}]) error {
			time.Sleep(300 * time.Millisecond)
			undone.Store(true)
			return nil
		},
	}
	ask := &steps.Form[struct{}]{ID: "sure", Message: "Sure?"}
	c := newLegacyPipe(t, "2025-11-25", saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "hold", Asks: []steps.Question{ask}, Effects: []saga.Declared{hold}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			if _, err := saga.Do(r, hold, struct{}{}); err != nil {
				return "", err
			}
			_, err := saga.Ask(r, ask)
			return "held", err
		},
	})
	c.send(toolCall(1, "hold", `{}`))
	assert.Equal(t, "elicitation/create", c.message().Method)
	go func() {
		for c.out.Scan() { // what it says to the end is read
		}
	}()
	c.stop()
	require.NoError(t, <-c.ended)
	assert.True(t, undone.Load(), "ServeStdio waits for it")
	c.ended <- nil // for the cleanup
}

// A tool that pauses for ever does not keep a client's request for ever.
func TestHandshakeLinesEndlessPauses(t *testing.T) {
	type turn = saga.Turn[struct{}, struct{}]
	again := func(t *turn) (saga.Next, error) { return t.Pause("again") }
	c := newLegacyPipe(t, "2025-11-25", saga.Machine[struct{}, struct{}]{
		Info: saga.Info{Name: "endless"}, Start: again, Steps: saga.Steps[struct{}, struct{}]{"again": again},
	})
	c.send(toolCall(1, "endless", `{}`))
	m := c.message()
	require.NotNil(t, m.Error)
	assert.EqualValues(t, -32603, m.Error.Code)
}

func TestHandshakeLinesCancellation(t *testing.T) {
	w := new(world)
	c := newLegacyPipe(t, "2025-11-25", legacyDefinitions(w.tool(newGate()))...)
	c.send(toolCall(1, "hold", `{}`))
	form := c.message()
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	m := c.message()
	assert.Equal(t, "notifications/cancelled", m.Method)
	assert.JSONEq(t, `{"requestId":`+string(form.ID)+`,"reason":"the client cancelled the request"}`, string(m.Params))
	c.reply(form, accepted(`{"name":"late"}`))
	c.send(pingMessage)
	assert.Equal(t, "{}", string(c.message().Result), "there was no response")
	until(t, func() bool { return w.was() == "+first -first" })
}

func TestHandshakeLinesNotifications(t *testing.T) {
	c := newLegacyPipe(t, "2025-11-25", legacyDefinitions()...)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"static://one"}}`)
	c.message()
	c.srv.ResourceUpdated("static://one")
	assert.JSONEq(t, `{"uri":"static://one"}`, string(c.message().Params))
	c.srv.ToolsChanged()
	assert.Equal(t, "notifications/tools/list_changed", c.message().Method)
	c.send(toolCall(1, "away", `{}`))
	assert.Contains(t, string(c.message().Params), "before")
	assert.Contains(t, string(c.message().Params), "after")
	got, _ := text(t, c.message().Result)
	assert.Equal(t, "away and back", got)
}

func TestHandshakeLinesBatches(t *testing.T) {
	c := newLegacyPipe(t, "2025-03-26", legacyDefinitions()...)
	c.send("[" + toolCall(1, "sum", `{}`) + `,7,{"jsonrpc":"2.0","method":"notifications/initialized"},` + pingMessage + "]")
	got := c.line()
	assert.True(t, strings.HasPrefix(got, "[") && strings.HasSuffix(got, "]"), got)
	assert.Contains(t, got, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	assert.Contains(t, got, `{\"sum\":3}`)
	assert.Contains(t, got, "-32600")
	c.send(`[{"jsonrpc":"2.0","method":"notifications/initialized"}]`, "[]")
	assert.Contains(t, c.line(), "empty")
	c.send("[7")
	assert.Contains(t, c.line(), "-32700")
	c.send(pingMessage)
	assert.Equal(t, "{}", string(c.message().Result))
	// A batch may hold answers.
	c.send(toolCall(2, "ask", `{"what":"roots"}`))
	m := c.message()
	c.send(`[{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"roots":[]}}]`)
	answer, _ := text(t, c.message().Result)
	assert.Equal(t, `roots: {"roots":[]}`, answer)
	var many []string
	for i := range 30 {
		many = append(many, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i))
	}
	c.send("[" + strings.Join(many, ",") + "]")
	assert.Equal(t, 30, strings.Count(c.line(), `"result":{}`))

	for _, version := range []string{"2025-11-25", "2024-11-05"} {
		c := newLegacyPipe(t, version)
		c.send("[" + pingMessage + "]")
		assert.Contains(t, c.line(), "-32600")
	}
}

// What a tool tells after its request was answered is not passed on, whichever way the
// messages go.
func TestHandshakeNothingIsToldAfterTheResponse(t *testing.T) {
	kept := make(chan *saga.Turn[empty, empty], 1)
	tool := saga.Machine[empty, empty]{Info: saga.Info{Name: "keeps"}, Start: func(t *saga.Turn[empty, empty]) (saga.Next, error) {
		t.Progress(1, 3, "in time")
		kept <- t // as no tool may
		return t.Textf("done")
	}}
	late := func() {
		turn := <-kept
		turn.Progress(2, 3, "late")
		turn.Log(slog.Level(20), "late")
	}
	t.Run("stdio", func(t *testing.T) {
		c := newLegacyPipe(t, "2025-11-25", tool)
		c.send(toolCall(1, "keeps", `{}`))
		assert.Contains(t, c.line(), "in time")
		assert.Contains(t, c.line(), "done")
		written := make(chan struct{})
		go func() { defer close(written); late() }()
		select {
		case <-written:
		case <-time.After(time.Second): // somebody has to read it
		}
		c.send(pingMessage)
		assert.NotContains(t, c.line(), "late")
	})
	t.Run("HTTP", func(t *testing.T) {
		g := newGate()
		c := newRig(t, server.Options{Tools: legacyDefinitions(tool, g.tool())}).connect("2025-03-26", everything)
		s := c.stream("[" + toolCall(1, "keeps", `{}`) + "," + toolCall(2, "gate", `{}`) + "]") // the stream outlasts the first
		assert.Contains(t, s.message().data, "in time")
		assert.Contains(t, s.message().data, "done")
		late()
		g.leave <- true
		assert.Contains(t, s.message().data, "left")
		s.end()
	})
}
