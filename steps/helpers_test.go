package steps_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/steps"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares got with a file in testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".json")
	if *update {
		require.NoError(t, os.WriteFile(path, append(got, '\n'), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got)+"\n")
}

// answers is a turn's answers, by step id.
type answers map[string]steps.Answer

func (a answers) StepAnswer(id string) (steps.Answer, bool) {
	answer, ok := a[id]
	return answer, ok
}

func result(id, doc string) answers {
	return answers{id: {StepID: id, Result: json.RawMessage(doc)}}
}

func mustStep(t testing.TB, a steps.Request) steps.Step {
	t.Helper()
	step, err := a.Step()
	require.NoError(t, err)
	return step
}

// Target is the form of the saga proposal.
type Target struct {
	Target string `json:"target"`
}

// Region is a closed set.
type Region string

func (Region) Choices() []steps.Choice {
	return []steps.Choice{{Value: "eu", Title: "Europe"}, {Value: "us"}}
}
