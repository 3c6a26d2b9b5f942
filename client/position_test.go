package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/internal/cputime"
)

func interrupted(t *testing.T, err error) client.Position {
	t.Helper()
	var stopped *client.InterruptedError
	require.ErrorAs(t, err, &stopped)
	return stopped.Position
}

// throughJSON is what happens to a position that is saved and loaded.
func throughJSON(t *testing.T, p client.Position) client.Position {
	t.Helper()
	data, err := json.MarshalIndent(p, "", "  ")
	require.NoError(t, err)
	var loaded client.Position
	require.NoError(t, json.Unmarshal(data, &loaded))
	return loaded
}

func TestPauseAndResumeElsewhere(t *testing.T) {
	s := play(t, result(askTarget), result(askModel), result(deployed))
	var who people
	handlers := who.handlers()
	sample := handlers.Sample
	handlers.Sample = nil
	answered := 0
	handlers.OnPosition = func(_ context.Context, p client.Position) error {
		if len(p.Answers) > answered {
			answered++
			return client.ErrPause // stop right after the answer
		}
		return nil
	}
	_, err := s.client(t).Call(t.Context(), "complex_tool", map[string]any{"a": "<b>"}, handlers)
	require.ErrorIs(t, err, client.ErrPause)
	position := throughJSON(t, interrupted(t, err))
	assert.Equal(t, "v1", position.Token)
	assert.Equal(t, 1, position.Round)
	assert.Empty(t, position.Pending())

	handlers.OnPosition, handlers.Sample = nil, sample
	_, err = s.client(t).Resume(t.Context(), position, handlers)
	require.NoError(t, err)
	assert.Equal(t, people{elicited: 1, sampled: 1}, who, "nobody is asked twice")
}

func TestPauseInHandlerKeepsTheStep(t *testing.T) {
	s := play(t, result(askTarget))
	_, err := s.client(t).Call(t.Context(), "complex_tool", nil, client.Handlers{
		Elicit: func(context.Context, *client.Request) (*client.ElicitResult, error) {
			return nil, client.ErrPause
		},
	})
	require.ErrorIs(t, err, client.ErrPause)
	position := interrupted(t, err)
	require.Len(t, position.Pending(), 1)
	assert.Equal(t, "step-elicitation-A", position.Pending()[0].StepID)
}

func TestCancelDuringHandlerKeepsTheStep(t *testing.T) {
	s := play(t, result(askTarget))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.client(t).Call(ctx, "complex_tool", nil, client.Handlers{
		Elicit: func(ctx context.Context, _ *client.Request) (*client.ElicitResult, error) {
			cancel()
			return nil, errors.New("the form was torn down")
		},
	})
	require.ErrorIs(t, err, context.Canceled)
	assert.Len(t, interrupted(t, err).Pending(), 1)
}

func TestPositionsAreSnapshots(t *testing.T) {
	s := play(t, result(askTarget), result(askModel), result(deployed))
	var seen []client.Position
	var who people
	handlers := who.handlers()
	handlers.OnPosition = func(_ context.Context, p client.Position) error {
		seen = append(seen, p)
		return nil
	}
	_, err := s.client(t).Call(t.Context(), "complex_tool", nil, handlers)
	require.NoError(t, err)
	require.Len(t, seen, 4)
	for i, want := range []struct {
		token   string
		answers int
	}{{"v1", 0}, {"v1", 1}, {"v2", 1}, {"v2", 2}} {
		assert.Equal(t, want.token, seen[i].Token)
		assert.Len(t, seen[i].Answers, want.answers)
		assert.Equal(t, 1, seen[i].Version)
	}
}

