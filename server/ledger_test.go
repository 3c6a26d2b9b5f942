package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// seats is what the tool seat acts on.
type seats struct {
	mu   sync.Mutex
	held map[saga.Key]string
	// calls counts those of Do; slow is how long one takes.
	calls int
	slow  time.Duration
}

func (s *seats) hold(_ context.Context, k saga.Key, row string) (string, error) {
	time.Sleep(s.slow)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.held == nil {
		s.held = map[saga.Key]string{}
	}
	s.held[k] = row
	return "seat in " + row, nil
}

func (s *seats) release(_ context.Context, p saga.Performed[string, string]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, p.Key)
	return nil
}

// now is how many seats are held, and how often one was asked for.
func (s *seats) now() (held, calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held), s.calls
}

type rowForm struct {
	Row string `json:"row"`
}

// tool asks for a row, holds a seat in it, and asks whether it is to be taken.
func (s *seats) tool() saga.Flow[struct{}, string] {
	return s.toolWith(&saga.Effect[string, string]{Name: "hold", Do: s.hold, Undo: s.release})
}

// toolWith is tool with another way to hold a seat.
func (s *seats) toolWith(hold *saga.Effect[string, string]) saga.Flow[struct{}, string] {
	row := &steps.Form[rowForm]{ID: "row", Message: "Which row?"}
	sure := &steps.Form[sureForm]{ID: "sure", Message: "Sure?"}
	return saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "seat", Asks: []steps.Question{row, sure}, Effects: []saga.Declared{hold}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			where, err := saga.Ask(r, row)
			if err != nil {
				return "", err
			}
			got, err := saga.Do(r, hold, where.Row)
			if err != nil {
				return "", err
			}
			form, err := saga.Ask(r, sure)
			if err != nil {
				return "", err
			}
			if !form.Sure {
				return "", saga.Failf("not sure")
			}
			return got, nil
		},
	}
}

// ledgers are the stores that several servers can share, as each of them opens its own.
func ledgers(t *testing.T) map[string]func() ledger.Store {
	inMemory := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = inMemory.Close() })
	path := filepath.Join(t.TempDir(), "ledger.db")
	return map[string]func() ledger.Store{
		"memory": func() ledger.Store { return inMemory },
		"sqlite": func() ledger.Store {
			s, err := sqlite.Open(t.Context(), path)
			require.NoError(t, err)
			t.Cleanup(func() { _ = s.Close() })
			return s
		},
	}
}

// seatTalk is how a client of a dialect books a seat. Answers are by step; token is empty at
// first. It returns the whole response.
type seatTalk func(r *rig, token string, answers object) (status int, body string)

