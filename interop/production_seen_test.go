package interop

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/audit"
)

// shown are numbers by the labels that a panel of the dashboard shows, separated by spaces.
type shown map[string]int

// query asks Prometheus: the sums by these labels.
func (s *site) query(expr string, labels ...string) shown {
	s.t.Helper()
	response, err := http.PostForm("http://"+s.prometheus+"/api/v1/query", url.Values{"query": {expr}})
	require.NoError(s.t, err)
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	var got struct {
		Status string
		Data   struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	require.NoError(s.t, json.Unmarshal(raw, &got))
	require.Equal(s.t, "success", got.Status, "%s: %s", expr, raw)
	found := shown{}
	for _, r := range got.Data.Result {
		var of []string
		for _, l := range labels {
			if v := r.Metric[l]; v != "" {
				of = append(of, v)
			}
		}
		n, err := strconv.ParseFloat(r.Value[1].(string), 64)
		require.NoError(s.t, err)
		found[strings.Join(of, " ")] += int(n)
	}
	return found
}

// panels are the expressions of the dashboard by the titles of its panels.
func panels(t *testing.T) map[string]string {
	raw, err := os.ReadFile("../docs/telemetry/dashboard.json")
	require.NoError(t, err)
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(raw, &board))
	list := map[string]string{}
	for _, p := range board.Panels {
		list[p.Title] = strings.ReplaceAll(p.Targets[0].Expr, "$job", ".*")
	}
	return list
}

// acts are what has come of a trip.
type acts struct {
	suspended, done int // turns
	effects         []string
}

// wanted are what the panels that count should show, by what users have counted.
func (l *load) wanted(also acts) map[string]shown {
	l.mu.Lock()
	defer l.mu.Unlock()
	want := map[string]shown{
		"Turns": {}, "Requests": maps.Clone(l.methods), "Questions asked": {"trip": l.asked}, "Effects and undos": {},
		"Refused and broken turns": {}, "Undos outstanding": {"": 0},
	}
	effects, turns := want["Effects and undos"], want["Turns"]
	for _, w := range wishes {
		n := l.ends[w.name]
		turns["suspended"] += w.questions * n
		turns[map[bool]string{true: "done", false: "failed"}[w.name == "booked"]] += n
		for suffix, names := range map[string][]string{" false": w.effects, " false effect_error": w.failed, " true": w.un} {
			for _, name := range names {
				effects[name+suffix] += n
			}
		}
	}
	turns["suspended"] += also.suspended
	turns["done"] += also.done
	for _, name := range also.effects {
		effects[name+" false"]++
	}
	return want
}

// labelsOf are those by which a panel shows numbers.
var labelsOf = map[string][]string{
	"Turns": {"mcpsaga_outcome"}, "Requests": {"mcp_method_name"}, "Questions asked": {"mcpsaga_name"}, "Refused and broken turns": {"mcpsaga_outcome"},
	"Effects and undos": {"mcpsaga_effect_name", "mcpsaga_undo", "error_type"}, "Undos outstanding": nil,
}

var (
	// total makes a rate what it is the rate of, as that was last, also of replicas that are gone.
	total = strings.NewReplacer("(rate(", "(last_over_time(", "$__rate_interval", "1h")
	drawn = strings.NewReplacer("$__rate_interval", (4 * scraped).String())
)

// shows: the dashboard shows these numbers, once Prometheus has looked, but for as many as slack; and what there is much of is seen as
// it is drawn.
func (s *site) shows(want map[string]shown, slack int) {
	s.t.Helper()
	for title, expr := range panels(s.t) {
		n, counted := want[title]
		if !counted {
			s.query(drawn.Replace(expr)) // it has an answer
			continue
		}
		var got shown
		if !assert.Eventually(s.t, func() bool {
			got = s.query(total.Replace(expr), labelsOf[title]...)
			all := maps.Clone(n)
			maps.Copy(all, got)
			for of := range all {
				if d := got[of] - n[of]; d > slack || -d > slack {
					return false
				}
			}
			return true
		}, 10*time.Second, scraped) {
			assert.Equal(s.t, n, got, title)
		}
		seen := s.query(fmt.Sprintf("ceil(max_over_time((%s)[10m:%v]))", drawn.Replace(expr), scraped), labelsOf[title]...)
		for of, n := range got {
			assert.False(s.t, n > 10 && seen[of] == 0, "%s never shows %s", title, of)
		}
		s.t.Logf("%s: %v", title, got)
	}
}

