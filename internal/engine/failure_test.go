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
			tc := &Turn{Context: t.Context(), mu: make(lock, 1)}
			err, over := tc.Failed(&r, cause, nil, refused)
			assert.NoError(t, over)
			assert.Equal(t, err.Error(), r.Failure(nil).Error())
			assert.Less(t, len(err.Error()), maxFailure+10)
			assert.True(t, utf8.ValidString(err.Error()))
		})
	}
}