// inSaga is the saga proposal.
func inSaga(r *rig, token string, answers object) (int, string) {
	if token == "" {
		return r.do(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"seat"}}`, nil)
	}
	return r.do(http.MethodPost, "/mcp", seatMessage("resumeSaga", token, answers), nil)
}

func seatMessage(method, token string, answers object) string {
	completed := []object{}
	for _, id := range []string{"row", "sure"} { // in the order in which they were asked
		if a, ok := answers[id]; ok {
			completed = append(completed, object{"stepId": id, "result": a})
		}
	}
	raw, err := json.Marshal(object{"jsonrpc": "2.0", "id": 2, "method": "tools/" + method, "params": object{"sagaToken": token, "completedSteps": completed}})
	if err != nil {
		panic(err) // tests only put in what encodes
	}
	return string(raw)
}

// inModernSaga is the saga proposal within MCP 2026-07-28.
func inModernSaga(r *rig, token string, answers object) (int, string) {
	q := modernRequest("tools/callSaga", object{"name": "seat"})
	if token != "" {
		var m struct{ Params object }
		if err := json.Unmarshal([]byte(seatMessage("resumeSaga", token, answers)), &m); err != nil {
			panic(err)
		}
		q = modernRequest("tools/resumeSaga", m.Params)
	}
	got := r.send(q)
	return got.status, got.raw
}

// inRounds is MCP 2026-07-28: only the last answers are sent.
func inRounds(r *rig, token string, answers object) (int, string) {
	q := callTool("seat", nil).with(allCapabilities)
	if last, ok := answers["sure"]; ok {
		answers = object{"sure": last}
	}
	got := r.send(q.answering(token, answers))
	return got.status, got.raw
}

var talks = map[string]seatTalk{"saga": inSaga, "saga in MCP 2026-07-28": inModernSaga, "MCP 2026-07-28": inRounds}

// tokenOf is the token in a response.
func tokenOf(t *testing.T, body string) string {
	t.Helper()
	var m struct {
		Result struct{ SagaToken, RequestState string }
	}
	require.NoError(t, json.Unmarshal([]byte(body), &m), body)
	token := m.Result.SagaToken + m.Result.RequestState
	require.NotEmpty(t, token, body)
	return token
}

func accepting(content object) object { return object{"action": "accept", "content": content} }

var (
	rowSeven   = object{"row": accepting(object{"row": "7"})}
	rowEight   = object{"row": accepting(object{"row": "8"})}
	sevenSure  = object{"row": accepting(object{"row": "7"}), "sure": accepting(object{"sure": true})}
	sevenDoubt = object{"row": accepting(object{"row": "7"}), "sure": accepting(object{"sure": false})}
)

// Two servers with one ledger take each turn once, whoever asks how often, and say the same
// to all: in every dialect whose clients carry a token.
func TestTurnsAreTakenOnce(t *testing.T) {
	for store, open := range ledgers(t) {
		for dialect, say := range talks {
			t.Run(store+"/"+dialect, func(t *testing.T) {
				s := &seats{slow: 20 * time.Millisecond}
				o := server.Options{Keys: newKeys(t), Tools: []saga.Definition{s.tool()}}
				o.Ledger = open()
				here := newRig(t, o)
				o.Ledger = open()
				there := newRig(t, o)

				_, body := say(here, "", nil)
				first := tokenOf(t, body)
				var all sync.WaitGroup
				bodies := make([]string, 20)
				for i := range bodies {
					all.Go(func() {
						status := 0
						status, bodies[i] = say([]*rig{here, there}[i%2], first, rowSeven)
						assert.Equal(t, http.StatusOK, status, bodies[i])
					})
				}
				all.Wait()
				for _, body := range bodies {
					require.Equal(t, bodies[0], body, "byte for byte")
				}
				held, calls := s.now()
				assert.Equal(t, 1, held)
				assert.Equal(t, 1, calls)
				second := tokenOf(t, bodies[0])

				// Other answers to a turn that was taken are refused like any bad token.
				_, bad := say(here, "1AAAA", rowEight)
				here.log.take()
				_, spent := say(here, first, rowEight)
				assert.Equal(t, bad, spent)
				assert.Contains(t, here.log.take(), "spent")
				// The same ones get the same, also later and elsewhere.
				_, again := say(there, first, rowSeven)
				assert.Equal(t, bodies[0], again)

				_, end := say(there, second, sevenSure)
				assert.Contains(t, end, "seat in 7")
				_, again = say(here, second, sevenSure)
				assert.Equal(t, end, again)

				// The end is final, whatever old token comes.
				_, spent = say(here, second, sevenDoubt)
				assert.Equal(t, bad, spent)
				_, spent = say(here, first, rowEight)
				assert.Equal(t, bad, spent)
				for _, token := range []string{first, second} {
					_, body := here.do(http.MethodPost, "/mcp", seatMessage("cancelSaga", token, nil), nil)
					assert.NotContains(t, body, "hold", "nothing is undone: %s", body)
				}
				held, calls = s.now()
				assert.Equal(t, 1, held)
				assert.Equal(t, 1, calls)
			})
		}
	}
}

// A saga that is cancelled with an old token is cancelled where it is now; and it stays so.
func TestCancelWithAnOldToken(t *testing.T) {
	for store, open := range ledgers(t) {
		t.Run(store, func(t *testing.T) {
			s := new(seats)
			r := newRig(t, server.Options{Keys: newKeys(t), Tools: []saga.Definition{s.tool()}, Ledger: open()})
			_, body := inSaga(r, "", nil)
			first := tokenOf(t, body)
			_, body = inSaga(r, first, rowSeven)
			second := tokenOf(t, body)
			_, body = r.do(http.MethodPost, "/mcp", seatMessage("cancelSaga", first, nil), nil)
			assert.Equal(t, []string{"hold"}, undone(t, body))
			held, _ := s.now()
			assert.Zero(t, held)
			_, body = inSaga(r, second, sevenSure)
			require.NotNil(t, parse(t, body).Error, body)
			_, body = r.do(http.MethodPost, "/mcp", seatMessage("cancelSaga", second, nil), nil)
			assert.Nil(t, parse(t, body).Error, "it says what became of it: %s", body)
		})
	}
}

// faulty is a store that can be away.
type faulty struct {
	ledger.Store
	away atomic.Bool
}

var errAway = errors.New("dial tcp: no route to db.internal")

func (f *faulty) fails() error {
	if f.away.Load() {
		return errAway
	}
	return nil
}

func (f *faulty) Load(ctx context.Context, key string) (*ledger.Record, error) {
	if err := f.fails(); err != nil {
		return nil, err
	}
	return f.Store.Load(ctx, key)
}

func (f *faulty) Swap(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
	if err := f.fails(); err != nil {
		return err
	}
	return f.Store.Swap(ctx, r, items...)
}

func (f *faulty) Watch(ctx context.Context, key string, after uint64) iter.Seq2[*ledger.Record, error] {
	if err := f.fails(); err != nil {
		return func(yield func(*ledger.Record, error) bool) { yield(nil, err) }
	}
	return f.Store.Watch(ctx, key, after)
}

func (f *faulty) Take(ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
	if err := f.fails(); err != nil {
		return nil, err
	}
	return f.Store.Take(ctx, t)
}

func (f *faulty) Count(ctx context.Context, owner string, most int) (int, error) {
	if err := f.fails(); err != nil {
		return 0, err
	}
	return f.Store.Count(ctx, owner, most)
}

func (f *faulty) Now(ctx context.Context) (time.Time, error) {
	if err := f.fails(); err != nil {
		return time.Time{}, err
	}
	return f.Store.Now(ctx)
}

// While the ledger is away, what needs it is to be sent again; all else is served, and all
// goes on when it is back.
func TestLedgerIsAway(t *testing.T) {
	for dialect, say := range talks {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				s := new(seats)
				store := &faulty{Store: ledger.NewMemory(ledger.MemoryOptions{})}
				r := newRig(t, server.Options{Keys: newKeys(t), Tools: []saga.Definition{s.tool(), complextool.Tool}, Ledger: store})
				_, body := say(r, "", nil)
				first := tokenOf(t, body)

				store.away.Store(true)
				status, body := say(r, first, rowSeven)
				require.Equal(t, http.StatusServiceUnavailable, status, body)
				assert.Equal(t, -31503, parse(t, body).Error.Code)
				assert.Contains(t, body, `"data":{"retryable":true}`)
				assert.NotContains(t, body, "db.internal", "that is for the log")
				assert.Contains(t, r.log.take(), "db.internal")
				held, calls := s.now()
				assert.Zero(t, held+calls, "nothing has happened")
				req := r.httpRequest(t.Context(), modernRequest("tools/cancelSaga", object{"sagaToken": first}))
				resp, err := r.client().Do(req)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
				assert.Equal(t, "1", resp.Header.Get("Retry-After"))
				for i, pair := range transcript(t)[:2] {
					message := pair[0]
					if i == 1 {
						message = strings.Replace(message, "TOKEN1", r.firstToken(), 1)
					}
					assert.Nil(t, parse(t, r.post(message)).Error, "this tool needs no ledger")
				}

				store.away.Store(false)
				status, body = say(r, first, rowSeven)
				assert.Equal(t, http.StatusOK, status, body)
				_, body = say(r, tokenOf(t, body), sevenSure)
				assert.Contains(t, body, "seat in 7")
				_, calls = s.now()
				assert.Equal(t, 1, calls)
			})
		})
	}
}

// Nobody comes back: what was held is released when the time is over, by whichever server is
// there. Who comes later reads so.
func TestAbandonedSagaIsUndone(t *testing.T) {
	now := &clock{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	store := ledger.NewMemory(ledger.MemoryOptions{Now: now.Now})
	s := new(seats)
	o := server.Options{Keys: newKeys(t), Tools: []saga.Definition{s.tool()}, Ledger: store, Now: now.Now, TokenTTL: time.Hour}
	r := newRig(t, o)
	_, body := inSaga(r, "", nil)
	first := tokenOf(t, body)
	_, body = inSaga(r, first, rowSeven)
	second := tokenOf(t, body)
	r.srv.Close() // this server stops
	other := newRig(t, o)
	now.set(now.Now().Add(30 * time.Minute))
	time.Sleep(50 * time.Millisecond)
	held, _ := s.now()
	require.Equal(t, 1, held, "it is not too late yet")
	now.set(now.Now().Add(35 * time.Minute))
	require.Eventually(t, func() bool { held, _ := s.now(); return held == 0 }, time.Minute, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		_, body := other.do(http.MethodPost, "/mcp", seatMessage("cancelSaga", second, nil), nil)
		return assert.ObjectsAreEqual([]string{"hold"}, undone(t, body))
	}, time.Minute, 10*time.Millisecond, "who comes later is told")
	_, body = inSaga(other, second, sevenSure)
	assert.NotContains(t, body, "seat in 7")
	held, calls := s.now()
	assert.Zero(t, held)
	assert.Equal(t, 1, calls)
}

// A first call that is repeated with its key is the same saga, in every dialect.
func TestRepeatedFirstCall(t *testing.T) {
	for store, open := range ledgers(t) {
		t.Run(store, func(t *testing.T) {
			s := new(seats)
			o := server.Options{Keys: newKeys(t), Tools: []saga.Definition{s.tool(), complextool.Tool}}
			o.Ledger = open()
			here := newRig(t, o)
			o.Ledger = open()
			there := newRig(t, o)
			call := func(r *rig, key, method, params string) string {
				_, body := r.do(http.MethodPost, "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/%s","params":{"name":%s}}`, method, params), func(q *http.Request) {
					q.Header.Set("Idempotency-Key", key)
				})
				return body
			}
			one := call(here, "key-1", "callSaga", `"seat"`)
			assert.Equal(t, one, call(there, `"key-1"`, "callSaga", `"seat"`), "byte for byte")
			assert.NotEqual(t, one, call(there, "key-2", "callSaga", `"seat"`))
			other := parse(t, call(there, "key-1", "callSaga", `"seat","arguments":{"x":1}`))
			require.NotNil(t, other.Error)
			assert.Equal(t, -32602, other.Error.Code)
			assert.Contains(t, other.Error.Message, "key")

			modern := callTool("seat", nil).with(allCapabilities)
			modern.meta["io.github.mcpsaga/idempotencyKey"] = "key-3"
			assert.Equal(t, here.send(modern).raw, there.send(modern).raw)
			assert.NotEqual(t, call(here, "k", "callSaga", `"complex_tool","arguments":{"initial_arg":"x"}`), call(here, "k", "callSaga", `"complex_tool","arguments":{"initial_arg":"x"}`), "it has no use for keys")

			var list struct {
				Result struct {
					Tools []struct {
						Name string
						Meta map[string]json.RawMessage `json:"_meta"`
					}
				}
			}
			require.NoError(t, json.Unmarshal([]byte(here.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)), &list))
			require.Len(t, list.Result.Tools, 2)
			assert.Equal(t, "true", string(list.Result.Tools[0].Meta["io.github.mcpsaga/idempotencyKey"]))
			assert.NotContains(t, list.Result.Tools[1].Meta, "io.github.mcpsaga/idempotencyKey")
		})
	}
}

