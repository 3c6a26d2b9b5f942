package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/audit"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

type sureForm struct {
	Sure bool `json:"sure"`
}

// order books, asks, and pays; if paying fails, what was booked is undone.
func order(pay func() error) saga.Definition {
	sure := &steps.Form[sureForm]{ID: "sure", Message: "Shall I order?"}
	book := &saga.Effect[string, string]{
		Name: "book", Do: func(context.Context, saga.Key, string) (string, error) { return "hush-booked", nil },
		Undo: func(context.Context, saga.Performed[string, string]) error { return nil },
	}
	charge := &saga.Effect[string, string]{
		Name: "charge", Irreversible: true, Do: func(context.Context, saga.Key, string) (string, error) { return "hush-paid", pay() },
	}
	return saga.Flow[struct {
		Item string `json:"item"`
	}, string]{
		Info: saga.Info{Name: "order", Asks: []steps.Question{sure}, Effects: []saga.Declared{book, charge}},
		Run: func(r *saga.Run, in struct {
			Item string `json:"item"`
		}) (string, error) {
			if _, err := saga.Do(r, book, in.Item); err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, sure); err != nil {
				return "", err
			}
			return saga.Do(r, charge, in.Item)
		},
	}
}

// shop is two replicas whose audits are in one text.
type shop struct {
	t        *testing.T
	keys     *codec.Keyset
	replicas [2]*server.Server
	mu       sync.Mutex
	text     bytes.Buffer
}

func (s *shop) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(line)
}

func newShop(t *testing.T, pay func() error, store ledger.Store) *shop {
	return newShopOf(t, order(pay), store)
}

func newShopOf(t *testing.T, tool saga.Definition, store ledger.Store) *shop {
	s := &shop{t: t}
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	s.keys = keys
	for i := range s.replicas {
		s.replicas[i], err = server.New(server.Options{
			Tools: []saga.Definition{tool}, Keys: keys, Audience: "shop", Ledger: store, Logger: slog.New(slog.DiscardHandler),
			Hooks: []server.Hooks{audit.New(s, audit.Options{Key: []byte("a key of the operator's")}).Hooks()},
		})
		require.NoError(t, err)
		t.Cleanup(func() { s.replicas[i].Close() })
	}
	return s
}

var ann = saga.Caller{Issuer: "https://login.example.com", Subject: "ann", Client: "desk"}

// send sends a request to a replica, and returns the token in its result.
func (s *shop) send(replica int, who saga.Caller, method, params string) (token string, err error) {
	result, err := s.replicas[replica].Handle(s.t.Context(), &server.Request{Method: method, Params: json.RawMessage(params), Caller: who})
	var reply struct{ SagaToken string }
	_ = json.Unmarshal(result, &reply)
	return reply.SagaToken, err
}

// lines are those of the audit, without times, sagas and keys, which must be there.
func (s *shop) lines() (list []audit.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.Lines(s.text.String()) {
		var r audit.Record
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		require.NoError(s.t, d.Decode(&r))
		assert.False(s.t, r.Time.IsZero())
		list = append(list, r)
	}
	return list
}

const (
	called  = `{"name":"order","arguments":{"item":"hush-lamp"}}`
	answers = `,"completedSteps":[{"stepId":"sure","result":{"action":"accept","content":{"sure":true}}}]}`
)

// All acts of a saga that goes through two replicas are written, with who did them, and nothing that was said.
func TestEveryActIsWritten(t *testing.T) {
	t.Run("without a ledger", func(t *testing.T) { everyActIsWritten(t, nil) })
	t.Run("with a ledger", func(t *testing.T) {
		store := ledger.NewMemory(ledger.MemoryOptions{})
		t.Cleanup(func() { _ = store.Close() })
		everyActIsWritten(t, store)
	})
}

func everyActIsWritten(t *testing.T, store ledger.Store) {
	s := newShop(t, func() error { return nil }, store)
	token, err := s.send(0, ann, "tools/callSaga", called)
	require.NoError(t, err)
	_, err = s.send(1, ann, "tools/resumeSaga", `{"sagaToken":"`+token+`"`+answers)
	require.NoError(t, err)
	got := s.lines()
	require.Len(t, got, 4)
	who := &audit.Caller{Issuer: ann.Issuer, Subject: "ann", Client: "desk"}
	for i := range got {
		assert.Equal(t, who, got[i].Caller)
		assert.Len(t, got[i].Saga, 32)
		assert.Equal(t, got[0].Saga, got[i].Saga)
		assert.Equal(t, "order", got[i].Name)
	}
	digest := func(text string) string { return audit.Digest([]byte("a key of the operator's"), []byte(text)) }
	assert.Equal(t, []string{"effect", "call", "effect", "resume"}, acts(got))
	assert.Equal(t, []string{"book"}, got[0].Effects)
	assert.NotEmpty(t, got[0].Key)
	assert.Equal(t, "done", got[0].Outcome)
	assert.Equal(t, []string{"sure"}, got[1].Asked)
	assert.Equal(t, "suspended", got[1].Outcome)
	assert.Equal(t, digest(`{"item":"hush-lamp"}`), got[1].Arguments)
	assert.Equal(t, []audit.Answer{{Question: "sure", Digest: digest(`{"action":"accept","content":{"sure":true}}`)}}, got[3].Answers)
	assert.Equal(t, []any{2, "done"}, []any{got[3].Turn, got[3].Outcome})
	assert.NotContains(t, s.text.String(), "hush", "what was said")
	assert.NotContains(t, s.text.String(), token)
}

