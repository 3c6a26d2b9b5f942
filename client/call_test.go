package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/internal/checkerr"
	"github.com/mcpsaga/mcpsaga/steps"
)

// TestCallTranscript has the six messages of the proposal on the wire.
func TestCallTranscript(t *testing.T) {
	t.Parallel()
	s := play(t, result(askTarget), result(askModel), result(deployed))
	var who people
	got, err := s.client(t).Call(t.Context(), "complex_tool", map[string]any{"initial_arg": "value"}, who.handlers())
	require.NoError(t, err)
	assert.Equal(t, "Deployment to production initiated successfully based on confirmation.", got.Content.Text())
	assert.False(t, got.IsError)
	assert.JSONEq(t, deployed, string(got.Raw))

	assert.Equal(t, []string{"tools/callSaga", "tools/resumeSaga", "tools/resumeSaga"}, s.methods())
	begin, key := withoutKey(t, s.got()[0].Params)
	assert.JSONEq(t, `{"name":"complex_tool","arguments":{"initial_arg":"value"}}`, begin)
	assert.Regexp(t, `^[A-Z2-7]{26}$`, key)
	answerA := `{"stepId":"step-elicitation-A","result":{"action":"accept","content":{"target":"production"}}}`
	assert.JSONEq(t, `{"sagaToken":"v1","completedSteps":[`+answerA+`]}`, string(s.got()[1].Params))
	assert.JSONEq(t, `{"sagaToken":"v2","completedSteps":[`+answerA+`,{"stepId":"step-sampling-B","result":{"role":"assistant",`+
		`"content":{"type":"text","text":"Yes, all systems are green."},"model":"client-side-llm-v2","stopReason":"endTurn"}}]}`,
		string(s.got()[2].Params))
}

func suspended(token string, steps ...string) string {
	list := "["
	for i, step := range steps {
		if i > 0 {
			list += ","
		}
		list += step
	}
	return fmt.Sprintf(`{"state":"suspended","sagaToken":%q,"steps":%s]}`, token, list)
}

func stepOf(kind, id, params string) string {
	return fmt.Sprintf(`{"type":%q,"stepId":%q,"params":%s}`, kind, id, params)
}

const emptyForm = `{"message":"m","requestedSchema":{"type":"object","properties":{}}}`

// completed returns the answers of the last request by step id.
func completed(t *testing.T, s *script) map[string]client.Answer {
	t.Helper()
	var params struct{ CompletedSteps []client.Answer }
	require.NoError(t, json.Unmarshal(s.got()[len(s.got())-1].Params, &params))
	byID := map[string]client.Answer{}
	for _, answer := range params.CompletedSteps {
		byID[answer.StepID] = answer
	}
	return byID
}

func TestCallAnswersWhatItCannotDo(t *testing.T) {
	t.Parallel()
	s := play(t, result(suspended("v1",
		stepOf("elicitation", "e", emptyForm),
		stepOf("sampling", "s", `{"messages":[],"maxTokens":1}`),
		stepOf("roots", "r", `{}`),
		stepOf("hologram", "h", `{}`),
	)), result(deployed))
	_, err := s.client(t).Call(t.Context(), "x", nil, client.Handlers{})
	require.NoError(t, err)
	for id, what := range map[string]string{"e": "elicitation", "s": "sampling", "r": "roots", "h": `"hologram"`} {
		answer := completed(t, s)[id]
		require.NotNil(t, answer.Error, id)
		assert.EqualValues(t, -32601, answer.Error.Code)
		assert.Contains(t, answer.Error.Message, what)
	}
}

func TestCallRefusesNonsenseSteps(t *testing.T) {
	t.Parallel()
	s := play(t, result(suspended("v1",
		stepOf("elicitation", "mode", `{"mode":"telepathy","message":"m"}`),
		stepOf("elicitation", "schema", `{"message":"m"}`),
		stepOf("elicitation", "url", `{"mode":"url","message":"m"}`),
		stepOf("elicitation", "array", `[]`),
		stepOf("sampling", "sample", `{"messages":7}`),
	)), result(deployed))
	var who people
	_, err := s.client(t).Call(t.Context(), "x", nil, who.handlers())
	require.NoError(t, err)
	assert.Zero(t, who.elicited+who.sampled)
	for _, id := range []string{"mode", "schema", "url", "array", "sample"} {
		require.NotNil(t, completed(t, s)[id].Error, id)
		assert.EqualValues(t, -32602, completed(t, s)[id].Error.Code, id)
	}
}