// Without a ledger everything is as it was: sagas fork, and the list says nothing of keys.
func TestWithoutALedger(t *testing.T) {
	s := new(seats)
	r := newRig(t, server.Options{Keys: newKeys(t), Tools: []saga.Definition{s.tool()}})
	_, body := inSaga(r, "", nil)
	first := tokenOf(t, body)
	for _, row := range []object{rowSeven, rowEight} {
		_, body = inSaga(r, first, row)
		tokenOf(t, body)
	}
	assert.NotContains(t, r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), "idempotencyKey")
}

// A tool that demands single use is not served by who cannot keep it.
func TestRequiredSingleUseNeedsALedger(t *testing.T) {
	tool := new(seats).tool()
	tool.SingleUse = saga.SingleUseRequired
	o := server.Options{Keys: newKeys(t), Tools: []saga.Definition{tool}}
	_, err := server.New(o)
	var wrong *saga.DefinitionError
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, "seat", wrong.Tool)
	assert.ErrorContains(t, err, "ledger")
	o.Ledger = ledger.NewMemory(ledger.MemoryOptions{})
	_, err = server.New(o)
	require.NoError(t, err)
}

// Clients that know no tokens are served as ever, and what ended well stays.
func TestOlderClientsWithALedger(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		now := &clock{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
		store := ledger.NewMemory(ledger.MemoryOptions{Now: now.Now})
		s := new(seats)
		r := newRig(t, server.Options{Keys: newKeys(t), Tools: []saga.Definition{s.tool()}, Ledger: store, Now: now.Now})
		c := r.connect("2025-11-25", everything)
		events := c.stream(toolCall(7, "seat", `{}`))
		c.reply(events.wait("elicitation/create").ID, accepted(`{"row":"7"}`))
		c.reply(events.wait("elicitation/create").ID, accepted(`{"sure":true}`))
		assert.Contains(t, events.wait("").data, "seat in 7")
		events = c.stream(toolCall(8, "seat", `{}`))
		c.reply(events.wait("elicitation/create").ID, accepted(`{"row":"8"}`))
		c.reply(events.wait("elicitation/create").ID, `{"action":"decline"}`)
		events.wait("")
		held, calls := s.now()
		assert.Equal(t, 1, held)
		assert.Equal(t, 2, calls)
		now.set(now.Now().Add(24 * time.Hour))
		time.Sleep(1500 * time.Millisecond) // the store looks at its clock each second
		held, _ = s.now()
		assert.Equal(t, 1, held)
	})
}