// With a ledger, a saga has its id from the first turn on, and who has answered in the client's place is written with the turn
// that takes the answer.
func TestAnswersOfOthersAreWritten(t *testing.T) {
	store := ledger.NewMemory(ledger.MemoryOptions{})
	defer store.Close()
	sure, paid, handle := &steps.Form[sureForm]{ID: "sure", Message: "Shall I order?"}, &steps.Event[sureForm]{ID: "paid", Message: "Waiting.", Within: time.Hour}, ""
	book := &saga.Effect[string, string]{
		Name: "book", Do: func(context.Context, saga.Key, string) (string, error) { return "", nil },
		Undo: func(context.Context, saga.Performed[string, string]) error { return nil },
	}
	s := newShopOf(t, saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "order", Asks: []steps.Question{sure, paid}, Effects: []saga.Declared{book}},
		Run: func(r *saga.Run, _ struct{}) (_ string, err error) {
			if _, err = saga.Do(r, book, ""); err != nil {
				return "", err
			}
			if _, err = saga.Ask(r, sure); err != nil {
				return "", err
			}
			if handle, err = saga.Handle(r, paid); err == nil {
				_, err = saga.Ask(r, paid)
			}
			return "ordered", err
		},
	}, store)
	token, err := s.send(0, ann, "tools/callSaga", `{"name":"order"}`)
	require.NoError(t, err)
	token, err = s.send(1, ann, "tools/resumeSaga", `{"sagaToken":"`+token+`"`+answers)
	require.NoError(t, err)
	require.NoError(t, s.replicas[0].Deliver(t.Context(), handle, json.RawMessage(`{"sure":true}`)))
	_, err = s.send(0, ann, "tools/resumeSaga", `{"sagaToken":"`+token+`","completedSteps":[]}`)
	require.NoError(t, err)
	got := s.lines()
	require.Equal(t, []string{"effect", "call", "resume", "resume"}, acts(got))
	for i, r := range got {
		assert.Equal(t, []any{got[3].Saga, max(1, i)}, []any{r.Saga, r.Turn})
	}
	assert.Empty(t, got[2].Answers[0].By)
	require.Len(t, got[3].Answers, 1)
	assert.Equal(t, []string{"paid", "event"}, []string{got[3].Answers[0].Question, got[3].Answers[0].By})
	assert.Equal(t, "done", got[3].Outcome)

	o, by := durable.NewOperator(store, func() *codec.Keyset { return s.keys }, "shop"), ""
	for w, err := range o.All(t.Context()) {
		require.NoError(t, err)
		for e, err := range o.History(t.Context(), w.ID) {
			require.NoError(t, err)
			for _, a := range e.Answers {
				by += e.Kind + " with " + a.StepID + " by " + a.By
			}
		}
	}
	assert.Equal(t, "turn with paid by event", by, "in the ledger")
}

// What fails is undone, and what is refused has its reason.
func TestFailuresAreWritten(t *testing.T) {
	s := newShop(t, func() error { return saga.Refused(errors.New("no money")) }, nil)
	token, err := s.send(0, ann, "tools/callSaga", called)
	require.NoError(t, err)
	_, err = s.send(0, saga.Caller{Subject: "eve"}, "tools/resumeSaga", `{"sagaToken":"`+token+`"`+answers)
	require.Error(t, err)
	_, err = s.send(1, ann, "tools/resumeSaga", `{"sagaToken":"`+token+`"`+answers)
	require.NoError(t, err)
	got := s.lines()
	require.Equal(t, []string{"effect", "call", "resume", "effect", "undo effect", "resume"}, acts(got))
	assert.Equal(t, []any{"", "refused", "authentication", &audit.Caller{Subject: "eve"}}, []any{got[2].Saga, got[2].Outcome, got[2].Reason, got[2].Caller})
	assert.Equal(t, []any{[]string{"charge"}, "failed"}, []any{got[3].Effects, got[3].Outcome})
	assert.Equal(t, []any{[]string{"book"}, "done"}, []any{got[4].Effects, got[4].Outcome})
	assert.Equal(t, "failed", got[5].Outcome)
}

