package comparison_test

//lint:file-ignore SA1019 Sampling is deprecated since 2026-07-28, and in use.

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/comparison"
	"github.com/mcpsaga/mcpsaga/examples/comparison/byflow"
	"github.com/mcpsaga/mcpsaga/examples/comparison/bymachine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

// when is the earliest moment at which a mistake is caught without a test that was
// written for it.
type when string

const (
	compiler     when = "compiler"
	registration when = "registration"
	vet          when = "vet"
	sweep        when = "sweep"
	journal      when = "journal"
	runTime      when = "run time"
	never        when = "never"
	impossible   when = "cannot happen"
)

// mistakes are the rows of the table in docs/comparison.md.
var mistakes = []struct {
	title              string
	sdk, machine, flow when
	test               string
}{
	{"a misspelt step name", runTime, vet, impossible, "TestMisspeltStep"},
	{"an answer read as the wrong type", never, compiler, compiler, "TestWrongAnswerType"},
	{"a form that MCP does not allow", runTime, registration, registration, "TestFormNotAllowed"},
	{"data that is lost between two rounds", never, registration, registration, "TestLostData"},
	{"the client changes the state", never, runTime, runTime, "TestTamperedState"},
	{"another user's state", never, runTime, runTime, "TestStolenState"},
	{"an answer that does not fit the form", never, runTime, runTime, "TestUnfitAnswer"},
	{"an effect twice when a round is repeated", never, sweep, sweep, "TestEffectTwice"},
	{"a forgotten undo", never, sweep, sweep, "TestForgottenUndo"},
	{"the wall clock where a round may be repeated", never, sweep, vet, "TestWallClock"},
	{"going on after a question was asked", runTime, sweep, vet, "TestSwallowedSuspension"},
	{"a step renamed while sagas are under way", runTime, journal, journal, "TestDeployInMidSaga"},
}

type none struct{}

type targetForm struct {
	Target string `json:"target" enum:"staging|production"`
}

type sureForm struct {
	Sure bool `json:"sure"`
}

var (
	askTarget = &steps.Form[targetForm]{ID: "target", Message: "Where?"}
	askSure   = &steps.Form[sureForm]{ID: "sure", Message: "Sure?"}
	script    = []sagatest.Answer{sagatest.Accept("target", targetForm{"staging"}), sagatest.Accept("sure", sureForm{true})}
)

// reserve is the effect of the tools with mistakes.
func reserve(c *comparison.Calendar) *saga.Effect[string, int] {
	return &saga.Effect[string, int]{
		Name: "reserve",
		Do: func(ctx context.Context, key saga.Key, target string) (int, error) {
			return c.Reserve(ctx, string(key), target)
		},
		Undo: func(ctx context.Context, p saga.Performed[string, int]) error {
			return c.Release(ctx, string(p.Key))
		},
	}
}

// A short version of the tool: it asks for the target, reserves, and asks again.
type (
	shortTurn    = saga.Turn[none, none]
	shortMachine = saga.Machine[none, none]
	shortFlow    = saga.Flow[none, string]
)

func machineOf(e *saga.Effect[string, int]) shortMachine {
	return shortMachine{
		Info:  saga.Info{Name: "deploy", Asks: []steps.Question{askTarget, askSure}, Effects: []saga.Declared{e}},
		Start: func(t *shortTurn) (saga.Next, error) { return t.Ask("chosen", askTarget) },
		Steps: saga.Steps[none, none]{
			"chosen": func(t *shortTurn) (saga.Next, error) {
				form, err := askTarget.Answer(t)
				if err != nil {
					return nil, err
				}
				if _, err := saga.Do(t, e, form.Target); err != nil {
					return nil, err
				}
				return t.Ask("confirmed", askSure)
			},
			"confirmed": func(t *shortTurn) (saga.Next, error) {
				if _, err := askSure.Answer(t); err != nil {
					return nil, err
				}
				return t.Textf("Deploying.")
			},
		},
	}
}

func flowOf(e *saga.Effect[string, int]) shortFlow {
	return shortFlow{
		Info: saga.Info{Name: "deploy", Asks: []steps.Question{askTarget, askSure}, Effects: []saga.Declared{e}},
		Run: func(r *saga.Run, _ none) (string, error) {
			form, err := saga.Ask(r, askTarget)
			if err != nil {
				return "", err
			}
			if _, err := saga.Do(r, e, form.Target); err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, askSure); err != nil {
				return "", err
			}
			return "Deploying.", nil
		},
	}
}

