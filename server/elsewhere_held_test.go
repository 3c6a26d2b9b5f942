package server_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// heldRig is a server in a bubble whose tool takes so long for its effect.
func heldRig(t *testing.T, slow time.Duration) (*rig, *seats) {
	s, store := &seats{slow: slow}, ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	r := newRig(t, server.Options{Ledger: store, Tools: []saga.Definition{s.tool()}, TurnTimeout: time.Hour, TokenTTL: time.Hour})
	return r, s
}

// A tool that works for long lets its client go, which comes back for the rest.
func TestLongWorkIsLetGo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, s := heldRig(t, 100*time.Second)
		first := waitsOf(t, r.send(callTool("seat", nil)).Result)
		began := time.Now()
		works := waitsOf(t, r.send(relay("seat", first, object{"row": object{"row": "7"}})).Result)
		assert.Equal(t, "working", works.Status)
		assert.Equal(t, 45*time.Second, time.Since(began).Truncate(time.Second))
		assert.NotContains(t, works.Message, "in the chat")
		for works.Status == "working" {
			works = waitsOf(t, r.send(relay("seat", first, nil)).Result)
		}
		assert.Equal(t, 100*time.Second, time.Since(began).Truncate(time.Second))
		assert.Equal(t, "sure", works.Questions[0].ID)
		_, calls := s.now()
		assert.Equal(t, 1, calls)
	})
}

// Progress holds a client that gets it. Any other gives up after a minute, and would never learn of its handle.
func TestProgressHoldsWhoHearsIt(t *testing.T) {
	for hears, status := range map[bool]string{true: "waiting", false: "working"} {
		inBubble(t, func(t *testing.T) {
			s, store := new(seats), inMemory(t)
			tool := s.tool()
			run := tool.Run
			tool.Run = func(r *saga.Run, in struct{}) (string, error) {
				for i := range 8 {
					time.Sleep(10 * time.Second) //sagavet:ignore in virtual time
					r.Progress(float64(i+1), 8, "")
					r.Log(slog.LevelInfo, "it works")
				}
				return run(r, in)
			}
			r := newRig(t, server.Options{Ledger: store, Tools: []saga.Definition{tool}, TurnTimeout: time.Hour, TokenTTL: time.Hour})
			q := callTool("seat", nil)
			if hears {
				q.meta["progressToken"] = "p"
			}
			began := time.Now()
			first := waitsOf(t, r.send(q).Result)
			assert.Equal(t, status, first.Status)
			assert.InDelta(t, map[bool]float64{true: 80, false: 45}[hears], time.Since(began).Seconds(), 1)
			assert.Equal(t, "row", waitsOf(t, r.send(relay("seat", first, nil)).Result).Questions[0].ID)
		})
	}
}

// What a client without a handle leaves is undone. One with a handle may come back.
func TestClientsThatLeaveWhileTheirToolWorks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, s := heldRig(t, 20*time.Second)
		first := waitsOf(t, r.send(callTool("seat", nil)).Result)
		ctx, leave := context.WithTimeout(t.Context(), 5*time.Second)
		defer leave()
		_, err := r.client().Do(r.httpRequest(ctx, relay("seat", first, object{"row": object{"row": "7"}})))
		require.Error(t, err)
		second := waitsOf(t, r.send(relay("seat", first, nil)).Result)
		assert.Equal(t, "sure", second.Questions[0].ID)
		assert.Contains(t, r.send(relay("seat", second, object{"sure": object{"sure": true}})).raw, "seat in 7")
		held, calls := s.now()
		assert.Equal(t, []int{1, 1}, []int{held, calls})
	})
	inBubble(t, func(t *testing.T) {
		s, store := &seats{slow: 20 * time.Second}, ledger.NewMemory(ledger.MemoryOptions{})
		t.Cleanup(func() { _ = store.Close() })
		r := newRig(t, server.Options{Ledger: store, Tools: []saga.Definition{s.holdsFirst()}, TurnTimeout: time.Hour})
		ctx, leave := context.WithTimeout(t.Context(), 5*time.Second)
		defer leave()
		_, err := r.client().Do(r.httpRequest(ctx, callTool("seat", nil)))
		require.Error(t, err)
		time.Sleep(time.Minute) //sagavet:ignore in virtual time
		synctest.Wait()
		held, calls := s.now()
		assert.Equal(t, []int{0, 1}, []int{held, calls})
	})
}

// holdsFirst is tool, but acts before it asks.
func (s *seats) holdsFirst() saga.Definition {
	tool := s.tool()
	run := tool.Run
	hold := &saga.Effect[string, string]{Name: "hold", Do: s.hold, Undo: s.release}
	tool.Effects = []saga.Declared{hold}
	tool.Run = func(r *saga.Run, in struct{}) (string, error) {
		if _, err := saga.Do(r, hold, "1"); err != nil {
			return "", err
		}
		return run(r, in)
	}
	return tool
}

// A server that stops lets the clients of its tools go with a handle, by which they find the rest at another one.
func TestServersThatStopLetClientsGo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, keys, store := &seats{slow: 20 * time.Second}, newKeys(t), ledger.NewMemory(ledger.MemoryOptions{})
		t.Cleanup(func() { _ = store.Close() })
		o := server.Options{Keys: keys, Ledger: store, Tools: []saga.Definition{s.tool()}, TurnTimeout: time.Hour}
		one, other := newRig(t, o), newRig(t, o)
		first := waitsOf(t, one.send(callTool("seat", nil)).Result)
		time.AfterFunc(5*time.Second, one.srv.CloseStreams)
		works := waitsOf(t, one.send(relay("seat", first, object{"row": object{"row": "7"}})).Result)
		assert.Equal(t, "working", works.Status)
		second := waitsOf(t, other.send(relay("seat", works, nil)).Result)
		assert.Equal(t, "sure", second.Questions[0].ID)
	})
}

// A session's client that cancels the call has it undone.
func TestSessionsCancelWhatTheirToolsDo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, s := heldRig(t, 20*time.Second)
		c := r.connect("2025-11-25", "{}")
		first := waitsOf(t, parseLegacy(t, c.ask(toolCall(1, "seat", "{}"))).Result)
		args, err := json.Marshal(object{"resumeToken": first.ResumeToken, "answers": object{"row": object{"row": "7"}}})
		require.NoError(t, err)
		time.AfterFunc(5*time.Second, func() {
			c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		})
		resp := c.post(toolCall(2, "seat", string(args)))
		_ = readAll(t, resp)
		time.Sleep(time.Minute) //sagavet:ignore in virtual time
		held, _ := s.now()
		assert.Zero(t, held)
		end := saidBy(t, parseLegacy(t, c.ask(toolCall(3, "seat", strings.Replace(string(args), `"answers"`, `"x"`, 1)))).Result)
		assert.True(t, end.IsError)
	})
}
