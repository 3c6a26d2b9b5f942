package saga_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/cputime"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
)

type pathArgs struct {
	Path string `json:"path"`
}

func templated(t testing.TB, template string) *engine.Registry {
	t.Helper()
	set, err := engine.NewRegistry(saga.Resource[pathArgs, struct{}]{
		Machine: saga.Machine[pathArgs, struct{}]{
			Info: saga.Info{Name: "r"},
			Start: func(t *saga.Turn[pathArgs, struct{}]) (saga.Next, error) {
				return t.Contents(content.ResourceContents{Text: t.Args.Path})
			},
		},
		Template: template,
	})
	require.NoError(t, err)
	return set
}

// To match a template takes time that grows with a URI's length alone, whatever is in
// it: a client may ask for a thousand of them at once.
func TestHostileURIsAreMatchedInNoTime(t *testing.T) {
	for _, template := range []string{"file:///{path}", "file:///{+path}", "file://{/path*}", "file:///{?path*}", "file:///{path}{+path}{.path*}{/path*}"} {
		set := templated(t, template)
		for _, unit := range []string{"a", ",", "a,", "/", "/a", "&path=", ";", "%41", "%2C", ".", "é"} {
			// The second is the most that is looked at.
			for _, n := range []int{1 << 20, 2000} {
				uri := "file:///" + strings.Repeat(unit, n/len(unit))
				used := time.Hour
				for range 5 { // the collector may have been at work
					began := cputime.Used()
					set.At(uri)
					set.Serves(uri)
					if used = min(used, cputime.Used()-began); used < 100*time.Millisecond {
						break
					}
				}
				assert.Less(t, used, 100*time.Millisecond, "%s, %d bytes of %q", template, n, unit)
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

func TestTemplatesThatCutTheirVariablesAreRefused(t *testing.T) {
	_, err := engine.NewRegistry(saga.Resource[pathArgs, struct{}]{
		Machine: saga.Machine[pathArgs, struct{}]{
			Info:  saga.Info{Name: "r"},
			Start: func(t *saga.Turn[pathArgs, struct{}]) (saga.Next, error) { return t.Contents() },
		},
		Template: "file:///{path:3}",
	})
	var definition *saga.DefinitionError
	require.ErrorAs(t, err, &definition)
	assert.ErrorContains(t, err, "a variable with a length")
}

func TestServes(t *testing.T) {
	set := templated(t, "file:///{path}")
	for uri, want := range map[string]bool{"file:///a": true, "file:///": true, "file:///a/b": false, "": false, "file:///" + strings.Repeat("a", 2041): false} {
		assert.Equal(t, want, set.Serves(uri), uri)
		found, _ := set.At(uri)
		assert.Equal(t, want, found != nil, uri)
	}
}

// BenchmarkMatch measures the longest URI that is matched.
func BenchmarkMatch(b *testing.B) {
	for _, template := range []string{"file:///{path}", "file:///{+path}", "file://{/path*}", "file:///{path}{+path}{.path*}{/path*}"} {
		set := templated(b, template)
		for _, unit := range []string{"a", "a,", "/a", "%41"} {
			uri := "file:///" + strings.Repeat(unit, 2000/len(unit))
			b.Run(template+" "+unit, func(b *testing.B) {
				b.SetBytes(int64(len(uri)))
				for b.Loop() {
					set.Serves(uri)
				}
			})
		}
	}
}
