package turns

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// newRunner returns a runner of tools with keys of its own.
func newRunner(t testing.TB, definitions ...saga.Definition) *Runner {
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	c, err := tokens.New(keys, tokens.Options{})
	require.NoError(t, err)
	tools, err := engine.NewRegistry(definitions...)
	require.NoError(t, err)
	r, err := New(Config{Registry: tools, Codec: c, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	require.NoError(t, err)
	return r
}

// world is where effects happen: once per key, and never after they were undone.
type world struct {
	mu     sync.Mutex
	done   map[saga.Key]string // what is done
	undone map[saga.Key]bool
	calls  []string
	// at is called in an effect, before it happens and (after) when it has.
	at func(ctx context.Context, effect string, after bool) error
	// unwilling are effects that cannot be undone at present.
	unwilling map[string]bool
}

func newWorld() *world {
	return &world{done: map[saga.Key]string{}, undone: map[saga.Key]bool{}, unwilling: map[string]bool{}}
}

// things lists what is done.
func (w *world) things() (list []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, what := range w.done {
		list = append(list, what)
	}
	return list
}

var errDead = errors.New("this process is dead")

func (w *world) do(ctx context.Context, name string, key saga.Key) error {
	w.mu.Lock()
	at := w.at
	w.mu.Unlock()
	if at != nil {
		if err := at(ctx, name, false); err != nil {
			return err
		}
	}
	if dead(ctx) {
		return errDead
	}
	w.mu.Lock()
	w.calls = append(w.calls, name)
	if w.undone[key] {
		w.mu.Unlock()
		return saga.Refused(errors.New("it was undone"))
	}
	w.done[key] = name
	w.mu.Unlock()
	if at != nil {
		return at(ctx, name, true)
	}
	return nil
}

func (w *world) undo(ctx context.Context, name string, key saga.Key) error {
	if dead(ctx) {
		return errDead
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, "undo "+name)
	if w.unwilling[name] {
		return errors.New("not now")
	}
	delete(w.done, key)
	w.undone[key] = true
	return nil
}

func (w *world) effect(name string) *saga.Effect[string, string] {
	return &saga.Effect[string, string]{
		Name: name, Tries: 1,
		Do: func(ctx context.Context, key saga.Key, in string) (string, error) {
			return string(key), w.do(ctx, name, key)
		},
		Undo: func(ctx context.Context, p saga.Performed[string, string]) error { return w.undo(ctx, name, p.Key) },
	}
}

type (
	tripArgs struct {
		To    string `json:"to"`
		Early bool   `json:"early,omitempty"` // hold before asking
	}
	tripForm struct {
		OK bool `json:"ok"`
	}
)

// trip is a tool that holds a room (in its first turn, or its second), asks whether to pay,
// and pays.
func (w *world) trip(change func(*saga.Info)) saga.Definition {
	where := &steps.Form[tripForm]{ID: "where", Message: "There?"}
	pay := &steps.Form[tripForm]{ID: "pay", Message: "Pay?"}
	hold, charge := w.effect("hold"), w.effect("charge")
	info := saga.Info{Name: "trip", Asks: []steps.Question{where, pay}, Effects: []saga.Declared{hold, charge}}
	if change != nil {
		change(&info)
	}
	return saga.Flow[tripArgs, string]{Info: info, Run: func(r *saga.Run, in tripArgs) (string, error) {
		if in.Early {
			if _, err := saga.Do(r, hold, in.To); err != nil {
				return "", err
			}
		}
		if _, err := saga.Ask(r, where); err != nil {
			return "", err
		}
		if !in.Early {
			if _, err := saga.Do(r, hold, in.To); err != nil {
				return "", err
			}
		}
		if form, err := saga.Ask(r, pay); err != nil || !form.OK {
			return "not booked", err
		}
		if _, err := saga.Do(r, charge, in.To); err != nil {
			return "", err
		}
		return "booked", nil
	}}
}

// shared is what replicas have in common.
type shared struct {
	t     *testing.T
	store ledger.Store
	keys  *codec.Keyset
	tools []saga.Definition
	log   *bytes.Buffer
	logMu sync.Mutex
}

func newShared(t *testing.T, tools ...saga.Definition) *shared {
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	store := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	return &shared{t: t, store: store, keys: keys, tools: tools, log: new(bytes.Buffer)}
}

// sharedTrip is the trip, served by replicas, and what it acts on.
func sharedTrip(t *testing.T) (*world, *shared) {
	w := newWorld()
	return w, newShared(t, w.trip(nil))
}

// Write makes it an [io.Writer] for the log.
func (s *shared) Write(b []byte) (int, error) {
	s.logMu.Lock()
	defer s.logMu.Unlock()
	return s.log.Write(b)
}

// logged returns what was logged.
func (s *shared) logged() string {
	s.logMu.Lock()
	defer s.logMu.Unlock()
	return s.log.String()
}

// replica is one of several servers.
type replica struct {
	*Runner
	line *line
}

func (s *shared) replica(change ...func(*Config)) *replica {
	s.t.Helper()
	c, err := tokens.New(s.keys, tokens.Options{Audience: "here"})
	require.NoError(s.t, err)
	tools, err := engine.NewRegistry(s.tools...)
	require.NoError(s.t, err)
	l := &line{Store: s.store}
	config := Config{Registry: tools, Codec: c, Log: slog.New(slog.NewTextHandler(s, nil)), Now: time.Now, Timeout: time.Minute, UndoGrace: DefaultUndoGrace, Ledger: l}
	for _, f := range change {
		f(&config)
	}
	r, err := New(config)
	require.NoError(s.t, err)
	if r.records != nil { // asked once, and not what tests count
		_, _ = r.records.Identity(context.Background())
		l.ops = nil
	}
	return &replica{r, l}
}

// seldom is for replicas that work for weeks: each time that they look takes as long as others.
func seldom(c *Config) { c.lookEvery = 6 * time.Hour }

// context is that of what happens in the replica.
func (r *replica) context() context.Context {
	return context.WithValue(context.Background(), lineKey{}, r.line)
}

// call begins a saga, and resume, cancel go on with it.
func (r *replica) call(args string, change ...func(*Request)) (End, error) {
	q := Request{Policy: Carried, Principal: "ann", Client: steps.AllFeatures(), Program: r.Registry.Find(engine.KindTool, "trip"), Arguments: json.RawMessage(args)}
	for _, f := range change {
		f(&q)
	}
	return r.Call(r.context(), q)
}

// begin is call where that is not what is tested.
func (r *replica) begin(t *testing.T, args string, change ...func(*Request)) End {
	t.Helper()
	end, err := r.call(args, change...)
	require.NoError(t, err)
	return end
}

func (r *replica) resume(token string, answers ...steps.Answer) (End, error) {
	return r.Resume(r.context(), Request{Policy: Carried, Principal: "ann", Client: steps.AllFeatures(), Token: token, Answers: answers})
}

func (r *replica) cancel(token string, answers ...steps.Answer) (End, error) {
	return r.Cancel(r.context(), Request{Policy: Carried, Principal: "ann", Client: steps.AllFeatures(), Token: token, Answers: answers}, Resent)
}

// work has the replica's worker at work until the test ends or stop is called.
func (r *replica) work(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(r.context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.Work(ctx)
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return stop
}

// say is an answer.
func say(id string, ok bool) steps.Answer {
	return steps.Answer{StepID: id, Result: fmt.Appendf(nil, `{"action":"accept","content":{"ok":%v}}`, ok)}
}

// told is all that a client learns.
func told(t *testing.T, end End) string {
	t.Helper()
	raw, err := encodeResponse(&end, nil)
	require.NoError(t, err)
	return end.Token + string(raw)
}

// line is how a replica reaches the store.
type line struct {
	ledger.Store
	mu  sync.Mutex
	cut bool
	ops []string
	// before and after are called around each operation, by its number from 0; an error is
	// that of the operation.
	before, after func(n int, op string) error
}

type lineKey struct{}

// dead reports whether the replica that something happens in has died.
func dead(ctx context.Context) bool {
	l, _ := ctx.Value(lineKey{}).(*line)
	return l != nil && l.dead()
}

func (l *line) dead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

// on sets what is called before each operation.
func (l *line) on(before func(n int, op string) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before = before
}

// count counts the operations of a name.
func (l *line) count(op string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.ops {
		if o == op {
			n++
		}
	}
	return n
}

// die cuts the line for ever.
func (l *line) die() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
}

func (l *line) around(op string, f func() error) error {
	l.mu.Lock()
	n := len(l.ops)
	l.ops = append(l.ops, op)
	cut, before, after := l.cut, l.before, l.after
	l.mu.Unlock()
	if cut {
		return errDead
	}
	if before != nil {
		if err := before(n, op); err != nil {
			return err
		}
	}
	err := f()
	if after != nil && err == nil {
		err = after(n, op)
	}
	if l.dead() {
		return errDead
	}
	return err
}

func (l *line) Load(ctx context.Context, key string) (r *ledger.Record, err error) {
	err = l.around("load", func() error { r, err = l.Store.Load(ctx, key); return err })
	return r, err
}

func (l *line) Swap(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
	sent := *r
	err := l.around("swap", func() error { return l.Store.Swap(ctx, &sent, items...) })
	if err == nil {
		r.Rev = sent.Rev
	}
	return err
}

func (l *line) Take(ctx context.Context, t ledger.Take) (list []*ledger.Record, err error) {
	err = l.around("take", func() error { list, err = l.Store.Take(ctx, t); return err })
	if err != nil {
		return nil, err
	}
	return list, nil
}

func spent(t *testing.T, err error) {
	t.Helper()
	var rejected *tokens.Rejected
	require.ErrorAs(t, err, &rejected)
	assert.Equal(t, tokens.ReasonSpent, rejected.Reason, "%v", rejected.Detail)
}
