package engine

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

// A tool that runs again is told of a failed effect in the same words, however long they are: it may
// have asked a question with them.
func TestFailuresAreToldInTheSameWords(t *testing.T) {
	cause := errors.New("at " + strings.Repeat("é", maxFailure))
	for name, refused := range map[string]bool{"refused": true, "unknown": false} {
		t.Run(name, func(t *testing.T) {
			var r EffectRecord
			err := r.fail(cause, refused)
			assert.ErrorIs(t, err, cause)
			assert.Equal(t, err.Error(), r.Failure().Error())
			assert.Less(t, len(err.Error()), maxFailure+10)
			assert.True(t, utf8.ValidString(err.Error()))
		})
	}
	short := errors.New("sold out")
	assert.Equal(t, short, new(EffectRecord).fail(short, true))
}
