package gosdk

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The calls of one session and user are ended, all that are under way; what is over is forgotten.
func TestCallsEndWithTheirSession(t *testing.T) {
	var a openCalls
	call := func(session, user string) (context.Context, func()) {
		ctx, hangUp := context.WithCancelCause(t.Context())
		return ctx, a.begin(sessionUser{session, user}, hangUp)
	}
	over, done := call("s", "u")
	first, doneFirst := call("s", "u")
	second, doneSecond := call("s", "u")
	others, doneOthers := call("s", "v")
	elsewhere, doneElsewhere := call("r", "u")
	done()
	a.hangUp("s", "u")
	assert.Equal(t, errEnded, context.Cause(first))
	assert.Equal(t, errEnded, context.Cause(second))
	for _, goesOn := range []context.Context{over, others, elsewhere} {
		assert.NoError(t, goesOn.Err())
	}
	for _, done := range []func(){doneFirst, doneSecond, doneOthers, doneElsewhere} {
		done()
	}
	for range a.all.Range {
		t.Error("nothing stays behind")
	}
	a.hangUp("s", "u")
}
