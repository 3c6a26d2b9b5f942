package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store/intercept"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// What a client repeats costs no writes, and leaves no more than once: answers, reading on, and ids
// that are used again.
func TestRepetitionsCostNoWrites(t *testing.T) {
	a := newAnywhere(t, roundsTool(new(world)))
	c := a.rigs[0].connect("2025-11-25", everything)
	s := c.stream(roundsCall(1, 2, "I"))
	first := s.wait("elicitation/create")
	c.reply(first.ID, named("x"))
	second := s.wait("elicitation/create")
	count := func(do func()) int64 {
		before := a.store.writes.Load()
		do()
		return a.store.writes.Load() - before
	}
	assert.Zero(t, count(func() {
		for range 200 {
			a.next(c).reply(first.ID, named("x"))
			a.next(c).vain(first.ID, named("y"))
		}
	}), "answers that are known")
	assert.Zero(t, count(func() {
		for i := range 100 {
			a.next(c).vain([]byte(fmt.Sprint(1<<52+uint64(i)<<12+7)), named(strings.Repeat("x", 10_000)))
		}
	}), "answers to nothing")
	assert.LessOrEqual(t, count(func() {
		for range 50 {
			assert.Contains(t, a.next(c).ask(roundsCall(1, 3, "other")), "in use")
		}
	}), int64(50), "an id in use: one try that fails")
	reads := count(func() {
		for range 50 {
			s, _ := a.next(c).readOn(second.id)
			s.close()
		}
	})
	assert.LessOrEqual(t, reads, int64(50*2), "who reads on says so")
	last, q := c.at(a.rigs[1]).readOn(second.id)
	c.reply(q.ID, named("y"))
	last.wait("")
	each := int64(0)
	for i := range 30 { // with another id, as who read on above may not have noticed yet that it was left
		each = count(func() {
			s := a.next(c).stream(roundsCall(2, 1, fmt.Sprint(i)))
			a.next(c).reply(s.wait("elicitation/create").ID, named("x"))
			s.wait("")
		})
	}
	t.Log("writes of a call with one question whose id was used 30 times:", each, "of one that reads on:", float64(reads)/50)
	assert.LessOrEqual(t, each, int64(20))
}

// A call that asks once reads the session with each request, and its own row when its stream begins, when
// the answer comes and when it has ended.
func TestReadsOfACall(t *testing.T) {
	var loads atomic.Int32
	counted := &intercept.Store{Store: inMemory(t), Around: func(_ context.Context, c intercept.Call, next func() error) error {
		if c.Method == "Load" {
			loads.Add(1)
		}
		return next()
	}}
	r := newRig(t, server.Options{Keys: newKeys(t), Tools: []saga.Definition{roundsTool(new(world))}, Ledger: counted})
	c := r.connect("2025-11-25", everything)
	s := c.stream(roundsCall(1, 1, "I"))
	question := s.wait("elicitation/create")
	time.Sleep(100 * time.Millisecond) // it has come to rest
	before := loads.Load()
	c.reply(question.ID, named("x"))
	s.wait("")
	assert.LessOrEqual(t, loads.Load()-before, int32(4), "the stream may see the answer before the end")
}

// readOn comes back to a call after an event, until it is asked. A stream that another request
// has just made an end of may be found there yet.
func (c *legacyClient) readOn(after string) (*sseReader, sseEvent) {
	c.t.Helper()
	for range 100 {
		s := c.get(after)
		for {
			e, err := s.next()
			if err != nil {
				break
			}
			if e.Method == "elicitation/create" {
				return s, e
			}
		}
		s.close()
	}
	require.Fail(c.t, "nothing is asked")
	return nil, sseEvent{}
}
