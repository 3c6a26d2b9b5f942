package server_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/longtests"
	"github.com/mcpsaga/mcpsaga/internal/memoryhttp"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// desk is what the tool acts on. It knows keys, as services do.
type desk struct {
	mu   sync.Mutex
	held map[saga.Key]bool
}

func (d *desk) set(key saga.Key, held bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held == nil {
		d.held = make(map[saga.Key]bool)
	}
	d.held[key] = held
}

func (d *desk) now() (held int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, is := range d.held {
		if is {
			held++
		}
	}
	return held
}

// deskTool asks, holds something, and asks again.
func deskTool(d *desk) saga.Definition {
	hold := &saga.Effect[empty, empty]{
		Name: "hold",
		Do:   func(_ context.Context, key saga.Key, _ empty) (empty, error) { d.set(key, true); return empty{}, nil },
		Undo: func(_ context.Context, p saga.Performed[empty, empty]) error { d.set(p.Key, false); return nil },
	}
	return saga.Flow[empty, string]{
		Info: saga.Info{Name: "desk", Asks: []steps.Question{legacyForm, askSure}, Effects: []saga.Declared{hold}},
		Run: func(r *saga.Run, _ empty) (string, error) {
			if err := r.AskAll(legacyForm); err != nil {
				return "", err
			}
			form, err := legacyForm.Answer(r)
			if err != nil {
				return "", err
			}
			if _, err := saga.Do(r, hold, empty{}); err != nil {
				return "", err
			}
			r.Progress(1, 2, "held")
			return "held for " + form.Name, r.AskAll(askSure)
		},
	}
}

// faultyRig are servers in virtual time, on one ledger that fails.
type faultyRig struct {
	t     *testing.T
	store *failing
	keys  *codec.Keyset
	desk  desk
	rigs  []*rig
	http  *http.Client
	n     int
	log   []string
}

