package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sagaJourneys are journeys that end as they do only by the saga methods.
var sagaJourneys = []journey{
	{
		name: "cancelled", n: 2, cancelIn: 2, text: "Cancelled. If the saga went on from this token, what it did since then is not undone: cancel it with its latest token.\nUndone: hold-money, hold-flight, hold-hotel.", well: true,
		deeds: deeds{"0 of 6 released", "0 of 2 released", "0 of 99000 released"},
	},
	{name: "cancelled before anything was done", n: 2, cancelIn: 1, text: "Cancelled. Up to this token, the saga has done nothing that is to be undone. If the saga went on from this token, what it did since then is not undone: cancel it with its latest token.", well: true},
}

// TestSagaMethods has the official clients book trips, or not, by the methods of the
// saga proposal, which they do not know: in the revision that they speak, on our own
// server and on one of the SDK.
func TestSagaMethods(t *testing.T) {
	onlyIfWanted(t, "starts a server for each of many calls")
	t.Parallel()
	w := newWorld(t)
	all := slices.Concat(journeys, sagaJourneys)
	var trips atomic.Int32
	for nth, c := range contenders() {
		if strings.HasPrefix(c.name, "this module's") {
			continue // TestMountedTrip has it; its other protocols have no such methods
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for kind := range tripHosts {
				for name, at := range w.targets(t, kind) {
					t.Run(kind+" "+name, func(t *testing.T) {
						all := share(at, nth, all, func(journey) bool { return false })
						calls, cities := make([]call, len(all)), make([]string, len(all))
						for i, j := range all {
							cities[i] = fmt.Sprintf("Town%dX", trips.Add(1))
							calls[i] = j.call(cities[i])
							calls[i].Saga = true
						}
						calls = append(calls, call{Tool: "nowhere", Saga: true}, call{Token: "1AAAA", Saga: true})
						outcomes := c.play(t, at, calls)
						require.Len(t, outcomes, len(calls))
						for i, j := range all {
							j.check(t, w, cities[i], &outcomes[i])
							assert.Equal(t, c.protocol, outcomes[i].Protocol)
						}
						assert.Regexp(t, "there is no (tool|saga) of that name", outcomes[len(all)].Error)
						assert.Contains(t, outcomes[len(all)+1].Error, "the saga token is not valid here, or no longer: unless its saga has ended and acted, start again with tools/callSaga")
					})
				}
			}
		})
	}
}

// TestModernClientsCancel has clients of MCP 2026-07-28 give up what they began with
// tools/call: what it holds is released at once.
func TestModernClientsCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var trips atomic.Int32
	for _, c := range contenders() {
		if c.protocol != "2026-07-28" || strings.HasPrefix(c.name, "this module's") {
			// The others' questions are requests, which end with their call. This module's
			// client cancels only what it has begun by the saga proposal.
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for kind := range tripHosts {
				for name, at := range w.targets(t, kind) {
					t.Run(kind+" "+name, func(t *testing.T) {
						for _, j := range sagaJourneys {
							city := fmt.Sprintf("Port%dX", trips.Add(1))
							given := j.call(city)
							given.Manual = true
							outcomes := c.play(t, at, []call{given})
							require.Len(t, outcomes, 1)
							j.check(t, w, city, &outcomes[0])
							assert.Equal(t, j.cancelIn, outcomes[0].Rounds)
						}
					})
				}
			}
		})
	}
}

// sagaParams and sagaResult are those of the saga methods, for the Go SDK.
type sagaParams struct {
	mcp.ParamsBase
	Name           string         `json:"name,omitempty"`
	Arguments      map[string]any `json:"arguments,omitempty"`
	SagaToken      string         `json:"sagaToken,omitempty"`
	CompletedSteps []sagaAnswer   `json:"completedSteps,omitzero"`
}

type sagaAnswer struct {
	StepID string `json:"stepId"`
	Result any    `json:"result"`
}

type sagaResult struct {
	mcp.ResultBase
	State     string `json:"state,omitempty"`
	SagaToken string `json:"sagaToken,omitempty"`
	Steps     []struct {
		Type   string          `json:"type"`
		StepID string          `json:"stepId"`
		Params json.RawMessage `json:"params"`
	} `json:"steps,omitempty"`
	Content json.RawMessage `json:"content,omitempty"`
	IsError bool            `json:"isError,omitempty"`
}

// playSaga does what playSaga in script.mjs does.
func (u *goSDK) playSaga(ctx context.Context, at target, protocol string) error {
	session, err := u.connect(ctx, at, protocol)
	if err != nil {
		return err
	}
	result, err := u.takeTurns(ctx, session)
	if err := errors.Join(err, session.Close()); err != nil {
		return err
	}
	return u.keep(result)
}

func (u *goSDK) takeTurns(ctx context.Context, session *mcp.ClientSession) (*sagaResult, error) {
	send := func(method string, p *sagaParams) (*sagaResult, error) {
		u.Rounds++
		return mcp.CallCustomMethod[*sagaParams, *sagaResult](ctx, session, method, p)
	}
	answers := []sagaAnswer{}
	begin, p := "tools/callSaga", &sagaParams{Name: u.call.Tool, Arguments: u.call.Arguments}
	if u.call.Token != "" {
		begin, p = "tools/resumeSaga", &sagaParams{SagaToken: u.call.Token, CompletedSteps: answers}
	}
	result, err := send(begin, p)
	for err == nil && result.State == "suspended" {
		if u.Rounds == u.call.CancelIn {
			return send("tools/cancelSaga", &sagaParams{SagaToken: result.SagaToken})
		}
		for _, step := range result.Steps {
			if step.Type != "elicitation" {
				return nil, fmt.Errorf("asked for a step of the type %q", step.Type)
			}
			ask := new(mcp.ElicitParams)
			if err := json.Unmarshal(step.Params, ask); err != nil {
				return nil, err
			}
			answer, err := u.elicit(ctx, ask)
			if err != nil {
				return nil, err
			}
			answers = append(answers, sagaAnswer{step.StepID, answer})
		}
		result, err = send("tools/resumeSaga", &sagaParams{SagaToken: result.SagaToken, CompletedSteps: answers})
	}
	return result, err
}

// cancel cancels what a requestState is of.
func (u *goSDK) cancel(ctx context.Context, at target, protocol, state string) error {
	session, err := u.connect(ctx, at, protocol)
	if err != nil {
		return err
	}
	result, err := mcp.CallCustomMethod[*sagaParams, *sagaResult](ctx, session, "tools/cancelSaga", &sagaParams{SagaToken: state})
	if err := errors.Join(err, session.Close()); err != nil {
		return err
	}
	return u.keep(result)
}