// audits are the lines that each replica has written, in their order.
func (s *site) audits() (all [][]audit.Record) {
	for _, p := range s.replicas {
		raw, err := os.ReadFile(s.file(p.name + ".audit"))
		require.NoError(s.t, err)
		all = append(all, auditLines(s.t, raw))
	}
	return all
}

func auditLines(t *testing.T, raw []byte) (list []audit.Record) {
	for line := range strings.Lines(string(raw)) {
		var r audit.Record
		require.NoError(t, json.Unmarshal([]byte(line), &r), line)
		list = append(list, r)
	}
	return list
}

// ledgerAudit is what `saga audit` prints.
func (s *site) ledgerAudit(args ...string) []audit.Record {
	out, err := exec.Command(filepath.Join(work, "production"), append([]string{
		"audit", "--keyset", s.keys, "--audience", "production", "--ledger", s.ledger, "--audit-key", s.file("audit.key")}, args...)...).Output()
	require.NoError(s.t, err)
	return auditLines(s.t, out)
}

// span is one of the spans that the Collector has received.
type span struct {
	TraceID, SpanID, ParentSpanID, Name string
	Links                               []struct{ TraceID, SpanID string }
	Attributes                          []struct {
		Key   string
		Value struct{ StringValue, IntValue string }
	}
	replica string
}

func (s span) attribute(key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.StringValue + a.Value.IntValue
		}
	}
	return ""
}

// spans are all that the Collector has written.
func (s *site) spans() (list []span) {
	raw, err := os.ReadFile(s.file("spans.json"))
	require.NoError(s.t, err)
	for line := range strings.Lines(string(raw)) {
		var got struct {
			ResourceSpans []struct {
				Resource   span
				ScopeSpans []struct{ Spans []span }
			}
		}
		if json.Unmarshal([]byte(line), &got) != nil {
			break // it is being written
		}
		for _, of := range got.ResourceSpans {
			for _, in := range of.ScopeSpans {
				for _, one := range in.Spans {
					one.replica = of.Resource.attribute("service.instance.id")
					list = append(list, one)
				}
			}
		}
	}
	return list
}

// story are the spans of a saga, in the order of its turns: those of each turn, of the request that it is part of, and of the effects in it. It
// fails unless all hang together by parents and links.
func story(t *testing.T, all []span, saga string) (list []span) {
	byID, within := map[string]span{}, map[string][]span{}
	for _, s := range all {
		byID[s.SpanID] = s
		within[s.ParentSpanID] = append(within[s.ParentSpanID], s)
	}
	var turns []span
	for _, s := range all {
		if s.attribute("mcpsaga.saga.id") == saga {
			turns = append(turns, s)
		}
	}
	slices.SortFunc(turns, func(a, b span) int {
		return strings.Compare(a.attribute("mcpsaga.turn.number"), b.attribute("mcpsaga.turn.number"))
	})
	require.NotEmpty(t, turns)
	first := byID[turns[0].ParentSpanID]
	require.Equal(t, "tools/call trip", first.Name, "where it began")
	for i, turn := range turns {
		assert.Equal(t, fmt.Sprint(i+1), turn.attribute("mcpsaga.turn.number"), "each turn once")
		if i > 0 {
			require.Len(t, turn.Links, 1, "of turn %d", i+1)
			assert.Equal(t, []string{first.TraceID, first.SpanID}, []string{turn.Links[0].TraceID, turn.Links[0].SpanID}, "turn %d leads to where the saga began", i+1)
		}
		request := byID[turn.ParentSpanID]
		assert.Equal(t, []string{"tools/call trip", turn.TraceID, turn.replica}, []string{request.Name, request.TraceID, request.replica})
		list = append(append(list, request, turn), within[turn.SpanID]...)
	}
	return list
}
