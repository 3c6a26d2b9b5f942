package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/complextool"
)

// TestMain is the program itself where the tests start a server of it.
func TestMain(m *testing.M) {
	for name, spoil := range spoilers {
		servers[name] = func([]string) (http.Handler, error) {
			good, err := sagaServer(nil, complextool.Tool)
			return spoiled(good, spoil), err
		}
		servers["rounds, "+name] = func([]string) (http.Handler, error) {
			good, err := sagaServer(nil, roundsTool)
			return spoiled(good, spoil), err
		}
	}
	if os.Getenv(childMark) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// spoilers make good answers of the saga dialect wrong.
var spoilers = map[string]func(string) string{
	"another id":        func(s string) string { return strings.Replace(s, `"id":`, `"id":1`, 1) },
	"another step":      func(s string) string { return strings.Replace(s, "step-sampling-B", "step-sampling-C", 1) },
	"no token":          func(s string) string { return strings.Replace(s, `"sagaToken"`, `"token"`, 1) },
	"another result":    func(s string) string { return strings.Replace(s, "initiated successfully", "refused", 1) },
	"an error at last":  func(s string) string { return strings.Replace(s, `"content":`, `"isError":true,"content":`, 1) },
	"not JSON":          func(s string) string { return s[:len(s)-1] },
	"an altered token":  func(s string) string { return strings.Replace(s, `"sagaToken":"1`, `"sagaToken":"1A`, 1) },
	"nothing but space": func(string) string { return " " },
	"not suspended":     func(s string) string { return strings.Replace(s, "suspended", "extended", 1) },
}

func spoiled(good http.Handler, spoil func(string) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		good.ServeHTTP(rec, r)
		w.WriteHeader(rec.Code)
		w.Write([]byte(spoil(rec.Body.String())))
	})
}

func TestWrongAnswersFail(t *testing.T) {
	for name := range spoilers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := measureOne(t.Context(), contestant{name, &sagaWork}, 3, 1)
			require.Error(t, err)
		})
	}
}

func TestWrongAnswersOfTheOtherDialectFail(t *testing.T) {
	for _, name := range []string{"another id", "another step", "another result", "an error at last", "not JSON", "nothing but space"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := measureOne(t.Context(), contestant{name, &mrtrWork}, 3, 1)
			require.Error(t, err)
		})
	}
}

// The curves send single turns again and again; those are checked as well.
func TestWrongAnswersFailInCurves(t *testing.T) {
	good, err := startChild(t.Context(), "mcpsaga")
	require.NoError(t, err)
	defer good.stop()
	turn, err := reach(good, "saga", "rounds", 3, 0, 0)
	require.NoError(t, err)
	_, err = repeat(t.Context(), 3, 1, turn.once, good)
	require.NoError(t, err)
	for _, name := range []string{"another id", "not JSON", "nothing but space", "not suspended"} {
		bad, err := startChild(t.Context(), "rounds, "+name)
		require.NoError(t, err)
		defer bad.stop()
		_, err = repeat(t.Context(), 3, 1, turn.once, bad)
		require.ErrorContains(t, err, "a wrong answer", name)
	}
}

func TestLoadStaysOnThisMachine(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:80": true, "127.9.9.9:1": true, "[::1]:80": true,
		"0.0.0.0:80": false, "[::]:80": false, "10.0.0.1:80": false, "localhost:80": false, "example.com:80": false, "": false,
	} {
		assert.Equal(t, want, onThisMachine(address), address)
	}
}

func TestMarkdown(t *testing.T) {
	out, err := run(t, "--sagas", "5", "--rounds", "1", "--markdown", "curves", "--suspended", "30", "heap")
	require.NoError(t, err)
	assert.Regexp(t, `\nheap: go1.*\n\n\| suspended \| heap KB \| growth B \| peak MB \|\n\|--:\|--:\|--:\|--:\|\n\| 0 \| `, out)
}

func TestTablesGoIntoADocument(t *testing.T) {
	name := filepath.Join(t.TempDir(), "report.md")
	require.NoError(t, os.WriteFile(name, []byte("# Before\n\n<!-- bench:heap -->\nold\n<!-- /bench:heap -->\n\nAfter\n"), 0o600))
	out, err := run(t, "--sagas", "5", "--rounds", "1", "--into", name, "curves", "--suspended", "30", "heap")
	require.NoError(t, err)
	document, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, "# Before\n\n<!-- bench:heap -->\n\n"+strings.TrimSpace(out)+"\n\n<!-- /bench:heap -->\n\nAfter\n", string(document))
	assert.Contains(t, out, "| 30 | ")

	_, err = run(t, "--sagas", "5", "--rounds", "1", "--into", name, "curves", "size")
	require.ErrorContains(t, err, "bench:size")
}

// The document in this repository has a place for everything that is measured.
func TestTheDocumentHasAllSections(t *testing.T) {
	document, err := os.ReadFile("../docs/benchmarks/tables.md")
	require.NoError(t, err)
	for _, name := range append(strings.Split(curveNames, ", "), "compare") {
		_, err := withSection(document, name, nil)
		assert.NoError(t, err)
	}
}

// run runs the program and returns what it prints.
func run(t *testing.T, args ...string) (string, error) {
	var out bytes.Buffer
	a := app()
	a.Writer = &out
	err := a.Run(t.Context(), append([]string{"bench"}, args...))
	return out.String(), err
}

func TestComparesAllContestants(t *testing.T) {
	out, err := run(t, "--sagas", "50", "--rounds", "1")
	require.NoError(t, err)
	for _, who := range contestants {
		assert.Regexp(t, `(?m)^ *`+who.server+` +`+who.work.name+` +\d+\.\dµs`, out)
	}
	assert.Regexp(t, `mcpsaga answers \d+\.\d times`, out)
}

func TestCurves(t *testing.T) {
	out, err := run(t, "--sagas", "5", "--rounds", "1", "--connections", "2", "curves", "--suspended", "300", "rounds", "replicas", "heap")
	require.NoError(t, err)
	for _, want := range []string{`machine +mrtr`, `flow +saga`, `(?m)^ +4 `, `(?m)^ +300 `} {
		assert.Regexp(t, want, out)
	}
	_, err = run(t, "curves", "no such")
	require.ErrorContains(t, err, curveNames)
}

func TestEndsByItself(t *testing.T) {
	_, err := run(t, "--sagas", "1000000", "--deadline", "300ms")
	require.ErrorIs(t, err, errDeadline)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = measureOne(ctx, contestants[0], 1, 1)
	require.Error(t, err)
	_, err = run(t, "--sagas", "0")
	require.ErrorContains(t, err, "--sagas")
}

func TestTheSizesThatAreMeasuredFit(t *testing.T) {
	ours, alone, token, err := sealing(prose(largest), 1)
	require.NoError(t, err)
	assert.Positive(t, ours)
	assert.Positive(t, alone)
	assert.Positive(t, token)
}

func TestSlope(t *testing.T) {
	assert.InDelta(t, 2.5, slope([]int{1, 2, 4}, map[int]float64{1: 12.5, 2: 15, 4: 20}), 1e-9)
}