// A call whose server could not say what it speaks continues once it can, with its arguments and its key.
func TestResumeAfterTheServerWasAway(t *testing.T) {
	t.Parallel()
	const speaks = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{%s}}`
	away := func(t *testing.T, replies ...reply) (*script, *client.Client) {
		s := play(t, append([]reply{cut}, replies...)...)
		c := client.New(&client.HTTP{URL: s.URL}, client.Options{Retries: -1})
		t.Cleanup(func() { _ = c.Close() })
		return s, c
	}
	for method, capabilities := range map[string]string{"tools/callSaga": `"experimental":{"io.github.mcpsaga/saga":{}}`, "tools/call": ""} {
		t.Run(method, func(t *testing.T) {
			replies := []reply{result(fmt.Sprintf(speaks, capabilities)), result(deployed)}
			if method == "tools/call" {
				replies = slices.Insert(replies, 1, result(`{"tools":[]}`)) // which says what headers it wants
			}
			s, c := away(t, replies...)
			_, err := c.Call(t.Context(), "complex_tool", map[string]any{"a": 1}, client.Handlers{})
			require.ErrorAs(t, err, new(*client.TransportError))
			position := throughJSON(t, interrupted(t, err))
			_, err = c.Cancel(t.Context(), position)
			require.ErrorContains(t, err, "the call has not begun")
			_, err = c.Resume(t.Context(), position, client.Handlers{})
			require.NoError(t, err)
			last := s.got()[len(s.got())-1]
			assert.Equal(t, method, last.Method)
			assert.Contains(t, string(last.Params), `"arguments":{"a":1}`)
			assert.Contains(t, string(last.Params), position.Key)
		})
	}
	t.Run("prompts/get", func(t *testing.T) {
		s, c := away(t, result(fmt.Sprintf(speaks, `"experimental":{"io.github.mcpsaga/saga":{}}`)), result(`{"messages":[]}`))
		_, err := c.GetPrompt(t.Context(), "p", map[string]string{"a": "b"}, client.Handlers{})
		require.ErrorAs(t, err, new(*client.TransportError))
		_, err = c.ResumePrompt(t.Context(), throughJSON(t, interrupted(t, err)), client.Handlers{})
		require.NoError(t, err)
		assert.Contains(t, string(s.got()[2].Params), `"arguments":{"a":"b"}`)
	})
	t.Run("still away", func(t *testing.T) {
		_, c := away(t, cut)
		_, err := c.Call(t.Context(), "x", nil, client.Handlers{})
		before := interrupted(t, err)
		_, err = c.Resume(t.Context(), before, client.Handlers{})
		require.ErrorAs(t, err, new(*client.TransportError))
		assert.Equal(t, before, interrupted(t, err))
	})
}

// A call is not resumed without the arguments that it was to have.
func TestResumeWithoutItsArguments(t *testing.T) {
	t.Parallel()
	c := play(t).client(t)
	_, err := c.Call(t.Context(), "x", []int{1}, client.Handlers{})
	require.ErrorContains(t, err, "must be a JSON object")
	_, err = c.Resume(t.Context(), throughJSON(t, interrupted(t, err)), client.Handlers{})
	require.ErrorAs(t, err, new(*client.PositionError))
}

func TestResumeRefusesWhatIsNoPosition(t *testing.T) {
	good := `{"version":1,"dialect":"saga","tool":"x","token":"v","round":1}`
	for name, text := range map[string]string{
		"empty":               `{}`,
		"newer":               `{"version":99,"dialect":"saga","tool":"x"}`,
		"other protocol":      `{"version":1,"dialect":"smoke","tool":"x"}`,
		"no protocol":         `{"version":1,"tool":"x","token":"v","round":1}`,
		"steps but no token":  `{"version":1,"dialect":"saga","tool":"x","steps":[{"stepId":"a"}]}`,
		"answer without both": `{"version":1,"dialect":"saga","tool":"x","token":"v","answers":[{"stepId":"a"}]}`,
		"two answers":         `{"version":1,"dialect":"saga","tool":"x","token":"v","answers":[{"stepId":"a","result":{}},{"stepId":"a","result":{}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			var p client.Position
			require.NoError(t, json.Unmarshal([]byte(text), &p))
			s := play(t)
			_, err := s.client(t).Resume(t.Context(), p, client.Handlers{})
			var bad *client.PositionError
			require.ErrorAs(t, err, &bad)
			t.Log(err)
		})
	}
	var p client.Position
	require.NoError(t, json.Unmarshal([]byte(good), &p))
	_, err := play(t, result(deployed)).client(t).Resume(t.Context(), p, client.Handlers{})
	require.NoError(t, err)
}

// A hostile server may ask as many steps as fit into a message. To compare each
// with each kept the client busy for minutes, deaf to its context.
func TestManyStepsAreCheckedInNoTime(t *testing.T) {
	var many strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&many, `{"type":"roots","stepId":"%06d"},`, i)
	}
	s := play(t, result(`{"state":"suspended","sagaToken":"v1","steps":[`+many.String()+`{"type":"roots","stepId":"099999"}]}`))
	c := client.New(&client.HTTP{URL: s.URL}, client.Options{Protocol: "saga", Limits: client.Limits{Steps: 1 << 20}})
	t.Cleanup(func() { _ = c.Close() })
	began := cputime.Used()
	_, err := c.Call(t.Context(), "x", nil, client.Handlers{})
	require.ErrorContains(t, err, `two steps with the id "099999"`)
	assert.Less(t, cputime.Used()-began, 5*time.Second)

	p := client.Position{Version: 1, Dialect: "saga", Tool: "x", Token: "v"}
	for i := range 100_000 {
		id := fmt.Sprintf("%06d", i)
		p.Steps = append(p.Steps, client.Step{StepID: id})
		p.Answers = append(p.Answers, client.Answer{StepID: id})
	}
	began = cputime.Used()
	assert.Empty(t, p.Pending())
	assert.Less(t, cputime.Used()-began, 5*time.Second)
}
