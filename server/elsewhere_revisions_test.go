package server_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A call that waits is continued beside a newer revision of its tool, also if that asks nothing, or something else.
func TestWaitingCallsOutliveTheirRevision(t *testing.T) {
	other := &steps.Form[sureForm]{ID: "other", Message: "Other?"}
	for name, newest := range map[string]saga.Definition{
		"asks nothing": saga.Flow[struct{}, string]{
			Info: saga.Info{Name: "seat", Revision: 1},
			Run:  func(*saga.Run, struct{}) (string, error) { return "another call", nil },
		},
		"asks nothing, takes anything": saga.Flow[map[string]any, string]{
			Info: saga.Info{Name: "seat", Revision: 1},
			Run:  func(*saga.Run, map[string]any) (string, error) { return "another call", nil },
		},
		"asks something else": saga.Flow[struct{}, string]{
			Info: saga.Info{Name: "seat", Revision: 1, Asks: []steps.Question{other}},
			Run:  func(r *saga.Run, _ struct{}) (string, error) { return "another call", r.AskAll(other) },
		},
	} {
		for _, remembers := range []bool{true, false} {
			for _, version := range []string{"2026-07-28", "2025-11-25"} {
				t.Run(fmt.Sprint(name, remembers, version), func(t *testing.T) {
					o := server.Options{Keys: newKeys(t)}
					if remembers {
						o.Ledger = inMemory(t)
					}
					s := new(seats)
					o.Tools = []saga.Definition{s.tool()}
					one := newRig(t, o)
					o.Tools = []saga.Definition{newest, s.tool()}
					play := callers(t, "seat")["MCP "+version]
					before, after := play(one), play(newRig(t, o))
					first := waitsOf(t, before(object{}))
					second := waitsOf(t, after(object{"resumeToken": first.ResumeToken, "answers": object{"row": object{"row": "7"}}}))
					end := saidBy(t, after(object{"resumeToken": second.ResumeToken, "answers": object{"sure": object{"sure": true}}}))
					assert.Equal(t, "seat in 7", end.Content[0].Text)
				})
			}
		}
	}
}

// A tool that yields parts continues by the token of the next one, also beside a revision that asks.
func TestPartsBesideARevisionThatAsks(t *testing.T) {
	newest := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "seat", Revision: 1, Yields: true},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			return "the rest", r.Yield(&content.Text{Text: "part one"})
		},
	}
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		r := newRig(t, server.Options{Keys: newKeys(t), Tools: []saga.Definition{newest, new(seats).tool()}})
		call := callers(t, "seat")["MCP "+version](r)
		var first struct{ NextResumeToken string }
		require.NoError(t, json.Unmarshal(call(object{}), &first))
		require.NotEmpty(t, first.NextResumeToken)
		assert.Contains(t, string(call(object{"resumeToken": first.NextResumeToken})), "the rest")
	}
}
