package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store/intercept"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// seats is what the tool seat acts on.
type seats struct {
	mu   sync.Mutex
	held map[saga.Key]string
	// calls counts those of Do; slow is how long one takes.
	calls int
	slow  time.Duration
}

func (s *seats) hold(_ context.Context, k saga.Key, row string) (string, error) {
	time.Sleep(s.slow)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.held == nil {
		s.held = map[saga.Key]string{}
	}
	s.held[k] = row
	return "seat in " + row, nil
}

func (s *seats) release(_ context.Context, p saga.Performed[string, string]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, p.Key)
	return nil
}

// now is how many seats are held, and how often one was asked for.
func (s *seats) now() (held, calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held), s.calls
}

type rowForm struct {
	Row string `json:"row"`
}

// tool asks for a row, holds a seat in it, and asks whether it is to be taken.
func (s *seats) tool() saga.Flow[struct{}, string] {
	return s.toolWith(&saga.Effect[string, string]{Name: "hold", Do: s.hold, Undo: s.release})
}

// toolWith is tool with another way to hold a seat.
func (s *seats) toolWith(hold *saga.Effect[string, string]) saga.Flow[struct{}, string] {
	row := &steps.Form[rowForm]{ID: "row", Message: "Which row?"}
	sure := &steps.Form[sureForm]{ID: "sure", Message: "Sure?"}
	return saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "seat", Asks: []steps.Question{row, sure}, Effects: []saga.Declared{hold}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			where, err := saga.Ask(r, row)
			if err != nil {
				return "", err
			}
			got, err := saga.Do(r, hold, where.Row)
			if err != nil {
				return "", err
			}
			form, err := saga.Ask(r, sure)
			if err != nil {
				return "", err
			}
			if !form.Sure {
				return "", saga.Failf("not sure")
			}
			return got, nil
		},
	}
}

// ledgers are stores that several servers can share: one in memory, and one that takes its time, as databases do.
func ledgers(t *testing.T) map[string]func() ledger.Store {
	quick, store := inMemory(t), inMemory(t)
	return map[string]func() ledger.Store{
		"memory": func() ledger.Store { return quick },
		"slow": func() ledger.Store {
			return &intercept.Store{Store: store, Around: func(_ context.Context, _ intercept.Call, next func() error) error {
				time.Sleep(time.Millisecond)
				return next()
			}}
		},
	}
}

// seatTalk is how a client of a dialect books a seat. Answers are by step; token is empty at
// first. It returns the whole response.
type seatTalk func(r *rig, token string, answers object) (status int, body string)

// inSaga is the saga proposal.
func inSaga(r *rig, token string, answers object) (int, string) {
	if token == "" {
		return r.do(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"seat"}}`, nil)
	}
	return r.do(http.MethodPost, "/mcp", seatMessage("resumeSaga", token, answers), nil)
}

func seatMessage(method, token string, answers object) string {
	completed := []object{}
	for _, id := range []string{"row", "sure"} { // in the order in which they were asked
		if a, ok := answers[id]; ok {
			completed = append(completed, object{"stepId": id, "result": a})
		}
	}
	raw, err := json.Marshal(object{"jsonrpc": "2.0", "id": 2, "method": "tools/" + method, "params": object{"sagaToken": token, "completedSteps": completed}})
	if err != nil {
		panic(err) // tests only put in what encodes
	}
	return string(raw)
}

// inModernSaga is the saga proposal within MCP 2026-07-28.
func inModernSaga(r *rig, token string, answers object) (int, string) {
	q := modernRequest("tools/callSaga", object{"name": "seat"})
	if token != "" {
		var m struct{ Params object }
		if err := json.Unmarshal([]byte(seatMessage("resumeSaga", token, answers)), &m); err != nil {
			panic(err)
		}
		q = modernRequest("tools/resumeSaga", m.Params)
	}
	got := r.send(q)
	return got.status, got.raw
}

// inRounds is MCP 2026-07-28: only the last answers are sent.
func inRounds(r *rig, token string, answers object) (int, string) {
	q := callTool("seat", nil).with(allCapabilities)
	if last, ok := answers["sure"]; ok {
		answers = object{"sure": last}
	}
	got := r.send(q.answering(token, answers))
	return got.status, got.raw
}

var talks = map[string]seatTalk{"saga": inSaga, "saga in MCP 2026-07-28": inModernSaga, "MCP 2026-07-28": inRounds}

// tokenOf is the token in a response.
func tokenOf(t *testing.T, body string) string {
	t.Helper()
	var m struct {
		Result struct{ SagaToken, RequestState string }
	}
	require.NoError(t, json.Unmarshal([]byte(body), &m), body)
	token := m.Result.SagaToken + m.Result.RequestState
	require.NotEmpty(t, token, body)
	return token
}

func accepting(content object) object { return object{"action": "accept", "content": content} }

var (
	rowSeven   = object{"row": accepting(object{"row": "7"})}
	rowEight   = object{"row": accepting(object{"row": "8"})}
	sevenSure  = object{"row": accepting(object{"row": "7"}), "sure": accepting(object{"sure": true})}
	sevenDoubt = object{"row": accepting(object{"row": "7"}), "sure": accepting(object{"sure": false})}
)
