package comparison_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/gosdk/comparison"
	"github.com/mcpsaga/mcpsaga/saga"
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
	{"a misspelt step name", runTime, sweep, impossible, "TestMisspeltStep"},
	{"an answer read as the wrong type", never, compiler, compiler, "TestWrongAnswerType"},
	{"a form that MCP does not allow", runTime, registration, registration, "TestFormNotAllowed"},
	{"data that is lost between two rounds", never, registration, registration, "TestLostData"},
	{"the client changes the state", never, runTime, runTime, "TestTamperedState"},
	{"another user's state", never, runTime, runTime, "TestStolenState"},
	{"an answer that does not fit the form", never, runTime, runTime, "TestUnfitAnswer"},
	{"an effect twice when a round is repeated", never, sweep, sweep, "TestEffectTwice"},
	{"a forgotten undo", never, sweep, sweep, "TestForgottenUndo"},
	{"the wall clock where a round may be repeated", never, sweep, vet, "TestWallClock"},
	{"going on after a question was asked", runTime, sweep, sweep, "TestSwallowedSuspension"},
	{"a step renamed while sagas are under way", runTime, journal, journal, "TestDeployInMidSaga"},
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

// vetted returns what sagavet says about testdata/flows, which has the mistake of
// TestWallClock.
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
				if _, err := saga.Ask(r, askTarget); err != nil {
					return "Nowhere.", nil
				}
				_, err := saga.Ask(r, askSure)
				return "Deploying.", err
			}
			return f
		})
		assert.Contains(t, got, `the flow asked "target" and then returned a result`, "which is an error at run time too")
	})
}
