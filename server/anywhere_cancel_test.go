package server_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
)

// What a client cancels ends also where only the memory of another replica knows of it: a call that
// has just begun, one of a batch, one that waits for a task of which others may want the result, and
// one whose id was used too often for the ledger to lead to it.
func TestCancelWhatAnotherReplicaHasInMemory(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan struct{}, 9), make(chan error, 9)
	holds := saga.Machine[empty, string]{Info: saga.Info{Name: "holds"}, Start: func(t *saga.Turn[empty, string]) (saga.Next, error) {
		begun <- struct{}{}
		select {
		case <-t.Done():
			ended <- t.Err()
			return nil, t.Err()
		case <-time.After(time.Minute):
			ended <- nil
			return t.Textf("nobody wanted to wait for this")
		}
	}}
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`
	t.Run("at once", func(t *testing.T) {
		a := newAnywhere(t, holds)
		c := a.rigs[0].connect("2025-11-25", everything)
		answer := make(chan string)
		go func() { answer <- readAll(t, c.post(toolCall(7, "holds", `{}`))) }()
		<-begun
		c.at(a.rigs[1]).post(cancel).Body.Close()
		assert.Error(t, <-ended)
		assert.NotContains(t, <-answer, "result")
	})
	t.Run("others", func(t *testing.T) { // the same id in another session, and another id
		a := newAnywhere(t, holds)
		c, other := a.rigs[0].connect("2025-11-25", everything), a.rigs[0].connect("2025-11-25", everything)
		go func() { c.post(toolCall(7, "holds", `{}`)).Body.Close() }()
		<-begun
		other.at(a.rigs[1]).post(cancel).Body.Close()
		c.at(a.rigs[2]).post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"7"}}`).Body.Close()
		select {
		case err := <-ended:
			assert.Fail(t, "it was cancelled by who may not", err)
		case <-time.After(300 * time.Millisecond):
		}
		c.at(a.rigs[1]).post(cancel).Body.Close()
		assert.Error(t, <-ended)
	})
	t.Run("batch", func(t *testing.T) {
		a := newAnywhere(t, holds)
		c := a.rigs[0].connect("2025-03-26", everything)
		answer := make(chan *http.Response, 1)
		go func() { answer <- c.post(`[` + toolCall(7, "holds", `{}`) + `,` + toolCall(8, "holds", `{}`) + `]`) }()
		<-begun
		<-begun
		c.at(a.rigs[1]).post(cancel).Body.Close()
		assert.Error(t, <-ended)
		c.at(a.rigs[1]).post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":8}}`).Body.Close()
		assert.Error(t, <-ended)
		(<-answer).Body.Close()
	})
	t.Run("used often", func(t *testing.T) {
		a := newAnywhere(t, holds, roundsTool(new(world)))
		c := a.rigs[0].connect("2025-11-25", everything)
		for i := range 5 {
			s := c.stream(roundsCall(7, 1, fmt.Sprint(i)))
			c.reply(s.wait("elicitation/create").ID, named("x"))
			s.wait("")
		}
		go func() { c.post(toolCall(7, "holds", `{}`)).Body.Close() }()
		for range 4 { // it is found out one after the other that those are other calls
			<-begun
			assert.Error(t, <-ended)
		}
		<-begun
		time.Sleep(100 * time.Millisecond) // it has a record
		assert.Empty(t, ended)
		c.at(a.rigs[1]).post(cancel).Body.Close()
		assert.Error(t, <-ended)
	})
	t.Run("result", func(t *testing.T) {
		r := tasksReplicas(t, 2)
		c := r[0].user("ann", "2025-11-25")
		task := c.create("twice", "{}")
		s := c.stream(aboutTask(7, "result", task.TaskID))
		q := s.wait("elicitation/create")
		c.at(r[1]).post(cancel).Body.Close()
		assert.Contains(t, string(s.wait("notifications/cancelled").Params), string(q.ID))
		s.end()
		again := c.stream(aboutTask(8, "result", task.TaskID)) // the task goes on
		again.wait("elicitation/create")
		again.close()
	})
}

// A prompt or a resource has no result that says that it was cancelled, nor one that is an error: who asks for it
// again with the same key, or still waits for it at another replica, gets an error.
func TestWhatHasNoWordsForBeingCancelled(t *testing.T) {
	for method, params := range map[string]string{
		"prompts/get":    `{"name":"greeting","arguments":{"name":"Ann"},"_meta":{"io.github.mcpsaga/idempotencyKey":"kkkkkkkkkkkkkkkk"}}`,
		"resources/read": `{"uri":"notes://ask","_meta":{"io.github.mcpsaga/idempotencyKey":"kkkkkkkkkkkkkkkk"}}`,
	} {
		t.Run(method, func(t *testing.T) {
			a := newAnywhere(t, legacyDefinitions()...)
			c := a.rigs[0].connect("2025-11-25", everything)
			s := c.stream(methodCall(3, method, params))
			s.wait("elicitation/create")
			c.at(a.rigs[1]).post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`).Body.Close()
			for {
				e, err := s.next()
				if err != nil {
					break
				}
				assert.Nil(t, e.Result, e.data)
			}
			again := c.ask(methodCall(4, method, params))
			assert.Contains(t, again, `"error"`)
			assert.Contains(t, again, "Cancelled")
		})
	}
}
