package durable

import (
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/steps"
)

var update = flag.Bool("update", false, "freeze examples that are missing; frozen ones are never overwritten")

// frozenFile has what was sealed of the examples once. The keys beside the frozen tokens seal it.
const frozenFile, frozenKeys = "testdata/frozen.json", "../tokens/testdata/frozen/keyset/keyset.json"

// examples are what ledgers hold, each under the place that it is sealed for, or as the kind of an item. All
// fields are set in at least one of them. Where a field was added, add an example and freeze it by -update;
// leave those that there are.
func examples(t *testing.T) map[string]any {
	at := time.Date(2026, 11, 24, 18, 48, 23, 123456000, time.UTC)
	step := steps.Step{ID: "step", Kind: steps.Elicitation, Params: json.RawMessage(`{"message":"Sure?"}`), Needs: steps.Features{Forms: true, Links: true, Sampling: true, SamplingTools: true, SamplingContext: true, Roots: true}}
	answers := []steps.Answer{{StepID: "step", Result: json.RawMessage(`{"action":"accept"}`)}, {StepID: "other", Error: &steps.ClientError{Code: -32603, Message: "no", Data: json.RawMessage(`1`)}}}
	given := []tasks.Given{{Number: 3, Sum: [8]byte{1, 2, 3}}}
	raw := func(s string) []byte { return []byte(s) }
	short := summary{
		Saga: tokens.ID{1, 2}, Name: "name", Note: raw("note"), Cancelled: true, Effects: []string{"hold"},
		Times:   times{Due: at, Wanted: at.Add(1e9), Asleep: at.Add(2e9), Keep: at.Add(3e9), Retain: 4e9, TTL: 5e9, Poll: 6e9},
		Running: running{Held: true, Doubt: true, Tries: 1, Failures: 2, LastError: "error", Failing: at.Add(7e9)},
		Shown:   shown{Message: "message", Changes: 1, Updated: at, Told: 2, Bytes: 3, Half: 4, Halved: 5, Newest: 6, Ending: failed, Bad: true},
	}
	response, err := turns.EncodeResponse(&turns.End{
		Outcome: engine.Outcome{Steps: []steps.Step{step}, Yielded: content.Blocks{content.Text{Text: "part"}}, Reworded: []string{"step"}, Result: content.Resultf("text"),
			Contents: []content.ResourceContents{{URI: "file:///x", MIMEType: "text/plain", Text: "text", Blob: raw("blob")}}, Disclosed: true},
		Wake: at, Expires: at.Add(1e9), Gone: tokens.ReasonSpent,
	}, &engine.ToolError{Text: "failed", Disclosed: true})
	require.NoError(t, err)
	return map[string]any{
		placeSummary: short,
		placeState: state{
			summary: short, Principal: "principal", Digest: raw("digest"), Called: raw("called"),
			Begun: request{Method: "tools/call", Dialect: "dialect", Client: 5, Arguments: raw(`{"a":1}`), Trace: turns.Trace{1, 2, 3}},
			Stand: stand{Position: raw("position"), Questions: []steps.Step{step}, Answers: answers, Asked: 4, Given: given},
			Final: true, Undoing: &undoing{Why: whyOver, Text: "text", Response: raw("response"), Position: raw("undoing"), Behind: true},
			Again: raw("again"), UndoNow: true, Progress: &progress{Done: 1, Total: 2, Message: "message"}, End: raw("end"),
			Client: &clientState{
				How: howCancelled, From: 1, At: 2, Digest: raw("turn"), Response: raw("response"), Token: "token", Purpose: "purpose", Report: raw("report"), Page: 3, Expires: at, Undoable: true,
				Turn: &begunTurn{From: 4, Digest: raw("begun"), Purpose: "purpose", Now: at, Once: true},
			},
		},
		"begun": body{}, "turn": body{Text: "text"}, "rest": body{Text: "text"}, "undoing": body{Effects: []string{"hold"}, Text: "text"}, "effect": body{Effects: []string{"hold"}},
		"question": body{Question: &step}, "partial": body{Partial: raw("part")}, "progress": body{Progress: &progress{Done: 1, Total: 2, Message: "message"}},
		"log": body{Log: &logged{Level: 4, Logger: "logger", Data: raw("1")}}, "end": body{Ending: failed, Text: "text", Effects: []string{"hold"}}, "undone": body{Effects: []string{"hold"}},
		"answer": body{Answers: answers, Given: given}, "cancel": body{Text: "text"}, "renew": body{Until: at, Note: raw("note")}, "keep": body{Until: at}, "undo": body{Text: "text"},
		"a position":            position{Turn: 1, Tool: "tool", Revision: 2, Deadline: at, Body: raw("body"), State: raw("state"), Effects: raw("effects"), Secrets: raw("secrets")},
		"a turn that broke off": begunTurn{From: 4, Digest: raw("begun"), Purpose: "purpose", Now: at, Did: raw("did")},
		"a saga that runs":      running{Finals: 2},
		"a failure":             recordedFailure{Text: "text", Saga: "saga", Lacks: &lacks{Tool: "tool", StepID: "step", Needs: 7}, Late: true, Ended: raw("ended"), Refused: answers[1].Error},
		"an end that is bad":    body{Ending: completed, Bad: true, Text: "text"},
		"a notice":              Notice{By: "by", Kind: "kind", Of: "of"},
		"shared":                body{Notice: &Notice{By: "by", Kind: "kind", Of: "of"}},
		"asked elsewhere":       body{Question: &steps.Step{ID: "step", Kind: steps.Elicitation, Params: step.Params, Routes: steps.RoutePage, Consent: true}},
		"answered elsewhere":    body{Answers: []steps.Answer{{StepID: "step", Result: answers[0].Result, By: "page"}}},
		"waits for an event":    stand{Events: []tasks.Awaited{{ID: "paid~2", Event: store.ID{1, 2}, Until: at, Message: "message", Question: "paid"}}},
		"has handles":           request{Secret: raw("secret")},
		"waits outside":         shown{Outside: true},
		"an event":              delivery{Result: raw("result"), Over: true, Until: at, Rows: []store.ID{{3, 4}}, ByClient: true, Principal: "principal", Tool: "tool", Revision: 2, Question: "paid"},
		"waits for others":      stand{Events: []tasks.Awaited{{ID: "approve", Event: store.ID{1, 2}, Until: at, Message: "message", Question: "approve", Asked: step.Params, Place: &engine.Place{5, 6}}}},
		"who began it":          state{summary: short, Principal: "\x00\x03ann\x00", Granted: &granted{Scopes: []string{"tools"}, Claims: map[string]string{"team": "blue"}}},
		"who has answered":      body{Answers: answers[:1], Granted: &granted{Scopes: []string{"tools"}}},
		"asked of others":       delivery{Until: at, Principal: "principal", Tool: "tool", Revision: 2, Question: "approve", Asked: step.Params},
		"waits in a row":        stand{Events: []tasks.Awaited{{ID: "approve", Event: store.ID{1, 2}, Until: at, Message: "message", Question: "approve", Asked: step.Params, Place: &engine.Place{5, 6}, Row: store.ID{7, 8}}}},
		"asked in a row":        delivery{Until: at, Question: "approve", Asked: step.Params, Row: store.ID{7, 8}},
		"has taken events":      state{Heard: []heard{{Event: store.ID{1, 2}, Question: "paid"}}},
		"a failure with undo":   recordedFailure{Text: "text", Undone: &engine.UndoReport{Undone: []string{"hold"}, Outstanding: []string{"pay"}, Kept: []string{"order"}, Final: "ship", SagaToken: "token"}},
		"a failure in part":     recordedFailure{Text: "text", Undone: &engine.UndoReport{Undone: []string{"ship"}, Outstanding: []string{}, Final: "pay", Left: []string{"hold"}}},
		"an entry of a list":    entry{Place: engine.Place{5, 6}},
		"a turn of its own":     stand{Since: at},
		"was taken over":        stand{Begun: raw("begun")},
		"a response":            response,
	}
}