func acts(list []audit.Record) (names []string) {
	for _, r := range list {
		names = append(names, r.Act)
	}
	return names
}

type full struct{ lines int }

func (f *full) Write([]byte) (int, error) { f.lines++; return 0, errors.New("no space left on device") }

// A full disk is an alarm, not the end of a call.
func TestWhatCannotBeWrittenIsAnAlarm(t *testing.T) {
	var log bytes.Buffer
	disk := &full{}
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	s, err := server.New(server.Options{
		Keys: keys, Tools: []saga.Definition{order(func() error { return nil })}, Logger: slog.New(slog.DiscardHandler),
		Hooks: []server.Hooks{audit.New(disk, audit.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}).Hooks()},
	})
	require.NoError(t, err)
	defer s.Close()
	for range 3 {
		_, err = s.Handle(t.Context(), &server.Request{Method: "tools/callSaga", Params: json.RawMessage(called)})
		require.NoError(t, err)
	}
	assert.Equal(t, 6, disk.lines)
	assert.Equal(t, 1, strings.Count(log.String(), "the audit cannot be written"))
	assert.Contains(t, log.String(), "level=ERROR")
}

// tearing is a disk that has room for the beginning of the second line only.
type tearing struct {
	bytes.Buffer
	lines int
}

func (w *tearing) Write(line []byte) (int, error) {
	if w.lines++; w.lines == 2 {
		n, _ := w.Buffer.Write(line[:9])
		return n, errors.New("no space left on device")
	}
	return w.Buffer.Write(line)
}

// A line that was not written to its end does not spoil the next.
func TestTornLines(t *testing.T) {
	var disk tearing
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	s, err := server.New(server.Options{
		Keys: keys, Tools: []saga.Definition{order(func() error { return nil })}, Logger: slog.New(slog.DiscardHandler),
		Hooks: []server.Hooks{audit.New(&disk, audit.Options{Logger: slog.New(slog.DiscardHandler)}).Hooks()},
	})
	require.NoError(t, err)
	defer s.Close()
	for range 2 {
		_, err = s.Handle(t.Context(), &server.Request{Method: "tools/callSaga", Params: json.RawMessage(called)})
		require.NoError(t, err)
	}
	whole := 0
	for line := range strings.Lines(disk.String()) {
		if json.Valid([]byte(line)) {
			whole++
		}
	}
	assert.Equal(t, []int{3, 4}, []int{whole, strings.Count(disk.String(), "\n")})
}

// Without a key there are no digests: what is short could be guessed.
func TestDigestsNeedAKey(t *testing.T) {
	assert.Empty(t, audit.Digest(nil, []byte("yes")))
	assert.NotEqual(t, audit.Digest([]byte("one"), []byte("yes")), audit.Digest([]byte("two"), []byte("yes")))
}

// A client may send answers to what is no question. They are no acts, and would be of any size.
func TestAnswersToNoQuestionAreNotWritten(t *testing.T) {
	var text bytes.Buffer
	var answers []steps.Answer
	for _, id := range []string{"sure", "item#2", "sure~3", "item#2~13", strings.Repeat("<", 900_000), "a\u202eb", "sure#\n", "sure~" + strings.Repeat("1", 100), "#1", ""} {
		answers = append(answers, steps.Answer{StepID: id, Result: json.RawMessage("{}")})
	}
	hook := audit.New(&text, audit.Options{}).Hooks().Turn
	require.NoError(t, hook(t.Context(), &server.TurnInfo{Answers: answers}, func(context.Context) error { return nil }))
	var written audit.Record
	require.NoError(t, json.Unmarshal(text.Bytes(), &written))
	assert.Equal(t, []audit.Answer{{Question: "sure"}, {Question: "item#2"}, {Question: "sure~3"}, {Question: "item#2~13"}}, written.Answers)
}

// A ledger has the effects of a saga's last turn, as those of the turns before.
func TestLedgersHaveTheEffectsOfLastTurns(t *testing.T) {
	store := ledger.NewMemory(ledger.MemoryOptions{})
	defer store.Close()
	s := newShop(t, func() error { return nil }, store)
	token, err := s.send(0, ann, "tools/callSaga", called)
	require.NoError(t, err)
	_, err = s.send(1, ann, "tools/resumeSaga", `{"sagaToken":"`+token+`"`+answers)
	require.NoError(t, err)
	o := durable.NewOperator(store, func() *codec.Keyset { return s.keys }, "shop")
	var said []string
	for w, err := range o.All(t.Context()) {
		require.NoError(t, err)
		for e, err := range o.History(t.Context(), w.ID) {
			require.NoError(t, err)
			if len(e.Effects) > 0 {
				said = append(said, e.Kind+": "+strings.Join(e.Effects, ", "))
			}
		}
	}
	assert.Equal(t, []string{"turn: book", "turn: book, charge"}, said)
}
