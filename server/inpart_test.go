package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// threeSeats holds a seat, one whose Undo says what final returns, and a third, and asks.
func (s *seats) threeSeats(final func() error) saga.Definition {
	sure := &steps.Form[sureForm]{ID: "sure", Message: "Sure?"}
	hold := &saga.Effect[string, string]{Name: "hold", Do: s.hold, Undo: s.release}
	keep := &saga.Effect[string, string]{Name: "keep", Do: s.hold, Undo: func(context.Context, saga.Performed[string, string]) error { return final() }}
	last := &saga.Effect[string, string]{Name: "last", Do: s.hold, Undo: s.release}
	return saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "seat", Asks: []steps.Question{sure}, Effects: []saga.Declared{hold, keep, last}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			for _, e := range []*saga.Effect[string, string]{hold, keep, last} {
				if _, err := saga.Do(r, e, e.Name); err != nil {
					return "", err
				}
			}
			_, err := saga.Ask(r, sure)
			return "seated", err
		},
	}
}

// cancelled is the result of tools/cancelSaga.
func (r *rig) cancelled(t *testing.T, token string) (text string, isError bool, meta json.RawMessage) {
	t.Helper()
	status, body := r.do(http.MethodPost, "/mcp", seatMessage("cancelSaga", token, nil), nil)
	require.Equal(t, http.StatusOK, status)
	var m struct {
		Result struct {
			Content []struct{ Text string }
			IsError bool
			Meta    json.RawMessage `json:"_meta"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(body), &m), body)
	for _, c := range m.Result.Content {
		text += c.Text + "\n"
	}
	return text, m.Result.IsError, m.Result.Meta
}

// A cancel that meets what is final when it has undone something has ended the saga, and says what was undone,
// what is final and what is left. It says so again, in every dialect, with a ledger and without; with one, the
// saga does not go on.
func TestACancelInPart(t *testing.T) {
	for dialect, say := range talks {
		for name, store := range map[string]ledger.Store{"with a ledger": inMemory(t), "without": nil} {
			t.Run(dialect+"/"+name, func(t *testing.T) {
				s := new(seats)
				tool := s.threeSeats(func() error { return saga.Final(errors.New("it is paid")) })
				r := newRig(t, server.Options{Keys: newKeys(t), Tools: []saga.Definition{tool}, Ledger: store})
				_, body := say(r, "", nil)
				token := tokenOf(t, body)
				for range 2 {
					text, isError, meta := r.cancelled(t, token)
					assert.Equal(t, "Cancelled in part: the saga has ended, but \"keep\" is final.\nUndone up to \"keep\", which is final.\nUndone: last.\nLeft as it was: hold.\n", text)
					assert.True(t, isError)
					assert.JSONEq(t, `{"io.github.mcpsaga/undo":{"undone":["last"],"outstanding":[],"final":"keep","left":["hold"]}}`, string(meta))
				}
				held, _ := s.now()
				assert.Equal(t, 2, held)
				if store != nil {
					_, body = say(r, token, object{"sure": accepting(object{"sure": true})})
					assert.Contains(t, body, "-32602")
				}
			})
		}
	}
}

// What could not be undone at first and is then found to be final does not bring the saga back.
func TestWhatIsFoundToBeFinalLater(t *testing.T) {
	for name, store := range map[string]ledger.Store{"with a ledger": inMemory(t), "without": nil} {
		t.Run(name, func(t *testing.T) {
			s := new(seats)
			var paid atomic.Bool
			tool := s.threeSeats(func() error {
				if paid.Load() {
					return saga.Final(errors.New("it is paid"))
				}
				return errors.New("not now")
			})
			r := newRig(t, server.Options{Keys: newKeys(t), Tools: []saga.Definition{tool}, Ledger: store})
			_, body := inSaga(r, "", nil)
			text, isError, meta := r.cancelled(t, tokenOf(t, body))
			assert.Contains(t, text, "\nUndone: last, hold.\nNot undone: keep.")
			assert.False(t, isError)
			var m map[string]struct{ SagaToken string }
			require.NoError(t, json.Unmarshal(meta, &m))
			paid.Store(true)
			for range 2 {
				text, isError, _ = r.cancelled(t, m["io.github.mcpsaga/undo"].SagaToken)
				assert.Equal(t, "Cancelled in part: the saga has ended, but \"keep\" is final.\n\"keep\" is done and final. Something else may have been undone.\n", text)
				assert.True(t, isError)
			}
		})
	}
}