// caseOf is a tool with the calendar that it acts on. The tools are left with what a
// client does that uses one token twice: nothing is final in them.
func caseOf(tool func(c *comparison.Calendar) saga.Definition) sagatest.Case {
	return sagatest.Case{
		New: func(testing.TB) sagatest.Subject {
			var c comparison.Calendar
			return sagatest.Subject{Tool: tool(&c), World: func() any { return c.Reserved() }}
		},
		Script: script,
		Skip:   []string{"forks"},
	}
}

// swept sweeps a tool with a mistake and returns the reports.
func swept(t *testing.T, tool func(c *comparison.Calendar) saga.Definition) string {
	t.Helper()
	return reported(t, func(t testing.TB) { sagatest.Sweep(t, caseOf(tool)) })
}

// sweptWith sweeps the machine and the flow with an effect, and wants a report.
func sweptWith(t *testing.T, effect func(c *comparison.Calendar) *saga.Effect[string, int], want string) {
	t.Helper()
	tools := map[string]func(c *comparison.Calendar) saga.Definition{
		"machine": func(c *comparison.Calendar) saga.Definition { return machineOf(effect(c)) },
		"flow":    func(c *comparison.Calendar) saga.Definition { return flowOf(effect(c)) },
	}
	for name, tool := range tools {
		t.Run(name, func(t *testing.T) { assert.Contains(t, swept(t, tool), want) })
	}
}

// Without mistakes, the versions pass a sweep.
func TestSweep(t *testing.T) {
	tools := map[string]func(c *comparison.Calendar) saga.Definition{"machine": bymachine.New, "flow": byflow.New}
	for name, tool := range tools {
		t.Run(name, func(t *testing.T) {
			c := caseOf(tool)
			c.Args = map[string]any{"version": "v2"}
			c.Script = []sagatest.Answer{
				sagatest.Accept("target", targetForm{"staging"}), sagatest.Say("model", "Yes."), sagatest.Accept("confirm", sureForm{true}),
			}
			sagatest.Sweep(t, c)
		})
	}
}

// sdkTool adds a tool whose handler is given to a server of the Go SDK.
func sdkTool(t *testing.T, handler func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error)) (url string) {
	return serveSDK(t, func(s *mcp.Server) {
		mcp.AddTool(s, &mcp.Tool{Name: "deploy"}, func(ctx context.Context, req *mcp.CallToolRequest, _ struct {
			Version string `json:"version,omitempty"`
		}) (*mcp.CallToolResult, any, error) {
			r, err := handler(ctx, req)
			return r, nil, err
		})
	})
}

// form asks by the Go SDK.
func form(state string, field string, s *jsonschema.Schema) *mcp.CallToolResult {
	schema := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{field: s}}
	return &mcp.CallToolResult{
		InputRequests: mcp.InputRequestMap{field: &mcp.ElicitParams{Message: "?", RequestedSchema: schema}}, RequestState: state,
	}
}

func said(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func TestMisspeltStep(t *testing.T) {
	t.Run("Go SDK", func(t *testing.T) {
		var c comparison.Calendar
		url := versions[0].serve(t, &c)
		var u user
		first := u.must(t, url, "", "", nil)
		misspelt := strings.Replace(first.RequestState, `"step":"target"`, `"step":"taget"`, 1)
		r := u.must(t, url, misspelt, "target", accept("target", "staging"))
		assert.Equal(t, `there is no step "taget"`, text(r), "the author has thought of it")
	})
	t.Run("machine", func(t *testing.T) {
		got := swept(t, func(c *comparison.Calendar) saga.Definition {
			m := machineOf(reserve(c))
			m.Start = func(t *shortTurn) (saga.Next, error) { return t.Ask("choosen", askTarget) }
			return m
		})
		assert.Contains(t, got, `there is no step function "choosen" to get the answers`)
		assert.Contains(t, vetted(), `there is no step function "choosen" to go on`)
	})
}

func TestWrongAnswerType(t *testing.T) {
	t.Run("Go SDK", func(t *testing.T) {
		var got sureForm
		url := sdkTool(t, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if req.Params.RequestState == "" {
				return form("1", "target", &jsonschema.Schema{Type: "string"}), nil
			}
			raw, err := json.Marshal(req.Params.InputResponses["target"].(*mcp.ElicitResult).Content)
			if err != nil {
				return nil, err
			}
			return said("done"), json.Unmarshal(raw, &got)
		})
		u := &user{accept: map[string]any{"target": "staging"}}
		r, err := u.call(t, url)
		require.NoError(t, err)
		assert.False(t, r.IsError)
		assert.Equal(t, sureForm{}, got, "a target was read as a confirmation, which is zero")
	})
	t.Run("machine", func(t *testing.T) {
		assert.Contains(t, compiled(t, "bymachine", "form, err := askTarget.Answer(t)", "var form confirm\n\tform, err := askTarget.Answer(t)"), "cannot use")
	})
	t.Run("flow", func(t *testing.T) {
		assert.Contains(t, compiled(t, "byflow", "where, err := saga.Ask(r, askTarget)", "var where confirm\n\twhere, err := saga.Ask(r, askTarget)"), "cannot use")
		assert.Contains(t, compiled(t, "byflow", "where, err := saga.Ask(r, askTarget)", "where, err := saga.Ask(r, askTarget, askConfirm)"), "too many arguments",
			"what is asked and what is read are one value")
	})
}

