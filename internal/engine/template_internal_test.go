package engine

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/yosida95/uritemplate/v3"
)

// byLibrary is what the library that reads templates finds in a URI.
func byLibrary(t testing.TB, template, uri string) (map[string]string, bool) {
	parsed, err := uritemplate.New(template)
	require.NoError(t, err)
	values := parsed.Match(uri)
	if values == nil {
		return nil, false
	}
	found := make(map[string]string, len(values))
	for name, v := range values {
		found[name] = strings.Join(v.V, ",")
	}
	return found, true
}

var matchedTemplates = []string{
	"n://{a}", "n://{a}/{b}", "n://{a,b}", "n://{a,b*}", "n://{+a}", "n://{+a}/x{#b}", "n://x{.a}", "n://x{.a*}", "n://x{.a,b}{/c*}",
	"n://{/a}", "n://{/a*}", "n://{/a,b}", "n:{;a}", "n:{;a,b}", "n:{;a*}", "n:{?a}", "n:{?a,b}", "n:{?a*}", "n:{?a*,b}", "n:x?z=1{&a,b*}",
	"n://{a}é{b*}z", "n://{a_1}{a_1}", "n://{%41}", "n", "n://(x)[{a}]",
}

// FuzzTemplate compares with the library.
func FuzzTemplate(f *testing.F) {
	for i := range matchedTemplates {
		for _, uri := range []string{
			"n://", "n", "n://a", "n://a/b", "n://a,b,c", "n://a%2Cb", "n://x#y", "n://x/x#y,z", "n://x.a.b,c", "n://x/a/b", "n:///a/b", "n:;a", "n:;a=1,2;b",
			"n:;a;a=;a=2", "n:?a=&b=", "n:?a=1&a=2&b=3", "n:?a", "n:x?z=1&a=%41&b=x&b=y", "n://aéb,cz", "n://ab", "n://(x)[y]", "n:///", "n://x../y", "n:?a=1,2&b=,",
			"n://\n", "n://a\n", "n://%4", "n://%zz", "n:?a=1&", "n:?&a=1",
		} {
			f.Add(i, uri)
		}
	}
	f.Fuzz(func(t *testing.T, i int, uri string) {
		if i < 0 || i >= len(matchedTemplates) || len(uri) > 60 {
			return
		}
		template := matchedTemplates[i]
		ours, err := newURITemplate(template)
		require.NoError(t, err)
		want, fits := byLibrary(t, template, uri)
		got, ok := ours.match(uri)
		require.Equal(t, fits, ok, "%s in %s", uri, template)
		require.Equal(t, want, got, "%q in %s", uri, template)
		require.Equal(t, fits, ours.pattern.MatchString(uri))
	})
}

// No resource gets what is no text.
func TestVariablesAreText(t *testing.T) {
	template, err := newURITemplate("notes://{id}")
	require.NoError(t, err)
	r := &ResourceInfo{URI: "notes://{id}", Template: true, template: template}
	for uri, want := range map[string]bool{"notes://%c3%a4": true, "notes://%ff": false, "notes://a%ed%a0%80": false} {
		_, ok := r.Match(uri)
		require.Equal(t, want, ok, uri)
	}
}
