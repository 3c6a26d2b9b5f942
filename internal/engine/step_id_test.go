package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/steps"
)

func TestStepIDsTellRepetitionsApart(t *testing.T) {
	for repeat, id := range map[int]string{0: "go", 1: "go~2", 2: "go~3", 11: "go~12", 1000: "go~1001"} {
		p := pendingStep{id: "go", repeat: repeat}
		assert.Equal(t, id, p.stepID())
	}
}

// A question that has another id now is found by the old one, but asked by the new one only.
func TestRenamedQuestionsAreAskedByTheirPresentIDs(t *testing.T) {
	type form struct {
		Name string `json:"name"`
	}
	now := &steps.Form[form]{ID: "now", Message: "Who?"}
	tool := asking(now)
	tool.RenameQuestions(new(Problems), map[string]string{"old": "now"})
	assert.Same(t, tool.questions["now"], tool.questions["old"])
	turn := &Turn{mu: make(lock, 1), program: tool, Call: Call{Client: steps.AllFeatures()}}
	_, err := turn.Resolve([]steps.Request{now, now.Nth(2)}, nil)
	assert.NoError(t, err)
	_, err = turn.Resolve([]steps.Request{&steps.Form[form]{ID: "old", Message: "Who?"}}, nil)
	assert.ErrorContains(t, err, `question "old" is another one`)
}

func asking(questions ...steps.Question) *Program {
	t := &Program{Definition: Definition{Asks: questions}}
	t.checkQuestions(new(Problems))
	return t
}