// compiled compiles a version with a change and returns what the compiler says.
func compiled(t *testing.T, version, old, change string) string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join(version, version+".go"))
	require.NoError(t, err)
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(source), old)
	changed := filepath.Join(t.TempDir(), "changed.go")
	require.NoError(t, os.WriteFile(changed, []byte(strings.Replace(string(source), old, change, 1)), 0o600))
	overlay := filepath.Join(t.TempDir(), "overlay.json")
	raw, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, raw, 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "./"+version).CombinedOutput()
	require.Error(t, err)
	return string(out)
}

// vetted returns what sagavet says about testdata/flows, which has the mistakes of
// these tests.
var vetted = sync.OnceValue(func() string {
	out, err := exec.Command("go", "run", "../../cmd/sagavet", "./testdata/flows").CombinedOutput()
	if err == nil {
		return "sagavet found nothing"
	}
	return string(out)
})

func TestFormNotAllowed(t *testing.T) {
	t.Run("Go SDK", func(t *testing.T) {
		nested := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"street": {Type: "string"}}}
		url := sdkTool(t, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return form("1", "address", nested), nil
		})
		u := new(user)
		r := u.must(t, url, "", "", nil)
		assert.Contains(t, r.InputRequests, "address", "the server sends it")
		_, err := new(user).call(t, url)
		assert.ErrorContains(t, err, "address", "the client refuses it")
	})
	type address struct{ Street string }
	type nested struct {
		Address address `json:"address"`
	}
	asks := []steps.Question{&steps.Form[nested]{ID: "address", Message: "Where?"}}
	t.Run("machine", func(t *testing.T) {
		m := machineOf(reserve(nil))
		m.Asks = asks
		_, err := m.Compile()
		assert.ErrorContains(t, err, `question "address" cannot be asked`)
	})
	t.Run("flow", func(t *testing.T) {
		f := flowOf(reserve(nil))
		f.Asks = asks
		_, err := f.Compile()
		assert.ErrorContains(t, err, `question "address" cannot be asked`)
	})
}

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

func TestUnfitAnswer(t *testing.T) {
	for i, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			var c comparison.Calendar
			url := v.serve(t, &c)
			var u user
			first := u.must(t, url, "", "", nil)
			r := u.must(t, url, first.RequestState, "target", accept("target", "moon"))
			if i > 0 {
				assert.Contains(t, r.InputRequests["target~2"].(*mcp.ElicitParams).Message, `must be one of "staging", "production"`)
				assert.Empty(t, c.Reserved())
				return
			}
			assert.Contains(t, r.InputRequests, "model")
			assert.Equal(t, []int{1}, c.Reserved(), "a slot is reserved on the moon")
		})
	}
}

func TestEffectTwice(t *testing.T) {
	t.Run("Go SDK", func(t *testing.T) {
		var c comparison.Calendar
		url := sdkTool(t, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if req.Params.RequestState == "" {
				return form("1", "sure", &jsonschema.Schema{Type: "boolean"}), nil
			}
			_, err := c.Reserve(ctx, rand.Text(), "staging") // the key is made too late
			return said("done"), err
		})
		var u user
		for range 2 { // the response was lost: the client sends the same again
			u.must(t, url, "1", "sure", accept("sure", true))
		}
		assert.Equal(t, []int{1, 2}, c.Reserved())
	})
	careless := func(c *comparison.Calendar) *saga.Effect[string, int] {
		e := reserve(c)
		e.Do = func(ctx context.Context, _ saga.Key, target string) (int, error) {
			return c.Reserve(ctx, rand.Text(), target)
		}
		return e
	}
	sweptWith(t, careless, "an effect happens once per key")
}

