package main

import (
	"bufio"
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/buildtest"
	"github.com/mcpsaga/mcpsaga/internal/longtests"
)

// most is how many files and functions of this module one request may run through: a turn of the
// saga proposal, and a whole call of MCP 2025-11-25 with two questions, which ends well or as the tool
// refuses. With a ledger, that is a turn with an effect, a call with one question that is answered after a
// while, the same with an effect, and a task with a question and an effect.
var most = map[string]struct{ files, functions int }{
	"resume":    {59, 227},
	"handshake": {86, 356},
	"refused":   {88, 364},

	// What works beside these requests, such as a renewal, differs a little from run to run.
	"resume with a ledger": {99, 390},
	"call with a ledger":   {124, 569},
	"effect with a ledger": {132, 617},
	"task with a ledger":   {116, 518},
}

// What a request runs through does not grow unnoticed. The test says how much it is:
//
//	SAGA_LONG=1 go test ./interop/pathcount -v
func TestPathsOfRequests(t *testing.T) {
	longtests.OnlyIfWanted(t, "builds everything once more")
	if testing.Short() {
		t.Skip("it builds everything once more")
	}
	const module = "github.com/mcpsaga/mcpsaga/"
	program := filepath.Join(t.TempDir(), "pathcount")
	run := func(name string, args ...string) []byte {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
		require.NoError(t, err, "%s %s: %s", name, args, out)
		return out
	}
	require.NoError(t, buildtest.Program(program, ".", "-cover", "-covermode=atomic", "-coverpkg="+module+"..."))
	for what, most := range most {
		dir := t.TempDir()
		run(program, what, dir, t.TempDir())
		profile := filepath.Join(t.TempDir(), "profile")
		run("go", "tool", "covdata", "textfmt", "-i", dir, "-o", profile)
		files, functions := make(map[string]int), 0
		for lines := bufio.NewScanner(bytes.NewReader(run("go", "tool", "cover", "-func", profile))); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if file, ours := strings.CutPrefix(fields[0], module); ours && fields[len(fields)-1] != "0.0%" && !strings.HasPrefix(file, "interop/pathcount/") {
				file, _, _ = strings.Cut(file, ":")
				files[file]++
				functions++
			}
		}
		t.Logf("%s: %d files, %d functions", what, len(files), functions)
		assert.NotZero(t, functions, what)
		assert.LessOrEqual(t, len(files), most.files, what)
		assert.LessOrEqual(t, functions, most.functions, what)
	}
}