func newFaultyRig(t *testing.T, replicas int, how fault) *faultyRig {
	memory := ledger.NewMemory(ledger.MemoryOptions{})
	f := &faultyRig{t: t, keys: newKeys(t), store: newFailing(memory, how)}
	var hosts memoryhttp.Network
	transport := &http.Transport{DialContext: hosts.Dial}
	f.http = &http.Client{Transport: transport}
	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	for range replicas {
		s, err := server.New(server.Options{Keys: f.keys, Ledger: f.store, Tools: []saga.Definition{deskTool(&f.desk), aheadTool(&f.desk), legacySum}, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		l := hosts.Listen()
		serving.Go(func() { _ = s.Serve(ctx, l) })
		f.rigs = append(f.rigs, &rig{t: t, srv: s, url: "http://" + l.Addr().String()})
	}
	t.Cleanup(func() {
		stop()
		transport.CloseIdleConnections()
		serving.Wait()
		_ = memory.Close()
	})
	return f
}

// caller is a client that does what clients should: what it is told to send again it does.
type caller struct {
	*faultyRig
	*legacyClient
	ctx      context.Context
	id       int
	last     string          // the id of the last event
	answered map[string]bool // questions, by their ids
}

func (c *caller) send(method, body string, change func(*http.Request)) *http.Response {
	c.n++
	there := c.legacyClient.at(c.rigs[c.n%len(c.rigs)])
	resp := there.request(method, body, func(r *http.Request) {
		*r = *r.WithContext(c.ctx)
		if change != nil {
			change(r)
		}
	})
	c.note("%s %s %.120s: %d", time.Now().Format("05.000"), method, body, resp.StatusCode)
	return resp
}

func (c *caller) note(format string, args ...any) {
	c.log = append(c.log, fmt.Sprintf(format, args...))
}

// insist sends something until it is not told to send it again.
func (c *caller) insist(method, body string, change func(*http.Request)) *http.Response {
	for {
		resp := c.send(method, body, change)
		if resp.StatusCode != http.StatusServiceUnavailable {
			return resp
		}
		said := readAll(c.legacyClient.t, resp)
		c.note("  %s", said)
		require.Contains(c.legacyClient.t, said, `"code":-31503`)
		require.Contains(c.legacyClient.t, said, `"retryable":true`)
		time.Sleep(time.Second)
	}
}

// call calls the tool, and answers and reads on until act says that this is enough, or there is a
// response, which is returned.
func (c *caller) call(act func(q sseEvent) (enough bool)) *sseEvent {
	t := c.legacyClient.t
	begin := func() *http.Response {
		c.last = ""
		return c.insist("POST", toolCall(c.id, "desk", `{}`), nil)
	}
	resp := begin()
	for {
		if resp.Header.Get("Content-Type") != "text/event-stream" {
			said := readAll(t, resp)
			c.note("  %s", said)
			m := sseEvent{data: said, legacyMessage: parseLegacy(t, said)}
			switch {
			case c.last != "" && resp.StatusCode == 400: // there is nothing to read on
				resp = begin()
			case m.Error != nil && m.Error.Code == -31503:
				time.Sleep(time.Second)
				resp = begin()
			default:
				return &m
			}
			continue
		}
		s := &sseReader{t: t, body: resp.Body, in: bufio.NewReader(resp.Body)}
		m, enough := c.read(s, act)
		s.close()
		switch {
		case enough:
			return nil
		case m != nil && m.Error != nil && m.Error.Code == -31503:
			time.Sleep(time.Second)
			resp = begin()
		case m != nil:
			return m
		case c.last == "":
			resp = begin()
		default:
			time.Sleep(time.Second)
			resp = c.insist("GET", "", func(r *http.Request) { r.Header.Set("Last-Event-ID", c.last) })
		}
	}
}

// read reads a stream until there is a response, or it ends.
func (c *caller) read(s *sseReader, act func(sseEvent) bool) (response *sseEvent, enough bool) {
	for {
		m, err := s.next()
		if err != nil {
			require.NoError(s.t, c.ctx.Err(), "it hears nothing more")
			c.note("%s  ends: %v", time.Now().Format("05.000"), err)
			return nil, false
		}
		if m.id != "" {
			c.last = m.id
		}
		if m.data != "" {
			c.note("%s  %.150s", time.Now().Format("05.000"), m.data)
		}
		switch {
		case m.data == "":
		case m.Method == "" && m.ID != nil:
			return &m, false
		case m.ID != nil && !c.answered[string(m.ID)]:
			if act(m) {
				return nil, true
			}
			c.answered[string(m.ID)] = true
		}
	}
}

// answer answers a question.
func (c *caller) answer(q sseEvent) {
	result := named("x")
	if strings.Contains(string(q.Params), "Sure?") {
		result = yesSure
	}
	resp := c.insist("POST", `{"jsonrpc":"2.0","id":`+string(q.ID)+`,"result":`+result+`}`, nil)
	said := readAll(c.legacyClient.t, resp)
	c.note("  %s", said)
	assert.Equal(c.legacyClient.t, 202, resp.StatusCode, said)
}

// ways are how a call goes on at its second question.
var ways = map[string]func(c *caller, q sseEvent) (enough bool){
	"answers": func(c *caller, q sseEvent) bool { c.answer(q); return false },
	"cancels": func(c *caller, _ sseEvent) bool {
		resp := c.insist("POST", fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, c.id), nil)
		assert.Equal(c.legacyClient.t, 202, resp.StatusCode, readAll(c.legacyClient.t, resp))
		return true
	},
	"ends its session": func(c *caller, _ sseEvent) bool {
		resp := c.insist("DELETE", "", nil)
		// It may be known already what could not be said before.
		assert.Contains(c.legacyClient.t, []int{204, 404}, resp.StatusCode, readAll(c.legacyClient.t, resp))
		return true
	},
	"is gone": func(*caller, sseEvent) bool { return true },
}

// faultyCall has a client call while the ledger fails at its nth call, and reports whether it came
// to that.
func faultyCall(t *testing.T, replicas, n int, how fault, way func(*caller, sseEvent) bool, completes bool) (failed bool) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultyRig(t, replicas, how)
		defer func() {
			if t.Failed() {
				t.Logf("call %d of the ledger:\n%s", n, strings.Join(f.log, "\n"))
			}
		}()
		connect := func() *caller {
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
			t.Cleanup(cancel)
			c := f.rigs[0].connect("2025-11-25", everything, func(c *legacyClient) { c.http = f.http })
			return &caller{faultyRig: f, legacyClient: c, ctx: ctx, id: 7, answered: make(map[string]bool)}
		}
		c := connect()
		synctest.Wait()
		f.store.arm(n)
		response := c.call(func(q sseEvent) bool {
			if strings.Contains(string(q.Params), "Sure?") {
				return way(c, q)
			}
			c.answer(q)
			return false
		})
		f.store.mu.Lock()
		failed = f.store.failed
		f.store.armed = false
		f.store.mu.Unlock()
		want := 0
		if completes {
			want = 1
			require.NotNil(t, response)
			require.Nil(t, response.Error, response.data)
			said, _ := text(t, response.Result)
			assert.Equal(t, "held for x", said)
		}
		// All goes on, and nothing is left behind, of this call or of the next one.
		next := connect()
		response = next.call(func(q sseEvent) bool { next.answer(q); return false })
		require.NotNil(t, response)
		assert.Nil(t, response.Error, response.data)
		time.Sleep(40 * time.Minute)
		assert.Equal(t, want+1, f.desk.now(), "nothing is held twice, and nothing in vain")
		left, err := f.store.List(t.Context(), store.Filter{Statuses: []store.Status{store.Working, store.Waiting, store.Sleeping, store.Undoing, store.Outstanding}}, store.Cursor{}, 100)
		require.NoError(t, err)
		for _, r := range left {
			if r.Mode == store.ModeCall || r.Mode == store.ModeTask || r.Mode == store.ModeClient {
				assert.Fail(t, "it is left behind", "%+v", r)
			}
		}
	})
	return failed
}

// faults are how the ledger fails.
var faults = map[string]fault{
	"refuses once":                   {},
	"does not know once":             {made: true},
	"refuses for 3 s":                {lasts: 3 * time.Second},
	"refuses for 90 s":               {lasts: 90 * time.Second},
	"hangs for 15 s":                 {hangs: true, lasts: 15 * time.Second},
	"does what it can for 15 s":      {hangs: true, made: true, lasts: 15 * time.Second},
	"does what it can for 2 minutes": {hangs: true, made: true, lasts: 2 * time.Minute},
}

// faultyCalls are the calls of the ledger that fail: the first, and every so many.
func faultyCalls() (first, every int) {
	switch {
	case os.Getenv("SAGA_NIGHTLY") != "":
		return 1, 1
	case testing.Short():
		every = 12
	case longtests.Wanted():
		every = 4
	default:
		every = 16
	}
	return 1 + rand.N(every), every // others have the rest
}

// Wherever in a call the ledger fails, and however, its client gets its answer, if need be by sending
// again what it is told to send again; nothing is done twice, and nothing is left behind.
func TestLedgerFailsAtEachPointOfACall(t *testing.T) {
	for name, how := range faults {
		for does, way := range ways {
			for _, replicas := range []int{1, 3} {
				t.Run(fmt.Sprintf("%s/%s/%d", name, does, replicas), func(t *testing.T) {
					t.Parallel()
					first, every := faultyCalls()
					for n := first; faultyCall(t, replicas, n, how, way, does == "answers"); n += every {
						require.Less(t, n, 500)
					}
				})
			}
		}
	}
}
