package server_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

func (r *rig) sagaCall(method string, params object) part {
	r.t.Helper()
	raw, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	require.NoError(r.t, err)
	body := r.post(string(raw))
	return partOf(r.t, parseLegacy(r.t, body), body)
}

// Clients of the saga proposal get a part with the saga's token.
func TestPartsOfSagas(t *testing.T) {
	r := newRig(t, server.Options{Tools: []saga.Definition{pages()}, TurnTimeout: time.Second})
	args := object{"pages": 2, "ask": 1, "nap": "1h"}
	send := map[string]func(method string, params object) part{
		"saga": r.sagaCall,
		"saga in 2026-07-28": func(method string, params object) part {
			m := r.send(modernRequest(method, params))
			return partOf(t, parseLegacy(t, m.raw), m.raw)
		},
	}
	for name, send := range send {
		t.Run(name, func(t *testing.T) {
			p := send("tools/callSaga", object{"name": "pages", "arguments": args})
			assert.Equal(t, "suspended", p.State)
			assert.Equal(t, "[]", string(p.Steps))
			assert.Equal(t, "part 1", p.text)
			assert.NotContains(t, p.raw, "esumeToken")
			resume := func(completed ...object) {
				if completed == nil {
					completed = []object{}
				}
				p = send("tools/resumeSaga", object{"sagaToken": p.SagaToken, "completedSteps": completed})
			}
			resume()
			assert.Equal(t, "suspended", p.State)
			assert.Contains(t, string(p.Steps), `"stepId":"go_on"`)
			assert.Empty(t, p.Content)
			resume(object{"stepId": "go_on", "result": object{"action": "accept", "content": object{"yes": true}}})
			assert.Equal(t, "part 2", p.text)
			resume()
			assert.Equal(t, "suspended", p.State)
			assert.Equal(t, "[]", string(p.Steps))
			assert.InDelta(t, time.Hour.Milliseconds(), p.Meta["io.github.mcpsaga/retryAfterMs"], 5000)
			early := p
			resume()
			assert.Equal(t, early.SagaToken, p.SagaToken, "who comes too early is told again")
		})
	}
}

// A sleep that is longer than a request says when to come back.
func TestSleepsInRounds(t *testing.T) {
	clock := &clock{now: time.Now()}
	r := newRig(t, server.Options{Tools: []saga.Definition{pages()}, TurnTimeout: time.Second, Now: clock.Now})
	args := object{"pages": 1, "nap": "90m"}
	p := r.modernPaging()(plainCall(args, nil))
	q := modernRequest("tools/call", plainCall(args, object{"resumeToken": p.NextResumeToken}))
	m := r.send(q)
	got := m.result(t)
	assert.Equal(t, "input_required", got.ResultType)
	assert.Contains(t, m.raw, `"inputRequests":{}`)
	assert.Equal(t, fmt.Sprint((90 * time.Minute).Milliseconds()), string(got.Meta["io.github.mcpsaga/retryAfterMs"]))
	clock.set(clock.Now().Add(90 * time.Minute))
	q.params["requestState"] = got.RequestState
	assert.Equal(t, "the end", r.send(q).result(t).text(), "and its token is good for an hour from then on")
}
