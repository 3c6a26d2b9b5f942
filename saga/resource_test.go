package saga_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
)

type pathArgs struct {
	Path string `json:"path"`
}

func templated(t *testing.T, template string) *saga.Tools {
	t.Helper()
	set, err := saga.NewTools(saga.Resource[pathArgs, struct{}]{
		Name: "r", Template: template,
		Start: func(_ context.Context, t *saga.Turn[pathArgs, struct{}]) (saga.Next, error) {
			return t.Contents(saga.Contents{Text: t.Args.Path})
		},
	})
	require.NoError(t, err)
	return set
}

// Matching a template takes time that grows with the square of a URI's length if
// it holds many separators of lists: some hours for one of a mebibyte.
func TestHostileURIsAreMatchedInNoTime(t *testing.T) {
	for _, template := range []string{"file:///{path}", "file:///{+path}", "file://{/path*}", "file:///{?path*}", "file:///{path:99}"} {
		set := templated(t, template)
		for _, unit := range []string{"a", ",", "a,", "/", "/a", "&path=", ";", "%41", "%2C", ".", "é"} {
			// The second is the most that is looked at.
			for _, n := range []int{1 << 20, 2000} {
				uri := "file:///" + strings.Repeat(unit, n/len(unit))
				began := time.Now()
				set.At(uri)
				assert.Less(t, time.Since(began), 500*time.Millisecond, "%s, %d bytes of %q", template, n, unit)
			}
		}
	}
}

// A variable that the URI fills with a list must not come out empty.
func TestVariablesWithCommas(t *testing.T) {
	for _, template := range []string{"file:///{path}", "file:///{+path}"} {
		r, variables := templated(t, template).At("file:///a,b%2Cc")
		require.NotNil(t, r)
		assert.Equal(t, map[string]string{"path": "a,b,c"}, variables, template)
	}
}
