package engine

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/steps"
)

type wordedForm struct {
	Name string `json:"name"`
}

// TestDigestsPinTheWording: what is known in advance is what it would come to, however
// a question is asked.
func TestDigestsPinTheWording(t *testing.T) {
	name := &steps.Form[wordedForm]{ID: "name", Message: "Which?"}
	other := &steps.Form[wordedForm]{ID: "other", Message: "Which other?"}
	think := &steps.Sample{ID: "think", Request: steps.SampleRequest{MaxTokens: 9}}
	var p Problems
	tool := NewProgram(Definition{Name: "worded", Asks: []steps.Question{name, other, think}, Arguments: reflect.TypeFor[struct{}]()}, &p)
	require.NoError(t, p.Err())
	digests := map[[4]byte]bool{}
	same := func(q steps.Request, change func(*steps.Step)) {
		t.Helper()
		s, err := q.Step()
		require.NoError(t, err)
		change(&s)
		assert.Equal(t, digest(s.Params), tool.digest(&s), "%s %s", s.ID, s.Params)
		digests[tool.digest(&s)] = true
	}
	as := func(*steps.Step) {}
	same(name, as)
	same(name.Nth(1), as)
	same(name.Nth(1).Nth(2), as)
	same(name, func(s *steps.Step) { s.ID += "~2" })
	require.Len(t, digests, 1, "the same words")
	same(name.With(steps.Message("Which now?")), as)
	same(name.Nth(1).With(steps.Message("Which one?")), as)
	same(other, as)
	same(think.With(steps.Promptf("Well?")), as)
	require.Len(t, digests, 5)
	// Under the name of another question, and where somebody changes the words that all
	// steps of a form share.
	same(other, func(s *steps.Step) { s.ID = "name" })
	require.Len(t, digests, 5)
	same(name, func(s *steps.Step) { s.Params[len(s.Params)-2]++ })
	require.Len(t, digests, 6)
}
