package server_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store/storetest"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// waitings are what a tool can wait for that its client does not give it, and asked what it asks its client.
var waitings = map[string]func(*saga.Run) error{
	"an event":   func(r *saga.Run) error { _, err := saga.Ask(r, shipped.With(steps.Key("17"))); return err },
	"others":     func(r *saga.Run) error { _, err := saga.Ask(r, bossAsked); return err },
	"a time":     func(r *saga.Run) error { return r.Sleep(5 * time.Minute) },
	"a moment":   func(r *saga.Run) error { return r.Sleep(20 * time.Second) },
	"a question": func(r *saga.Run) error { _, err := saga.Ask(r, askSure); return err },
}

var bossAsked = &steps.Form[limit]{ID: "boss", Message: "Up to what sum?", By: steps.By{"staff"}, Within: time.Hour}

// waitingTool holds a room while it waits. Its clients are asked something besides.
func waitingTool(held *atomic.Int32, needsLedger bool, wait func(*saga.Run) error) saga.Flow[struct{}, string] {
	tool := countedTool(held).(saga.Flow[struct{}, string])
	room := tool.Effects[0].(*saga.Effect[string, bool])
	if tool.Asks = []steps.Question{askSure}; needsLedger {
		tool.Asks = append(tool.Asks, shipped, bossAsked)
	}
	tool.Run = func(r *saga.Run, _ struct{}) (string, error) {
		if _, err := saga.Do(r, room, "7"); err != nil {
			return "", err
		}
		return "the end", wait(r)
	}
	return tool
}

// asStdio are clients on a pair of pipes, by what they say before their input ends. Next makes of what was said last what
// is said then; it is nil where that is all.
var asStdio = map[string]struct {
	say    []string
	next   func(t *testing.T, last rpcMessage) string
	cannot string // what it is not kept waiting for
	leaves bool   // what it did, as it has a token, with a ledger; without one all do but sessions that are asked
}{
	"a session":           {say: []string{initializeMessage("2025-11-25", everything), toolCall(1, "room", "{}")}},
	"an older session":    {say: []string{initializeMessage("2025-06-18", everything), toolCall(1, "room", "{}")}},
	"a relayed session":   {say: []string{initializeMessage("2025-06-18", "{}"), toolCall(1, "room", "{}")}, cannot: "a question"},
	"a session with apps": {say: []string{initializeMessage("2025-11-25", showsAppsJSON), toolCall(1, "room", "{}")}},
	"2026-07-28":          {say: []string{callTool("room", object{}).with(allCapabilities).body()}, next: comesAgain, cannot: "a question", leaves: true},
	"relayed 2026-07-28":  {say: []string{callTool("room", object{}).body()}, cannot: "a question"},
	"2026-07-28 with apps": {
		say: []string{callTool("room", object{}).with(showsApps).body()},
	},
	"the saga methods": {say: []string{`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"room"}}`}, next: resumesSaga, cannot: "a question", leaves: true},
}

// comesAgain is the next request of a client whose tool waits, and resumesSaga that of one of the saga proposal.
func comesAgain(t *testing.T, last rpcMessage) string {
	return callTool("room", object{}).with(allCapabilities).answering(last.result(t).RequestState, nil).body()
}

func resumesSaga(t *testing.T, last rpcMessage) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/resumeSaga","params":{"sagaToken":%q,"completedSteps":[]}}`, parse(t, last.raw).Result.SagaToken)
}

// stdioProcess is a server on a pair of pipes, in virtual time.
type stdioProcess struct {
	t       *testing.T
	in      *io.PipeWriter
	said    chan string
	serving sync.WaitGroup
	stop    context.CancelFunc
	log     bytes.Buffer
}

func newStdioProcess(t *testing.T, o server.Options) *stdioProcess {
	p := &stdioProcess{t: t, said: make(chan string, 100)}
	o.Keys, o.Logger = newKeys(t), slog.New(slog.NewTextHandler(&p.log, nil))
	o.Questions.Roles = roles
	if o.Authenticate = users; o.Ledger != nil {
		o.Questions.PageURL = pagesAt
	}
	s, err := server.New(o)
	require.NoError(t, err)
	in, write := io.Pipe()
	read, out := io.Pipe()
	var ctx context.Context
	ctx, p.stop = context.WithCancel(t.Context())
	p.in = write
	p.serving.Go(func() {
		assert.NoError(t, s.ServeStdio(ctx, in, out))
		out.Close()
		s.Close()
	})
	p.serving.Go(func() {
		defer close(p.said)
		lines := bufio.NewScanner(read)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			p.said <- lines.Text()
		}
	})
	return p
}

