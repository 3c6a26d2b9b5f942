package gosdk

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The questions of one session and user are silenced, all that are under way; what is
// over is forgotten.
func TestQuestionsAreSilenced(t *testing.T) {
	var a asking
	ask := func(session, user string) (context.Context, func()) {
		ctx, silence := context.WithCancelCause(t.Context())
		return ctx, a.begin(sessionUser{session, user}, silence)
	}
	answered, done := ask("s", "u")
	first, doneFirst := ask("s", "u")
	second, doneSecond := ask("s", "u")
	others, doneOthers := ask("s", "v")
	elsewhere, doneElsewhere := ask("r", "u")
	done()
	a.silence("s", "u")
	assert.Equal(t, errSilent, context.Cause(first))
	assert.Equal(t, errSilent, context.Cause(second))
	for _, goesOn := range []context.Context{answered, others, elsewhere} {
		assert.NoError(t, goesOn.Err())
	}
	for _, done := range []func(){doneFirst, doneSecond, doneOthers, doneElsewhere} {
		done()
	}
	assert.Empty(t, a.questions, "nothing stays behind")
	a.silence("s", "u")
}