// A caller may have so many sagas under way, and no more; one that ends makes room.
func TestLedgerLimit(t *testing.T) {
	r := newRig(t, server.Options{Keys: newKeys(t), Tools: []saga.Definition{new(seats).tool()}, Ledger: ledger.NewMemory(ledger.MemoryOptions{}), LedgerLimit: 1})
	_, body := inSaga(r, "", nil)
	status, _ := inSaga(r, tokenOf(t, body), rowSeven)
	assert.Equal(t, http.StatusOK, status)
	_, body = inSaga(r, "", nil)
	status, body = inSaga(r, tokenOf(t, body), rowSeven)
	assert.Equal(t, http.StatusTooManyRequests, status)
	assert.Contains(t, body, "too many sagas")
}

// A request that waits for its like longer than a turn may take is told to come back.
func TestTurnUnderWayElsewhere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := new(seats)
		tool := s.tool()
		hold := tool.Effects[0].(*saga.Effect[string, string])
		begun, goOn := make(chan struct{}), make(chan struct{})
		hold.Do = func(ctx context.Context, k saga.Key, row string) (string, error) {
			close(begun)
			<-goOn
			return s.hold(ctx, k, row)
		}
		o := server.Options{Keys: newKeys(t), Tools: []saga.Definition{tool}, Ledger: ledger.NewMemory(ledger.MemoryOptions{})}
		r := newRig(t, o)
		o.TurnTimeout = 50 * time.Millisecond
		other := newRig(t, o)
		_, body := inSaga(r, "", nil)
		token := tokenOf(t, body)
		done := make(chan string)
		go func() {
			_, body := inSaga(r, token, rowSeven)
			done <- body
		}()
		<-begun
		status, body := inSaga(other, token, rowSeven)
		assert.Equal(t, http.StatusServiceUnavailable, status)
		assert.Contains(t, body, "-31503")
		assert.Contains(t, body, "still being worked on")
		close(goOn)
		first := <-done
		_, again := inSaga(other, token, rowSeven)
		assert.Equal(t, first, again)
	})
}