func (p *stdioProcess) send(line string) {
	p.t.Helper()
	_, err := fmt.Fprintln(p.in, line)
	require.NoError(p.t, err)
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
}

// last is the last that was said.
func (p *stdioProcess) last() (m rpcMessage) {
	for len(p.said) > 0 {
		m = parseMessage(p.t, <-p.said)
	}
	return m
}

// ends waits for the end of the process, and returns how long that has taken.
func (p *stdioProcess) ends() time.Duration {
	began := time.Now()
	p.serving.Wait()
	return time.Since(began)
}

// eachWaiting has each client wait for each thing, with a ledger and without.
func eachWaiting(t *testing.T, test func(t *testing.T, p *stdioProcess, who string, ledger, told bool, held *atomic.Int32)) {
	for who, client := range asStdio {
		for what, wait := range waitings {
			for _, kept := range []bool{true, false} {
				needsLedger := what == "an event" || what == "others"
				if !kept && needsLedger || client.cannot == what {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s, ledger %t", who, what, kept), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						var held atomic.Int32
						o := server.Options{Tools: []saga.Definition{waitingTool(&held, kept, wait)}}
						if kept {
							memory := ledger.NewMemory(ledger.MemoryOptions{})
							defer memory.Close()
							o.Ledger = memory
						}
						p := newStdioProcess(t, o)
						defer p.in.Close()
						for _, line := range client.say {
							p.send(line)
						}
						last := p.last()
						require.EqualValues(t, 1, held.Load(), last.raw)
						if client.next != nil && last.raw != "" {
							p.send(client.next(t, last))
						}
						test(t, p, who, kept, hasToken(last), &held)
					})
				})
			}
		}
	}
}

// hasToken reports whether a client can continue with what it was told.
func hasToken(m rpcMessage) bool {
	return strings.Contains(m.raw, `oken"`) || strings.Contains(m.raw, `requestState"`) || strings.Contains(m.raw, "resumeToken")
}

// A server on a pair of pipes ends at once when its input does, whatever its calls wait for. What they did is undone, unless
// their client has a token by then.
func TestStdioEndsWhateverIsWaitedFor(t *testing.T) {
	eachWaiting(t, func(t *testing.T, p *stdioProcess, who string, ledger, told bool, held *atomic.Int32) {
		p.in.Close()
		assert.Less(t, p.ends(), time.Second)
		relayed := !asStdio[who].leaves && !strings.HasSuffix(who, "r session") && who != "a session"
		assert.Equal(t, asStdio[who].leaves || relayed && !ledger, held.Load() == 1)
		assert.NotContains(t, p.log.String(), "level=ERROR")
	})
}

// A server on a pair of pipes that is told to stop does so at once, which is no fault of its.
func TestStdioStopsWhateverIsWaitedFor(t *testing.T) {
	eachWaiting(t, func(t *testing.T, p *stdioProcess, who string, ledger, told bool, held *atomic.Int32) {
		p.stop()
		assert.Less(t, p.ends(), time.Second)
		last := p.last()
		assert.Equal(t, told || hasToken(last), held.Load() == 1, last.raw) // the last word may be a token
		assert.NotContains(t, p.log.String(), "level=ERROR")
		if last.Error != nil {
			want := []string{"the server stops; call again", "the session ended before the client had answered"} // whichever comes first
			if asStdio[who].leaves && told {                                                                     // it has a token
				want = []string{"the server stops: send the same request again"}
			}
			assert.Contains(t, want, last.Error.Message)
		}
	})
}

// A call that is held is cancelled without an alarm.
func TestStdioCancelsWhateverIsWaitedFor(t *testing.T) {
	eachWaiting(t, func(t *testing.T, p *stdioProcess, who string, ledger, told bool, held *atomic.Int32) {
		p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		p.in.Close()
		assert.Less(t, p.ends(), time.Second)
		assert.NotContains(t, p.log.String(), "level=ERROR")
	})
}

