package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain is the program itself where the tests start a server of it.
func TestMain(m *testing.M) {
	for name, spoil := range spoilers {
		servers[name] = func([]string) http.Handler {
			good := servers["mcpsaga"](nil)
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				rec := httptest.NewRecorder()
				good.ServeHTTP(rec, r)
				w.WriteHeader(rec.Code)
				w.Write([]byte(spoil(rec.Body.String())))
			})
		}
	}
	if os.Getenv(childMark) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// spoilers make good answers wrong.
var spoilers = map[string]func(string) string{
	"another id":        func(s string) string { return strings.Replace(s, `"id":`, `"id":1`, 1) },
	"another step":      func(s string) string { return strings.ReplaceAll(s, "step-sampling-B", "step-sampling-C") },
	"no token":          strings.NewReplacer(`"sagaToken"`, `"token"`, `"requestState"`, `"token"`).Replace,
	"another result":    func(s string) string { return strings.Replace(s, "initiated successfully", "refused", 1) },
	"an error at last":  func(s string) string { return strings.Replace(s, `"content":`, `"isError":true,"content":`, 1) },
	"not JSON":          func(s string) string { return s[:len(s)-1] },
	"an altered token":  strings.NewReplacer(`"sagaToken":"1`, `"sagaToken":"1A`, `"requestState":"1`, `"requestState":"1A`).Replace,
	"nothing but space": func(string) string { return " " },
	"not suspended":     strings.NewReplacer("suspended", "extended", "input_required", "complete").Replace,
}

func TestWrongAnswersFail(t *testing.T) { testWrongAnswers(t, proposal) }

func TestWrongAnswersOfTheOtherDialectFail(t *testing.T) { testWrongAnswers(t, mrtr) }

func testWrongAnswers(t *testing.T, d *dialect) {
	for name := range spoilers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := point{operation: whole(d), connections: 1, server: startChild(t.Context(), "", name)}
			require.ErrorContains(t, try(func() { p.repeat(t.Context(), 3*turns) }), "a wrong answer")
		})
	}
}

// small runs the program with a small load and returns what it prints.
func small(t *testing.T, args ...string) (string, error) {
	var out bytes.Buffer
	err := run(t.Context(), &out, append([]string{"-sagas", "5", "-rounds", "1", "-connections", "2", "-streams", "30"}, args...))
	return out.String(), err
}

// The base is another build of this program: here it is the same one.
func TestMeasuresAllBesideABase(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	out, err := small(t, "-base", self)
	require.NoError(t, err)
	for _, who := range contestants {
		assert.Regexp(t, `(?m)^\| *`+who.server+` +\| *`+who.name+` +\| *\d+\.\dµs`, out)
		then := `(?m)^\| *base of ` + who.server + ` +\| *` + who.name + ` +\| *\d+\.\dµs`
		if who.ours {
			assert.Regexp(t, then, out)
		} else {
			assert.NotRegexp(t, then, out)
		}
	}
	for _, want := range []string{
		`mcpsaga saga: \d\.\d+ of the base's CPU time`, `(?m)^\| +none +\|`, `(?m)^\| +base of sqlite +\|`, `sqlite: \d+\.\d+ of the base's CPU time`,
		`(?m)^\| +server +\| +streams +\| +heap kB each +\| +peak kB each +\|\n\| +--: +\| +--: +\| +--: +\| +--: +\|\n\| +mcpsaga +\| +30 +\| `,
		`(?m)^\| +base of mcpsaga +\| +30 +\|`,
	} {
		assert.Regexp(t, want, out)
	}
}

func TestEndsByItself(t *testing.T) {
	t.Parallel()
	_, err := small(t, "-sagas", "1000000", "-deadline", "300ms")
	require.ErrorIs(t, err, errDeadline)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, try(func() { startChild(ctx, "", "mcpsaga") }))
	_, err = small(t, "-sagas", "0")
	require.ErrorContains(t, err, "-sagas")
	_, err = small(t, "no such")
	require.ErrorContains(t, err, "turns, calls, streams")
}
