package comparison_test

//lint:file-ignore SA1019 Sampling is deprecated since 2026-07-28, and in use.

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/gosdk/comparison"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

func TestLostData(t *testing.T) {
	type lossy struct {
		Target string
		slot   int
	}
	t.Run("Go SDK", func(t *testing.T) {
		var got lossy
		url := sdkTool(t, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if req.Params.RequestState != "" {
				return said("done"), json.Unmarshal([]byte(req.Params.RequestState), &got)
			}
			raw, err := json.Marshal(lossy{"staging", 7})
			return form(string(raw), "sure", &jsonschema.Schema{Type: "boolean"}), err
		})
		_, err := (&user{accept: map[string]any{"sure": true}}).call(t, url)
		require.NoError(t, err)
		assert.Equal(t, lossy{"staging", 0}, got)
	})
	t.Run("machine", func(t *testing.T) {
		_, err := saga.Machine[none, lossy]{
			Info: saga.Info{Name: "deploy"}, Start: func(t *saga.Turn[none, lossy]) (saga.Next, error) { return t.Textf("done") },
		}.Compile()
		assert.ErrorContains(t, err, "field slot of the state is not exported, so it would be lost")
	})
	t.Run("flow", func(t *testing.T) {
		e := &saga.Effect[string, lossy]{Name: "reserve", Do: func(context.Context, saga.Key, string) (lossy, error) { return lossy{}, nil }}
		_, err := saga.Flow[none, string]{
			Info: saga.Info{Name: "deploy", Effects: []saga.Declared{e}}, Run: func(*saga.Run, none) (string, error) { return "done", nil },
		}.Compile()
		assert.ErrorContains(t, err, "field slot of its result is not exported, so it would be lost")
	})
}

func TestTamperedState(t *testing.T) {
	for i, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			var c comparison.Calendar
			url := v.serve(t, &c)
			var u user
			first := u.must(t, url, "", "", nil)
			second := u.must(t, url, first.RequestState, "target", accept("target", "staging"))
			changed := strings.Replace(second.RequestState, `"target":"staging"`, `"target":"production"`, 1)
			if i > 0 {
				last := len(changed) - 10
				changed = changed[:last] + strings.Repeat("A", 10)
			}
			r, err := u.round(t, url, changed, "model", answer("Yes."))
			if i > 0 {
				assert.ErrorContains(t, err, "the requestState is not valid here")
				return
			}
			require.NoError(t, err)
			third := u.must(t, url, r.RequestState, "confirm", accept("sure", true))
			assert.Equal(t, "Deploying v2 to production in slot 1.", text(third), "though staging was reserved")
		})
	}
}

// answer is what a model says.
func answer(s string) mcp.InputResponse {
	return &mcp.CreateMessageWithToolsResult{Role: "assistant", Model: "m", Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func TestStolenState(t *testing.T) {
	for i, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			var c comparison.Calendar
			url := v.serve(t, &c)
			first := new(user).must(t, url, "", "", nil)
			r, err := (&user{name: "eve"}).round(t, url, first.RequestState, "target", accept("target", "staging"))
			if i > 0 {
				assert.ErrorContains(t, err, "the requestState is not valid here")
				assert.Empty(t, c.Reserved())
				return
			}
			require.NoError(t, err)
			assert.Contains(t, r.InputRequests, "model", "eve goes on with what ada began")
		})
	}
}

func TestDeployInMidSaga(t *testing.T) {
	t.Run("Go SDK", func(t *testing.T) {
		var c comparison.Calendar
		var u user
		url := versions[0].serve(t, &c)
		first := u.must(t, url, "", "", nil)
		// What the code before a deployment called "where" is "target" now.
		old := strings.Replace(first.RequestState, `"step":"target"`, `"step":"where"`, 1)
		r := u.must(t, url, old, "target", accept("target", "staging"))
		assert.Equal(t, `there is no step "where"`, text(r))
	})
	deploy := func(t *testing.T, before, after func(c *comparison.Calendar) saga.Definition) string {
		t.Chdir(t.TempDir())
		t.Setenv("SAGATEST_UPDATE", "1")
		old := caseOf(before)
		sagatest.Journal(t, old)
		t.Setenv("SAGATEST_UPDATE", "")
		return reported(t, func(t testing.TB) {
			c := caseOf(after)
			c.Script = append(c.Script, sagatest.Accept("where", targetForm{"staging"}))
			sagatest.Journal(t, c)
		})
	}
	t.Run("machine", func(t *testing.T) {
		got := deploy(t, func(c *comparison.Calendar) saga.Definition { return machineOf(reserve(c)) }, func(c *comparison.Calendar) saga.Definition {
			m := machineOf(reserve(c))
			m.Steps["where"] = m.Steps["chosen"]
			delete(m.Steps, "chosen")
			m.Start = func(t *shortTurn) (saga.Next, error) { return t.Ask("where", askTarget) }
			return m
		})
		assert.Contains(t, got, `there is no step function "chosen"`)
	})
	t.Run("flow", func(t *testing.T) {
		askWhere := &steps.Form[targetForm]{ID: "where", Message: "Where?"}
		got := deploy(t, func(c *comparison.Calendar) saga.Definition { return flowOf(reserve(c)) }, func(c *comparison.Calendar) saga.Definition {
			e := reserve(c)
			f := flowOf(e)
			f.Asks = []steps.Question{askWhere, askSure}
			f.Run = func(r *saga.Run, _ none) (string, error) {
				form, err := saga.Ask(r, askWhere)
				if err != nil {
					return "", err
				}
				if _, err := saga.Do(r, e, form.Target); err != nil {
					return "", err
				}
				_, err = saga.Ask(r, askSure)
				return "Deploying.", err
			}
			return f
		})
		assert.Contains(t, got, "sagas under way survive a change of the tool")
	})
}
