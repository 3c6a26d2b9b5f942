package steps_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/steps"
)

// fixed is an Ask that gives a step that others hold as well.
type fixed struct{ step steps.Step }

func (f fixed) Step() (steps.Step, error) { return f.step, nil }

// What is asked otherwise is added to copies: the steps given stay as they are.
func TestOtherwiseLeavesItsStepsAlone(t *testing.T) {
	second := &steps.Step{ID: "second"}
	first := fixed{steps.Step{ID: "first", Otherwise: second}}
	third := fixed{steps.Step{ID: "third"}}
	for range 2 {
		step, err := steps.Otherwise(first, third).Step()
		require.NoError(t, err)
		assert.Equal(t, "third", step.Otherwise.Otherwise.ID)
		assert.Nil(t, step.Otherwise.Otherwise.Otherwise)
		assert.Nil(t, second.Otherwise)
	}
}

// Changes are those that With was given, whatever becomes of the slice.
func TestChangesOfSamplesAreCopied(t *testing.T) {
	changes := []func(*steps.SampleRequest){steps.Promptf("first")}
	ask := advice.With(changes...)
	changes[0] = steps.Promptf("second")
	step, err := ask.Step()
	require.NoError(t, err)
	assert.Contains(t, string(step.Params), "first")
}

// An error about an instance names the instance.
func TestErrorsNameTheInstance(t *testing.T) {
	form := &steps.Form[Target]{ID: "f"}
	assert.EqualError(t, form.Nth(2).Verify(), `question "f#2": has no Message`)
	assert.EqualError(t, form.Verify(), `question "f": has no Message`)
}

// What a user chooses is no secret, whatever its name.
func TestChoicesAreNoSecrets(t *testing.T) {
	type form struct {
		Token string   `json:"token" enum:"bearer|basic"`
		PIN   bool     `json:"pin"`
		JWT   []string `json:"jwt" enum:"a|b"`
	}
	assert.NoError(t, (&steps.Form[form]{ID: "f", Message: "m"}).Verify())
}

func TestNeedsOfToolChoice(t *testing.T) {
	for _, r := range []steps.SampleRequest{{ToolChoice: "none"}, {Tools: []steps.SampleTool{{Name: "t"}}}} {
		assert.Equal(t, steps.Features{Sampling: true, SamplingTools: true}, r.Needs())
	}
	assert.Equal(t, steps.Features{Sampling: true}, (&steps.SampleRequest{}).Needs())
}

func TestRootsNeedAPath(t *testing.T) {
	q := &steps.RootsList{ID: "r"}
	for uri, ok := range map[string]bool{"file:///": true, "file:///a b": true, "file://host/a": true, "file://host": false, "file:": false, "file:a": false, "/a": false, "https://a/": false} {
		raw, err := json.Marshal(map[string]any{"roots": []any{map[string]string{"uri": uri}}})
		require.NoError(t, err)
		assert.Equal(t, ok, q.Check(steps.Step{ID: "r"}, raw) == nil, uri)
	}
}

// What a form shows at first has the type of its field, and must fit into it.
func TestDefaultsHaveTheTypeOfTheirField(t *testing.T) {
	type form struct {
		Count uint64  `json:"count" default:"7"`
		Share float64 `json:"share" default:"1.5"`
	}
	f := &steps.Form[form]{ID: "f", Message: "?"}
	s, err := f.Step()
	require.NoError(t, err)
	assert.Contains(t, string(s.Params), `"default":7`)
	assert.Contains(t, string(s.Params), `"default":1.5`)

	s, err = f.With(steps.Default("count", uint64(9))).Step()
	require.NoError(t, err)
	assert.Contains(t, string(s.Params), `"default":9`)
	_, err = f.With(steps.Default("count", uint64(math.MaxUint64))).Step()
	assert.ErrorContains(t, err, "default")
}
