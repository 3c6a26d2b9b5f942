package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// hurried is a tool whose second effect takes some seconds and says in some way that it was cut off; the undo of the first
// takes as long. One that asks does so between them. If it is plain, its own code takes the time instead of the second effect.
func hurried(w *world, name string, asks, plain bool, cut func(context.Context) error) saga.Definition {
	long := func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return cut(ctx)
		case <-time.After(10 * time.Second):
			return nil
		}
	}
	hold := &saga.Effect[empty, empty]{
		Name: "hold",
		Do:   func(context.Context, saga.Key, empty) (empty, error) { w.note("+hold"); return empty{}, nil },
		Undo: func(ctx context.Context, _ saga.Performed[empty, empty]) error {
			if err := long(ctx); err != nil {
				return err
			}
			w.note("-hold")
			return nil
		},
	}
	book := &saga.Effect[empty, empty]{
		Name: "book",
		Do: func(ctx context.Context, _ saga.Key, _ empty) (empty, error) {
			w.note("+book")
			return empty{}, long(ctx)
		},
		Undo: func(context.Context, saga.Performed[empty, empty]) error { w.note("-book"); return nil },
	}
	return saga.Flow[empty, string]{
		Info: saga.Info{Name: name, Asks: []steps.Question{askSure}, Effects: []saga.Declared{hold, book}, Tasks: saga.Tasks{Mode: saga.TasksOptional}},
		Run: func(r *saga.Run, _ empty) (string, error) {
			if _, err := saga.Do(r, hold, empty{}); err != nil {
				return "", err
			}
			if asks {
				if _, err := saga.Ask(r, askSure); err != nil {
					return "", err
				}
			}
			if plain {
				w.note("+book")
				return "booked", long(r)
			}
			_, err := saga.Do(r, book, empty{})
			return "booked", err
		},
	}
}

