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
		servers[name] = func([]string) http.Handler {
			good := sagaServer(nil, complextool.Tool, roundsTool)
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
			p := point{operation: whole(d), connections: 1, servers: []*child{startChild(t.Context(), "", name)}}
			require.ErrorContains(t, try(func() { p.repeat(t.Context(), 3*turns) }), "a wrong answer")
		})
	}
}

// The curves send single turns again and again; those are checked as well.
func TestWrongAnswersFailInCurves(t *testing.T) {
	t.Parallel()
	good := startChild(t.Context(), "", "mcpsaga")
	p := point{operation: reach(good, proposal, "rounds", 3, 0, 0), connections: 1, servers: []*child{good}}
	again := func() { p.repeat(t.Context(), 3) }
	require.NoError(t, try(again))
	for _, name := range []string{"another id", "no token", "not JSON", "nothing but space", "not suspended"} {
		p.servers = []*child{startChild(t.Context(), "", name)}
		require.ErrorContains(t, try(again), "a wrong answer", name)
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

// run runs the program with a small load and returns what it prints.
func run(t *testing.T, args ...string) (string, error) {
	var out bytes.Buffer
	a := app()
	a.Writer = &out
	err := a.Run(t.Context(), append([]string{"bench", "--sagas", "5", "--rounds", "1", "--connections", "2"}, args...))
	return out.String(), err
}

func TestTablesGoIntoADocument(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "report.md")
	require.NoError(t, os.WriteFile(name, []byte("# Before\n\n<!-- bench:heap -->\nold\n<!-- /bench:heap -->\n\nAfter\n"), 0o600))
	out, err := run(t, "--into", name, "curves", "--suspended", "30", "heap")
	require.NoError(t, err)
	assert.Regexp(t, `\nheap: go1.*\n\n\| +suspended +\| +heap KB +\| +growth B +\| +peak MB +\|\n\| +--: +\| +--: +\| +--: +\| +--: +\|\n\| +0 +\| `, out)
	assert.Regexp(t, `\| +30 +\| `, out)
	document, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, "# Before\n\n<!-- bench:heap -->\n\n"+strings.TrimSpace(out)+"\n\n<!-- /bench:heap -->\n\nAfter\n", string(document))

	_, err = withSection(document, "size", nil)
	require.ErrorContains(t, err, "bench:size")
	_, err = run(t, "--into", name, "--base", "another")
	require.ErrorContains(t, err, "--base or --into")
}

// There is one place in the documents for everything that is measured.
func TestTheDocumentsHaveAllSections(t *testing.T) {
	documents, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	deeper, err := filepath.Glob("../docs/*/*.md")
	require.NoError(t, err)
	for _, section := range append(namesOf(append(growth, ledgerCurves...)), "compare") {
		places := 0
		for _, name := range append(documents, deeper...) {
			document, err := os.ReadFile(name)
			require.NoError(t, err)
			if _, err := withSection(document, section, nil); err == nil {
				places++
			}
		}
		assert.Equal(t, 1, places, section)
	}
}

// The base is another build of this program: here it is the same one.
func TestComparesAllContestants(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	out, err := run(t, "--base", self)
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
	assert.Regexp(t, `mcpsaga, saga: \d\.\d+ of the base's CPU time`, out)
	assert.Regexp(t, `mcpsaga answers \d+\.\d times`, out)
}

func TestCurves(t *testing.T) {
	t.Parallel()
	out, err := run(t, "curves", "--suspended", "300", "rounds", "replicas", "heap")
	require.NoError(t, err)
	for _, want := range []string{`machine +\| +mrtr`, `flow +\| +saga`, `(?m)^\| +4 +\|`, `(?m)^\| +300 +\|`} {
		assert.Regexp(t, want, out)
	}
	_, err = run(t, "curves", "no such")
	require.ErrorContains(t, err, "rounds, size, connections, replicas, heap")
}

func TestLedgerCurves(t *testing.T) {
	t.Parallel()
	out, err := run(t, "ledger", "--records", "8", "unused", "sqlite", "records")
	require.NoError(t, err)
	for _, want := range []string{
		`(?m)^\| +with +\| +mrtr +\|`, `turns of once +\| +\d+ +\| +\d+µs +\|`, `turns of acting over HTTP +\|`, `(?m)^\| +8 +\|`,
	} {
		assert.Regexp(t, want, out)
	}
}

// What a batch cannot do ends the run as a wrong answer does.
func TestBatchesThatFail(t *testing.T) {
	for _, b := range []http.Handler{
		batches(func(context.Context) { check(assert.AnError) }),
		turnServer([]string{"", "no such tool"}),
	} {
		l := httptest.NewServer(b)
		defer l.Close()
		err := try(func() { batch.do(clientOf(&child{work: l.Listener.Addr().String()}, 1)) })
		require.ErrorContains(t, err, "status 500")
	}
}

func TestEndsByItself(t *testing.T) {
	t.Parallel()
	_, err := run(t, "--sagas", "1000000", "--deadline", "300ms")
	require.ErrorIs(t, err, errDeadline)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, try(func() { startChild(ctx, "", "floor") }))
	_, err = run(t, "--sagas", "0")
	require.ErrorContains(t, err, "--sagas")
}

func TestTheSizesThatAreMeasuredFit(t *testing.T) {
	require.NoError(t, try(func() { reach(startChild(t.Context(), "", "mcpsaga"), proposal, "rounds", 3, largest, 1) }))
}

func TestSlope(t *testing.T) {
	assert.InDelta(t, 2.5, slope([]int{1, 2, 4}, map[int]float64{1: 12.5, 2: 15, 4: 20}), 1e-9)
}