func TestCallSendsHandlerErrors(t *testing.T) {
	t.Parallel()
	s := play(t, result(suspended("v1", stepOf("elicitation", "a", emptyForm), stepOf("elicitation", "b", emptyForm))), result(deployed))
	_, err := s.client(t).Call(t.Context(), "x", nil, client.Handlers{
		Elicit: func(_ context.Context, r *client.Request) (*client.ElicitResult, error) {
			if r.StepID == "a" {
				return nil, errors.New("no screen")
			}
			return nil, fmt.Errorf("internal detail: %w", &client.Error{Code: -1, Message: "no", Data: json.RawMessage(`[1]`)})
		},
	})
	require.NoError(t, err)
	assert.Equal(t, &client.Error{Code: -32603, Message: "no screen"}, completed(t, s)["a"].Error)
	assert.Equal(t, &client.Error{Code: -1, Message: "no", Data: json.RawMessage(`[1]`)}, completed(t, s)["b"].Error)
}

func TestCallRefusesWhatIsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]*client.ElicitResult{
		"nothing":          nil,
		"unknown action":   {Action: "perhaps"},
		"accepted nothing": {Action: "accept"},
		"not JSON":         client.Accept(func() {}),
	} {
		t.Run(name, func(t *testing.T) {
			s := play(t, result(askTarget))
			_, err := s.client(t).Call(t.Context(), "x", nil, client.Handlers{
				Elicit: func(context.Context, *client.Request) (*client.ElicitResult, error) { return bad, nil },
			})
			require.ErrorContains(t, err, `the handler for step "step-elicitation-A"`)
			assert.Len(t, s.got(), 1, "nothing was sent")
		})
	}
}

func TestCallAnswersURLMode(t *testing.T) {
	t.Parallel()
	s := play(t, result(suspended("v1", stepOf("elicitation", "u", `{"mode":"url","message":"m","url":"https://example.com/x"}`))), result(deployed))
	_, err := s.client(t).Call(t.Context(), "x", nil, client.Handlers{
		Elicit: func(_ context.Context, r *client.Request) (*client.ElicitResult, error) {
			assert.Equal(t, "url", r.Mode)
			assert.Equal(t, "https://example.com/x", r.URL)
			return client.Accept(nil), nil
		},
	})
	require.NoError(t, err)
	assert.JSONEq(t, `{"action":"accept"}`, string(completed(t, s)["u"].Result))
}

func TestCallListsRoots(t *testing.T) {
	t.Parallel()
	s := play(t, result(suspended("v1", stepOf("roots", "r", `null`))), result(deployed))
	_, err := s.client(t).Call(t.Context(), "x", nil, client.Handlers{
		Roots: func(context.Context, *client.Request) ([]steps.Root, error) { return nil, nil },
	})
	require.NoError(t, err)
	assert.JSONEq(t, `{"roots":[]}`, string(completed(t, s)["r"].Result))
}

func TestCallLimitsRounds(t *testing.T) {
	t.Parallel()
	var replies []reply
	for i := range 4 {
		replies = append(replies, result(suspended("v", stepOf("elicitation", fmt.Sprint("s", i), emptyForm))))
	}
	s := play(t, append(replies, result(deployed))...)
	c := client.New(&client.HTTP{URL: s.URL}, client.Options{Protocol: "saga", MaxRounds: 3})
	t.Cleanup(func() { _ = c.Close() })
	var who people
	_, err := c.Call(t.Context(), "x", nil, who.handlers())
	var limit *client.LimitError
	require.ErrorAs(t, err, &limit)
	assert.EqualValues(t, 3, limit.Limit)
	assert.Equal(t, 3, who.elicited, "the fourth round is not asked")

	var stopped *client.InterruptedError
	require.ErrorAs(t, err, &stopped)
	assert.Len(t, stopped.Position.Pending(), 1)
	got, err := c.Resume(t.Context(), stopped.Position, who.handlers())
	require.NoError(t, err)
	assert.NotEmpty(t, got.Content)
	assert.Equal(t, 4, who.elicited)
}

func TestCallRefusesContradictorySteps(t *testing.T) {
	t.Parallel()
	form := func(id string) string { return stepOf("elicitation", id, emptyForm) }
	for name, script := range map[string][]reply{
		"one id twice in a turn": {result(suspended("v", form("a"), form("a")))},
		"an answered step again": {result(suspended("v", form("a"))), result(suspended("w", form("a")))},
		"a step without id":      {result(suspended("v", form("")))},
		"no token":               {result(suspended("", form("a")))},
		"steps that are no list": {result(`{"state":"suspended","sagaToken":"v","steps":{}}`)},
		"neither":                {result(`{"state":"finished"}`)},
		"not an object":          {result(`[]`)},
		"content of no list":     {result(`{"content":"done"}`)},
		"a form with two titles": {result(suspended("v", stepOf("elicitation", "a", `{"message":"A","message":"B","requestedSchema":{}}`)))},
	} {
		t.Run(name, func(t *testing.T) {
			s := play(t, script...)
			var who people
			_, err := s.client(t).Call(t.Context(), "x", nil, who.handlers())
			var wrong *client.ProtocolError
			require.ErrorAs(t, err, &wrong)
			t.Log(err)
		})
	}
}

