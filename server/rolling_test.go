package server_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// asksOnce is a tool with a state of one's own.
func asksOnce[S any](revision uint32, begin S, upgrades map[uint32]saga.Upgrade[S]) saga.Definition {
	type turn = saga.Turn[struct{}, S]
	ask := &steps.Form[struct {
		Sure bool `json:"sure"`
	}]{ID: "sure", Message: "Sure?"}
	return saga.Machine[struct{}, S]{
		Info: saga.Info{Name: "once", Revision: revision, Asks: []steps.Question{ask}}, Upgrades: upgrades, Start: func(t *turn) (saga.Next, error) {
			t.State = begin
			return t.Ask("end", ask)
		},
		Steps: saga.Steps[struct{}, S]{"end": func(t *turn) (saga.Next, error) { return t.Textf("done") }},
	}
}

// A new field of the state is one that was removed to a replica that has the old code
// still, unless the revision says that the state is a newer one.
func TestNewFieldMeetsAnOldReplica(t *testing.T) {
	type old struct {
		City string `json:"city"`
	}
	type more struct {
		City  string `json:"city"`
		Stars int    `json:"stars"`
	}
	const (
		call   = `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"once"}}`
		answer = `{"action":"accept","content":{"sure":true}}`
	)
	keys := newKeys(t)
	with := func(d saga.Definition) *rig {
		return newRig(t, server.Options{Keys: keys, Tools: []saga.Definition{d}})
	}
	resume := func(token string) string {
		return `{"jsonrpc":"2.0","id":2,"method":"tools/resumeSaga","params":{"sagaToken":"` + token + `","completedSteps":[{"stepId":"sure","result":` + answer + `}]}}`
	}
	before := with(asksOnce(0, old{"Rome"}, nil))

	same := with(asksOnce(0, more{"Rome", 4}, nil))
	assert.Contains(t, same.post(resume(parse(t, before.post(call)).Result.SagaToken)), "done")
	token := parse(t, same.post(call)).Result.SagaToken
	assert.Equal(t, -32602, parse(t, before.post(resume(token))).Error.Code)
	assert.Contains(t, before.log.take(), `unknown field \"stars\"`)

	raised := with(asksOnce(1, more{"Rome", 4}, map[uint32]saga.Upgrade[more]{
		0: saga.From(func(o old) (more, error) { return more{City: o.City}, nil }),
	}))
	assert.Contains(t, raised.post(resume(parse(t, before.post(call)).Result.SagaToken)), "done")
	token = parse(t, raised.post(call)).Result.SagaToken
	status, body := before.do(http.MethodPost, "/mcp", resume(token), nil)
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Contains(t, body, "-31503")
	assert.Contains(t, raised.post(resume(token)), "done", "nothing is lost")
}