func TestForgottenUndo(t *testing.T) {
	t.Run("Go SDK", func(t *testing.T) {
		var c comparison.Calendar
		url := sdkTool(t, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			switch req.Params.RequestState {
			case "":
				return form("1", "target", &jsonschema.Schema{Type: "string"}), nil
			case "1":
				_, err := c.Reserve(ctx, "key", "staging")
				return form("2", "sure", &jsonschema.Schema{Type: "boolean"}), err
			}
			return nil, fmt.Errorf("not confirmed")
		})
		r, err := (&user{accept: map[string]any{"target": "staging"}}).call(t, url)
		require.NoError(t, err)
		assert.True(t, r.IsError)
		assert.Equal(t, []int{1}, c.Reserved())
	})
	forgetful := func(c *comparison.Calendar) *saga.Effect[string, int] {
		e := reserve(c)
		e.Undo = nil
		return e
	}
	sweptWith(t, forgetful, `effect "reserve" was done and has no Undo`)
}

func TestWallClock(t *testing.T) {
	t.Run("Go SDK", func(t *testing.T) {
		var asked []string
		url := sdkTool(t, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if req.Params.RequestState == "" {
				return form("1", "sure", &jsonschema.Schema{Type: "boolean"}), nil
			}
			asked = append(asked, time.Now().Format(time.StampNano)) // for what is reserved
			return said("done"), nil
		})
		var u user
		for range 2 {
			u.must(t, url, "1", "sure", accept("sure", true))
		}
		assert.NotEqual(t, asked[0], asked[1], "the round that is repeated reserves something else")
	})
	t.Run("machine", func(t *testing.T) {
		got := swept(t, func(c *comparison.Calendar) saga.Definition {
			e := reserve(c)
			m := machineOf(e)
			m.Steps["chosen"] = func(t *shortTurn) (saga.Next, error) {
				if _, err := saga.Do(t, e, time.Now().Format(time.StampNano)); err != nil {
					return nil, err
				}
				return t.Ask("confirmed", askSure)
			}
			return m
		})
		assert.Contains(t, got, `effect "reserve" was begun twice with one key but with different inputs`)
	})
	t.Run("flow", func(t *testing.T) {
		got := swept(t, func(c *comparison.Calendar) saga.Definition {
			e := reserve(c)
			f := flowOf(e)
			f.Run = func(r *saga.Run, _ none) (string, error) {
				if _, err := saga.Ask(r, askTarget); err != nil {
					return "", err
				}
				//sagavet:ignore the test is about this
				if _, err := saga.Do(r, e, time.Now().Format(time.StampNano)); err != nil {
					return "", err
				}
				_, err := saga.Ask(r, askSure)
				return "Deploying.", err
			}
			return f
		})
		assert.Contains(t, vetted(), "time.Now does not do the same when the flow runs again")
		assert.Contains(t, got, "the flow diverges from its record", "which is an error at run time too")
	})
}

func TestSwallowedSuspension(t *testing.T) {
	t.Run("Go SDK", func(t *testing.T) {
		url := sdkTool(t, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			r := form("1", "sure", &jsonschema.Schema{Type: "boolean"})
			r.Content = said("done").Content
			return r, nil
		})
		_, err := new(user).call(t, url)
		assert.ErrorContains(t, err, "both content and inputRequests")
	})
	t.Run("machine", func(t *testing.T) {
		got := swept(t, func(c *comparison.Calendar) saga.Definition {
			m := machineOf(reserve(c))
			m.Steps["chosen"] = func(t *shortTurn) (saga.Next, error) {
				if _, err := t.Ask("confirmed", askSure); err != nil {
					return nil, err
				}
				return t.Textf("Deploying.")
			}
			return m
		})
		assert.Contains(t, got, `"sure"`, "the script's answer is never asked for")
	})
	t.Run("flow", func(t *testing.T) {
		got := swept(t, func(c *comparison.Calendar) saga.Definition {
			f := flowOf(reserve(c))
			f.Run = func(r *saga.Run, _ none) (string, error) {
				//sagavet:ignore the test is about this
				if _, err := saga.Ask(r, askTarget); err != nil {
					return "Nowhere.", nil
				}
				_, err := saga.Ask(r, askSure)
				return "Deploying.", err
			}
			return f
		})
		assert.Contains(t, vetted(), "the flow goes on after saga.Ask")
		assert.Contains(t, got, `the flow asked "target" and then returned a result`, "which is an error at run time too")
	})
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
