package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// purse takes money in two steps, and counts what it has.
type purse struct{ held, taken atomic.Int32 }

func (s *purse) tool() saga.Definition {
	count := func(name string, n *atomic.Int32) *saga.Effect[string, string] {
		return &saga.Effect[string, string]{
			Name: name, Do: func(context.Context, saga.Key, string) (string, error) { n.Add(1); return "", nil },
			Undo: func(context.Context, saga.Performed[string, string]) error { n.Add(-1); return nil },
		}
	}
	hold, take := count("hold", &s.held), count("take", &s.taken)
	return saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "pay", Effects: []saga.Declared{hold, take}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			if _, err := saga.Do(r, hold, "money"); err != nil {
				return "", err
			}
			time.Sleep(200 * time.Millisecond) //sagavet:ignore for Permit to fail meanwhile
			_, err := saga.Do(r, take, "money")
			return "paid", err
		},
	}
}

// Whoever reads an error of a call has not paid, whenever it is that Permit fails: once, or from then on.
func TestErrorsOfPermitLeaveNothing(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"later": server.TryAgain("not now", time.Second), "a fault": errors.New("secret"), "hidden": server.ErrHidden, "a scope": &server.AuthError{Status: 403},
	} {
		for _, stays := range []bool{false, true} {
			t.Run(name+map[bool]string{true: " for good"}[stays], func(t *testing.T) {
				t.Parallel()
				for nth := int32(1); ; nth++ {
					var s purse
					var asked atomic.Int32
					store := ledger.NewMemory(ledger.MemoryOptions{})
					r := newRig(t, server.Options{
						Ledger: store, Authenticate: users, Tools: []saga.Definition{s.tool()},
						Permit: func(context.Context, saga.Caller, string, string) error {
							if n := asked.Add(1); n == nth || stays && n > nth {
								return err
							}
							return nil
						},
					})
					c := r.connect("2025-11-25", `{"elicitation":{}}`, func(c *legacyClient) { c.header = http.Header{"User": {"ann"}} })
					resp := c.request("POST", toolCall(1, "pay", "{}"), nil)
					read := readAll(t, resp)
					time.Sleep(300 * time.Millisecond) // what is under way would take it
					if asked.Load() < nth {
						assert.Contains(t, read, "paid")
						assert.EqualValues(t, 1, s.taken.Load())
						assert.Greater(t, nth, int32(1))
						return
					}
					want := []int32{0, 0}
					if strings.Contains(read, "paid") {
						want = []int32{1, 1}
					}
					if !assert.Equal(t, want, []int32{s.held.Load(), s.taken.Load()}, "at ask %d the client read %s", nth, read) {
						return
					}
					require.NoError(t, store.Close())
				}
			})
		}
	}
}

// An answer, and a stream that is opened again, that are not taken as Permit cannot say, have a status that says so. They
// are taken when it can.
func TestAnswersThatAreNotTakenHaveAStatus(t *testing.T) {
	t.Parallel()
	var p permits
	g := newGuarded(t, func(o *server.Options) { o.Hooks, o.Permit = nil, p.permit })
	c := g.here.connect("2025-11-25", `{"elicitation":{}}`, func(c *legacyClient) { c.header = http.Header{"User": {"ann"}} })
	stream := c.stream(toolCall(1, "twice", "{}"))
	asked := stream.wait("elicitation/create")
	answer := func(id json.RawMessage) int {
		resp := c.post(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":{"action":"accept","content":{"sure":true}}}`)
		_ = readAll(t, resp)
		return resp.StatusCode
	}
	fault := errors.New("secret")
	p.lost.Store(&fault)
	question := parseLegacy(t, asked.data)
	assert.Equal(t, 500, answer(question.ID))
	resp := c.at(g.there).request("GET", "", func(q *http.Request) { q.Header.Set("Last-Event-ID", asked.id) })
	assert.Equal(t, 500, resp.StatusCode, readAll(t, resp))
	p.lost.Store(nil)
	assert.Equal(t, 202, answer(question.ID))
	stream.wait("elicitation/create")
}