// A client can cut off at any time what it has begun, and can send everything twice, at all replicas at once: with a ledger,
// all of that is no alarm either.
func TestCallersRaiseNoAlarmsWithALedger(t *testing.T) {
	const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`
	var w *world
	drop := func(resp *http.Response) { _ = resp.Body.Close() }
	session := func(r []*rig) *legacyClient { return r[0].user("ann", "2025-11-25") }
	begin := func(c *legacyClient) { // in another goroutine, as it may not have answered yet when it is cancelled
		go func() { drop(c.post(toolCall(7, "work", `{}`))) }()
		time.Sleep(time.Second)
	}
	// both sends something to both replicas at once.
	both := func(r []*rig, send func(r *rig)) {
		var all sync.WaitGroup
		for _, one := range r {
			all.Go(func() { send(one) })
		}
		all.Wait()
	}
	gone := func(r *rig, q *request) { // the client goes a second after its request
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
		defer cancel()
		if resp, err := r.client().Do(r.httpRequest(ctx, q)); err == nil {
			drop(resp)
		}
	}
	asked := func(r []*rig, method string) string {
		q := modernRequest(method, object{"name": "ask"}).with(allCapabilities)
		q.header.Set("User", "ann")
		return tokenOf(r[0].t.(*testing.T), r[0].send(q).raw)
	}
	resumed := func(token string) *request {
		q := modernRequest("tools/resumeSaga", object{"sagaToken": token, "completedSteps": []object{{"stepId": "sure", "result": accepting(object{"sure": true})}}})
		q.header.Set("User", "ann")
		return q
	}
	for name, test := range map[string]struct {
		provoke func(r []*rig)
		last    string // what is done last; empty if it does not matter
	}{
		"a call is cancelled":                    {func(r []*rig) { c := session(r); begin(c); drop(c.post(cancel)) }, "-hold"},
		"a call is cancelled at another replica": {func(r []*rig) { c := session(r); begin(c); drop(c.at(r[1]).post(cancel)) }, "-hold"},
		"a call is cancelled while it is undone": {func(r []*rig) {
			c := session(r)
			begin(c)
			for i := range 3 {
				drop(c.at(r[i%2]).post(cancel))
				time.Sleep(time.Second)
			}
		}, "-hold"},
		"a session ends": {func(r []*rig) { c := session(r); begin(c); drop(c.request(http.MethodDelete, "", nil)) }, "-hold"},
		"a session ends at another replica, while its call is undone": {func(r []*rig) {
			c := session(r)
			begin(c)
			drop(c.post(cancel))
			time.Sleep(time.Second)
			drop(c.at(r[1]).request(http.MethodDelete, "", nil))
		}, "-hold"},
		"a task of a session is cancelled": {func(r []*rig) {
			c := session(r)
			task := c.create("work", `{}`)
			time.Sleep(time.Second)
			both(r, func(r *rig) { c.at(r).ask(aboutTask(1, "cancel", task.TaskID)) })
			c.ask(aboutTask(1, "cancel", task.TaskID))
		}, "-hold"},
		"a task's time is over": {func(r []*rig) {
			drop(session(r).request(http.MethodPost, taskCall(1, "work", `{}`, `{"ttl":1000}`), func(r *http.Request) { r.Header.Set("Accept", "application/json") }))
		}, "-hold"},
		"a task is cancelled": {func(r []*rig) {
			task := r[0].begin(callTool("work", nil))
			time.Sleep(time.Second)
			both(r, func(r *rig) { r.ack(taskRequest("cancel", task.TaskID)) })
			r[1].ack(taskRequest("cancel", task.TaskID))
		}, "-hold"},
		"a client goes":        {func(r []*rig) { gone(r[0], callTool("work", nil)) }, "-hold"},
		"a saga's client goes": {func(r []*rig) { gone(r[0], modernRequest("tools/callSaga", object{"name": "work"})) }, "-hold"},
		"a saga is cancelled in a turn, and its client goes": {func(r []*rig) {
			token := asked(r, "tools/callSaga")
			gone(r[0], resumed(token))
			q := modernRequest("tools/cancelSaga", object{"sagaToken": token})
			q.header.Set("User", "ann")
			both(r, func(r *rig) { r.send(q) })
		}, ""},
		"clients go while they wait for others": {func(r []*rig) {
			token := asked(r, "tools/callSaga")
			keyed := callTool("work", nil)
			keyed.meta["io.github.mcpsaga/idempotencyKey"] = "a-key-that-cannot-be-guessed"
			both(r, func(r *rig) { gone(r, resumed(token)) })
			both(r, func(r *rig) { gone(r, keyed) })
			q := modernRequest("tools/cancelSaga", object{"sagaToken": token})
			q.header.Set("User", "ann")
			both(r, func(r *rig) { gone(r, q) })
		}, ""},
		"clients go while they wait for tasks": {func(r []*rig) {
			c := session(r)
			task := c.create("work", `{}`)
			shown := r[0].begin(callTool("work", nil))
			leave := func(c *legacyClient, message string) {
				ctx, cancel := context.WithTimeout(r[0].t.Context(), time.Second)
				defer cancel()
				q, _ := http.NewRequestWithContext(ctx, http.MethodPost, c.url, strings.NewReader(message))
				q.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": {c.session}, "Mcp-Protocol-Version": {c.version}, "User": {"ann"}}
				if resp, err := c.http.Do(q); err == nil {
					time.Sleep(time.Second)
					drop(resp)
				}
			}
			both(r, func(r *rig) { leave(c.at(r), aboutTask(3, "result", task.TaskID)) })
			both(r, func(one *rig) {
				gone(one, modernRequest("subscriptions/listen", object{"notifications": object{"taskIds": []string{shown.TaskID}}}).with(withTasks))
			})
			go func() { drop(c.post(aboutTask(7, "result", task.TaskID))) }()
			time.Sleep(time.Second)
			both(r, func(r *rig) { drop(c.at(r).post(cancel)) })
			both(r, func(r *rig) { leave(c.at(r), aboutTask(4, "cancel", task.TaskID)) })
			both(r, func(r *rig) { gone(r, taskRequest("cancel", shown.TaskID)) })
			go func() { drop(c.post(aboutTask(7, "cancel", task.TaskID))) }()
			time.Sleep(time.Second)
			drop(c.request(http.MethodDelete, "", nil))
		}, "-hold"},
		"calls are left, read again, and left": {func(r []*rig) {
			c := session(r)
			s := c.stream(toolCall(7, "ask", `{}`))
			id := s.wait("elicitation/create").id
			s.close()
			for i := range 4 {
				s := c.at(r[i%2]).get(id)
				time.Sleep(time.Second)
				s.close()
			}
			drop(c.at(r[1]).post(cancel))
		}, "-hold"},
		"an answer comes twice": {func(r []*rig) {
			c := session(r)
			s := c.stream(toolCall(7, "ask", `{}`))
			id := string(s.wait("elicitation/create").ID)
			answer := `{"jsonrpc":"2.0","id":` + id + `,"result":{"action":"accept","content":{"sure":true}}}`
			both(r, func(r *rig) { drop(c.at(r).post(answer)); drop(c.at(r).post(answer)) })
			s.wait("")
		}, "+book"},
		"an answer to a task comes twice": {func(r []*rig) {
			task := r[0].begin(callTool("ask", nil))
			r[0].until(task.TaskID, "input_required")
			both(r, func(r *rig) {
				for range 2 {
					r.ack(taskRequest("update", task.TaskID, object{"inputResponses": object{"sure": formed(object{"sure": true})}}))
				}
			})
		}, "+book"},
		"a saga is resumed twice": {func(r []*rig) {
			token := asked(r, "tools/callSaga")
			both(r, func(r *rig) { r.send(resumed(token)) })
		}, "+book"},
		"a round is sent twice": {func(r []*rig) {
			token := asked(r, "tools/call")
			both(r, func(r *rig) {
				q := callTool("ask", nil).with(allCapabilities).answering(token, object{"sure": accepting(object{"sure": true})})
				q.header.Set("User", "ann")
				r.send(q)
			})
		}, "+book"},
		"a saga is called twice": {func(r []*rig) {
			both(r, func(r *rig) {
				r.do(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"work","_meta":{"io.github.mcpsaga/idempotencyKey":"key"}}}`, nil)
			})
		}, "+book"},
		"a call is made twice": {func(r []*rig) {
			c := session(r)
			both(r, func(r *rig) { drop(c.at(r).post(toolCall(7, "work", `{}`))) })
		}, "+book"},
		"a call with a key is made twice": {func(r []*rig) {
			c := session(r)
			id := 7
			both(r, func(one *rig) {
				n := id
				if one == r[1] {
					n++
				}
				drop(c.at(one).post(keyedCall(n, "work", "a-key-that-cannot-be-guessed")))
			})
		}, "+book"},
		"a task with a key is begun twice": {func(r []*rig) {
			both(r, func(r *rig) {
				q := callTool("work", nil)
				q.meta["io.github.mcpsaga/idempotencyKey"] = "a-key-that-cannot-be-guessed"
				r.begin(q)
			})
		}, "+book"},
		"a key is used for two calls": {func(r []*rig) {
			c := session(r)
			both(r, func(one *rig) {
				tool := "work"
				if one == r[1] {
					tool = "work2"
				}
				drop(c.at(one).post(keyedCall(7, tool, "a-key-that-cannot-be-guessed")))
			})
		}, "+book"},
	} {
		for how, cut := range map[string]func(context.Context) error{
			"it heeds that":    context.Context.Err,
			"it says why":      context.Cause,
			"it has its words": func(context.Context) error { return errors.New("the connection was lost") },
		} {
			t.Run(fmt.Sprint(name, ", ", how), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					for _, plain := range []bool{false, true} {
						w = new(world)
						tools := []saga.Definition{hurried(w, "work", false, plain, cut), hurried(w, "work2", false, plain, cut), hurried(w, "ask", true, plain, cut)}
						r := replicas(t, 2, server.Options{Ledger: inMemory(t), Tools: tools, Authenticate: users})
						test.provoke(r)
						time.Sleep(30 * time.Minute)
						done := w.was()
						require.Contains(t, done, "+hold")
						assert.True(t, strings.HasSuffix(done, test.last), done)
						for _, r := range r {
							log := r.log.take()
							assert.NotContains(t, log, `"WARN"`)
							assert.NotContains(t, log, `"ERROR"`)
						}
					}
				})
			})
		}
	}
}