// Work goes on when the input ends, and is answered; what it comes to wait for is not waited for.
func TestStdioEndsWhenItsWorkHas(t *testing.T) {
	for who, client := range asStdio {
		for _, waits := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, waits %t", who, waits), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var held atomic.Int32
					memory := ledger.NewMemory(ledger.MemoryOptions{})
					defer memory.Close()
					tool := waitingTool(&held, true, func(r *saga.Run) error {
						time.Sleep(10 * time.Second) //sagavet:ignore it is work, in virtual time
						if waits {
							return waitings["an event"](r)
						}
						return nil
					})
					p := newStdioProcess(t, server.Options{Tools: []saga.Definition{tool}, Ledger: memory})
					for _, line := range client.say {
						p.send(line)
					}
					p.in.Close()
					assert.InDelta(t, 10*time.Second, p.ends(), float64(time.Second))
					last := p.last()
					assert.Equal(t, !waits, strings.Contains(last.raw, "the end"), last.raw)
					assert.Equal(t, !waits || client.leaves, held.Load() == 1)
				})
			})
		}
	}
}

// An answer that comes just before the input ends counts, and the call is answered.
func TestStdioAnswersThatComeLast(t *testing.T) {
	for _, who := range []string{"a session", "an older session"} {
		for _, waits := range []bool{true, false} {
			for _, kept := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, waits %t, ledger %t", who, waits, kept), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						var held atomic.Int32
						o := server.Options{Tools: []saga.Definition{waitingTool(&held, kept, func(r *saga.Run) error {
							_, err := saga.Ask(r, askSure)
							if err == nil {
								time.Sleep(300 * time.Millisecond) //sagavet:ignore it is work, in virtual time
							}
							if err == nil && waits {
								err = waitings["a moment"](r)
							}
							return err
						})}}
						if kept {
							memory := ledger.NewMemory(ledger.MemoryOptions{})
							defer memory.Close()
							o.Ledger = &storetest.Intercept{Store: memory, Around: func(_ context.Context, _ storetest.Call, next func() error) error {
								time.Sleep(10 * time.Millisecond) // as if it were on a disk
								return next()
							}}
						}
						p := newStdioProcess(t, o)
						for _, line := range asStdio[who].say {
							p.send(line)
						}
						_, err := fmt.Fprintf(p.in, `{"jsonrpc":"2.0","id":%d,"result":{"action":"accept","content":{"sure":true}}}`+"\n", 1)
						require.NoError(t, err)
						p.in.Close()
						assert.Less(t, p.ends(), time.Second)
						last := p.last()
						assert.Equal(t, !waits, strings.Contains(last.raw, "the end"), last.raw)
						assert.Equal(t, !waits, held.Load() == 1)
					})
				})
			}
		}
	}
}

// A server that stops does not keep those waiting who come with a token for what has not happened: they have it still.
func TestServersThatStopLetThoseGoWhoWait(t *testing.T) {
	for name, what := range map[string]string{"an event": "an event", "a time": "a moment"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var held atomic.Int32
				o := server.Options{Ledger: inMemory(t), Keys: newKeys(t), Authenticate: users, Tools: []saga.Definition{waitingTool(&held, true, waitings[what])}}
				o.Questions.PageURL, o.Questions.Roles = pagesAt, roles
				one, other := newRig(t, o), newRig(t, o)
				q := callTool("room", object{}).with(allCapabilities)
				if what == "an event" {
					q = q.answering(one.send(q).result(t).RequestState, nil)
				}
				began := time.Now()
				time.AfterFunc(5*time.Second, one.srv.CloseStreams)
				let := one.send(q).result(t)
				assert.Equal(t, 5*time.Second, time.Since(began))
				assert.Equal(t, "input_required", let.ResultType)
				assert.Contains(t, let.Meta, "io.github.mcpsaga/retryAfterMs")
				if what == "an event" {
					require.NoError(t, other.srv.Signal(t.Context(), "room", "shipped", "17", nil))
				}
				end := other.send(q.answering(let.RequestState, nil)).result(t)
				assert.Equal(t, "the end", end.text())
			})
		})
	}
}