// What ledgers hold opens in every later version: nothing of it is lost, whatever is renamed here. Some of it
// is kept under the names of Go's fields, as of steps and answers.
func TestFrozenRows(t *testing.T) {
	raw, err := os.ReadFile(frozenKeys)
	require.NoError(t, err)
	keys, err := codec.ParseKeyset(raw)
	require.NoError(t, err)
	s := sealer{keys: func() *codec.Keyset { return keys }, audience: "frozen"}
	id, frozen, set := store.ID{7}, make(map[string][]byte), make(map[string]bool)
	if raw, err := os.ReadFile(frozenFile); !*update || err == nil {
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(raw, &frozen))
	}
	for name, want := range examples(t) {
		fields(reflect.ValueOf(want), set)
		place := name
		if reflect.TypeOf(want) == reflect.TypeFor[body]() {
			place = placeItem
		}
		if frozen[name] == nil && *update {
			frozen[name], err = s.seal(id, place, 5, want)
			require.NoError(t, err)
		}
		got := reflect.New(reflect.TypeOf(want))
		require.NoError(t, s.open(id, place, 5, frozen[name], got.Interface()), name)
		response, ok := got.Interface().(*[]byte)
		if !ok {
			assert.Equal(t, want, got.Elem().Interface(), name)
			continue
		}
		end, failure, err := turns.DecodeResponse(*response)
		require.NoError(t, err)
		again, err := turns.EncodeResponse(&end, failure)
		require.NoError(t, err)
		assert.JSONEq(t, string(*response), string(again))
	}
	assert.Len(t, examples(t), len(frozen), "what was frozen stays")
	for _, k := range []kind{kindBegun, kindTurn, kindRest, kindQuestion, kindPartial, kindProgress, kindLog, kindEffect, kindUndoing, kindEnd, kindUndone, kindAnswer, kindCancel, kindRenew, kindKeep, kindUndo, kindShared} {
		assert.NotEmpty(t, frozen[string(k)], "an item of the kind %q", k)
	}
	for field, isSet := range set {
		assert.True(t, isSet, "no example has %s", field)
	}
	if *update {
		raw, err := json.MarshalIndent(frozen, "", "\t")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(frozenFile, append(raw, '\n'), 0o644))
	}
}

// fields notes of each field that is kept in a value whether it is set there, or was before.
func fields(v reflect.Value, set map[string]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fields(v.Elem(), set)
		}
	case reflect.Slice:
		for i := range v.Len() {
			fields(v.Index(i), set)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name := v.Type().String() + "." + f.Name
			kept := (f.IsExported() || f.Anonymous) && f.Tag.Get("cbor") != "-" && f.Tag.Get("json") != "-"
			if !kept || name == "steps.Step.Varied" || name == "steps.Step.Otherwise" { // see asked
				continue
			}
			set[name] = set[name] || !v.Field(i).IsZero()
			fields(v.Field(i), set)
		}
	}
}