func TestCallKeepsResultsWithOddBlocks(t *testing.T) {
	t.Parallel()
	s := play(t, result(`{"content":[{"type":"image"},{"type":"text","text":"done"},{"type":"smell","of":"roses"}],"isError":true}`))
	got, err := s.client(t).Call(t.Context(), "x", nil, client.Handlers{})
	require.NoError(t, err)
	assert.True(t, got.IsError)
	assert.Len(t, got.Content, 3)
	assert.Equal(t, "done", got.Content.Text())
}

// A tool that has run has a result, also if strings of it are no Unicode or a name comes twice.
func TestCallKeepsResultsOfOddJSON(t *testing.T) {
	t.Parallel()
	const odd = `{"content":[{"type":"text","text":"half a \ud83d"},{"type":"text","text":" byte \xff <"}],"structuredContent":{"a":1.0,"a":2},"isError":false}`
	const told = "half a \ufffd byte \ufffd <"
	raw := strings.ReplaceAll(odd, `\xff`, "\xff")
	response := `{"jsonrpc":"2.0","id":1,"result":` + raw + `}`
	web := func(kind, body string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var m struct {
				ID json.RawMessage `json:"id"`
			}
			_ = json.NewDecoder(r.Body).Decode(&m)
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, strings.Replace(body, `"id":1`, `"id":`+string(m.ID), 1))
		}))
		t.Cleanup(s.Close)
		return s
	}
	for _, protocol := range []string{"saga", "2026-07-28"} {
		for name, transport := range map[string]client.Transport{
			"JSON":   &client.HTTP{URL: web("application/json", response).URL},
			"events": &client.HTTP{URL: web("text/event-stream", "data: "+response+"\n\n").URL},
			"stdio":  &client.Stdio{Command: "sh", Args: []string{"-c", `read -r line; printf '%s\n' "$0"; read -r line`, response}},
		} {
			t.Run(protocol+", "+name, func(t *testing.T) {
				if _, is := transport.(*client.Stdio); is && runtime.GOOS == "windows" {
					t.Skip("sh")
				}
				c := client.New(transport, client.Options{Protocol: protocol})
				defer c.Close()
				got, err := c.Call(t.Context(), "x", nil, client.Handlers{})
				require.NoError(t, err)
				assert.Equal(t, told, strings.ReplaceAll(got.Content.Text(), "\n", ""))
				assert.Equal(t, `{"a":1.0,"a":2}`, string(got.StructuredContent))
				assert.True(t, utf8.Valid(got.Raw))
			})
		}
	}
	twice, err := play(t, result(`{"content":[],"content":[]}`)).client(t).Call(t.Context(), "x", nil, client.Handlers{})
	require.NoError(t, err)
	assert.Empty(t, twice.Content)
	// What is asked is read in one way only.
	var who people
	_, err = play(t, result(suspended("v", stepOf("elicitation", "a", `{"message":"half a \ud83d","requestedSchema":{"type":"object","properties":{}}}`))), result(deployed)).client(t).Call(t.Context(), "x", nil, who.handlers())
	require.NoError(t, err)
	assert.Equal(t, 1, who.elicited)
}

func TestCallGoesOnWithoutSteps(t *testing.T) {
	t.Parallel()
	s := play(t, result(`{"state":"suspended","sagaToken":"v"}`), result(deployed))
	_, err := s.client(t).Call(t.Context(), "x", nil, client.Handlers{})
	require.NoError(t, err)
	assert.JSONEq(t, `{"sagaToken":"v","completedSteps":[]}`, string(s.got()[1].Params))
}

func TestCallRefusesArgumentsOfNoObject(t *testing.T) {
	t.Parallel()
	c := client.New(&client.HTTP{URL: "http://127.0.0.1:1/"}, client.Options{Protocol: "saga"})
	for _, arguments := range []any{[]int{1}, "x", func() {}} {
		_, err := c.Call(t.Context(), "x", arguments, client.Handlers{})
		require.Error(t, err)
		assert.Contains(t, err.Error(), "arguments")
	}
}

func TestCallUsesTheFormOfTheServer(t *testing.T) {
	t.Parallel()
	s := play(t, result(askTarget), result(deployed))
	_, err := s.client(t).Call(t.Context(), "complex_tool", nil, client.Handlers{
		Elicit: func(_ context.Context, r *client.Request) (*client.ElicitResult, error) {
			form, err := r.Form()
			require.NoError(t, err)
			var invalid *checkerr.InvalidError
			require.ErrorAs(t, form.Validate(map[string]any{}), &invalid)
			assert.Equal(t, &client.Request{
				Tool: "complex_tool", StepID: "step-elicitation-A", Round: 1, Params: r.Params,
				Mode: "form", Message: form.Message, Schema: r.Schema,
			}, r)
			return client.Decline(), nil
		},
	})
	require.NoError(t, err)
	assert.JSONEq(t, `{"action":"decline"}`, string(completed(t, s)["step-elicitation-A"].Result))
}
