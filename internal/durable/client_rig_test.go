package durable_test

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
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/store/storetest"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// leaseTime is the lease of servers, unless tests say otherwise.
const leaseTime = 10 * time.Second

// fleet is servers that share a store and their keys.
type fleet struct {
	t     *testing.T
	store store.Store
	keys  *codec.Keyset
	tools []saga.Definition
	logMu sync.Mutex
	log   bytes.Buffer
}

func newFleet(t *testing.T, tools ...saga.Definition) *fleet {
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	memory := store.NewMemory(nil)
	t.Cleanup(func() { _ = memory.Close() })
	return &fleet{t: t, store: memory, keys: keys, tools: tools}
}

// tripFleet is servers of the trip, and what it acts on.
func tripFleet(t *testing.T) (*outside, *fleet) {
	w := newOutside()
	return w, newFleet(t, w.trip(nil))
}

// Write makes it an [io.Writer] for the log.
func (s *fleet) Write(b []byte) (int, error) {
	s.logMu.Lock()
	defer s.logMu.Unlock()
	return s.log.Write(b)
}

// logged returns what was logged.
func (s *fleet) logged() string {
	s.logMu.Lock()
	defer s.logMu.Unlock()
	return s.log.String()
}

// waiting returns what waits for a worker, or for operators, as those see it.
func (r *replica) waiting(t *testing.T) (list []durable.Waiting) {
	t.Helper()
	for w, err := range r.core.Waiting(t.Context()) {
		require.NoError(t, err)
		list = append(list, w)
	}
	return list
}

// onlyWaiting is the only one of them.
func (r *replica) onlyWaiting(t *testing.T) durable.Waiting {
	t.Helper()
	list := r.waiting(t)
	require.Len(t, list, 1)
	return list[0]
}

// all returns all records.
func (s *fleet) all() []*store.Record {
	s.t.Helper()
	all := []store.Status{store.Working, store.Waiting, store.Sleeping, store.Undoing, store.Outstanding, store.Ended}
	list, err := s.store.List(context.Background(), store.Filter{Audience: "here", Statuses: all}, store.Cursor{}, 1000)
	require.NoError(s.t, err)
	return list
}

// forget removes from the store what need not be kept.
func (s *fleet) forget() {
	s.t.Helper()
	_, err := s.store.Forget(context.Background(), 1000)
	require.NoError(s.t, err)
}

// clientConfig configures a replica. forgets: it remembers nothing.
type clientConfig struct {
	turns.Config
	MaxSagas int
	Lease    time.Duration
	Store    store.Store
	forgets  bool
}

// replica is one of several servers.
type replica struct {
	*turns.Runner
	core *durable.Core // nil if it remembers nothing
	line *line
}

func (s *fleet) replica(change ...func(*clientConfig)) *replica {
	s.t.Helper()
	c, err := tokens.New(s.keys, tokens.Options{Audience: "here"})
	require.NoError(s.t, err)
	tools, err := engine.NewRegistry(s.tools...)
	require.NoError(s.t, err)
	l := new(line)
	config := clientConfig{Store: s.store}
	config.Config = turns.Config{Registry: tools, Codec: c, Log: slog.New(slog.NewTextHandler(s, nil)), Now: time.Now, Timeout: time.Minute, UndoGrace: turns.DefaultUndoGrace}
	for _, f := range change {
		f(&config)
	}
	l.Store, l.Around = config.Store, l.around
	runner := turns.New(config.Config)
	if config.forgets {
		require.NoError(s.t, err)
		return &replica{runner, nil, l}
	}
	if !errors.As(err, new(*saga.DefinitionError)) { // it cannot know yet that it will remember
		require.NoError(s.t, err)
	}
	core, err := durable.New(durable.Config{Turns: runner, Store: l, MaxSagas: config.MaxSagas, Lease: config.Lease})
	require.NoError(s.t, err)
	return &replica{runner, core, l}
}

// context is that of what happens in the replica.
func (r *replica) context() context.Context {
	return context.WithValue(context.Background(), lineKey{}, r.line)
}

// call begins a saga, and resume, cancel go on with it.
func (r *replica) call(args string, change ...func(*turns.Request)) (turns.End, error) {
	q := turns.Request{Policy: turns.Carried, Principal: "ann", Client: steps.AllFeatures(), Program: r.Registry.Find(engine.KindTool, "trip"), Arguments: json.RawMessage(args)}
	for _, f := range change {
		f(&q)
	}
	return r.Call(r.context(), q)
}

// begin is call where that is not what is tested.
func (r *replica) begin(t *testing.T, args string, change ...func(*turns.Request)) turns.End {
	t.Helper()
	end, err := r.call(args, change...)
	require.NoError(t, err)
	return end
}

func (r *replica) resume(token string, answers ...steps.Answer) (turns.End, error) {
	return r.Resume(r.context(), turns.Request{Policy: turns.Carried, Principal: "ann", Client: steps.AllFeatures(), Token: token, Answers: answers})
}

func (r *replica) cancel(token string, answers ...steps.Answer) (turns.End, error) {
	return r.Cancel(r.context(), turns.Request{Policy: turns.Carried, Principal: "ann", Client: steps.AllFeatures(), Token: token, Answers: answers}, turns.Resent)
}

// work has the replica's worker at work until the test ends or stop is called.
func (r *replica) work(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(r.context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.core.Work(ctx)
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
func told(t *testing.T, end turns.End) string {
	t.Helper()
	raw, err := turns.EncodeResponse(&end, nil)
	require.NoError(t, err)
	return end.Token + string(raw)
}

func spent(t *testing.T, err error) {
	t.Helper()
	var rejected *tokens.Rejected
	require.ErrorAs(t, err, &rejected)
	assert.Equal(t, tokens.ReasonSpent, rejected.Reason, "%v", rejected.Detail)
}

// asked is a client for [turns.Runner.Drive].
type asked func(ctx context.Context, list []steps.Step) ([]steps.Answer, error)

func (f asked) Ask(ctx context.Context, list []steps.Step) ([]steps.Answer, error) {
	return f(ctx, list)
}

// line is how a replica reaches the store.
type line struct {
	storetest.Intercept
	mu  sync.Mutex
	cut bool
	ops []string
	// before and after are called around each operation, by its number from 0; an error is
	// that of the operation.
	before, after func(n int, op string) error
}

type lineKey struct{}

var (
	errDead    = errors.New("this process is dead")
	errRefused = errors.New("connection refused")
)

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

func (l *line) around(_ context.Context, c storetest.Call, next func() error) error {
	if c.Method == "Listen" {
		return next()
	}
	l.mu.Lock()
	n := len(l.ops)
	l.ops = append(l.ops, c.Method)
	cut, before, after := l.cut, l.before, l.after
	l.mu.Unlock()
	if cut {
		return errDead
	}
	if before != nil {
		if err := before(n, c.Method); err != nil {
			return err
		}
	}
	err := next()
	if after != nil && err == nil {
		err = after(n, c.Method)
	}
	if l.dead() {
		return errDead
	}
	return err
}
