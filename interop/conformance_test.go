package interop

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// suite is the conformance suite's program.
const suite = "node_modules/@modelcontextprotocol/conformance/dist/index.js"

// requirements are what a server of one revision has to pass. Besides the
// scenarios that count, the suite runs some that are optional or new.
type requirements struct {
	revision          string
	scored, notScored int
}

var revisions = []requirements{
	{"2026-07-28", 37, 13},
	{"2025-11-25", 30, 3},
}

// skipped are the scenarios that the suite names and does not run, by revision.
var skipped = map[string][]string{"2026-07-28": {"tasks-status-notifications"}}

// TestConformance runs the official suite for both revisions against one running
// server. SAGA_CONFORMANCE_RUNS says how often in a row; default once.
func TestConformance(t *testing.T) {
	onlyIfWanted(t, "runs the official suite")
	t.Parallel()
	node := needNode(t)
	server := startHTTP(t)
	runs := 1
	if s := os.Getenv("SAGA_CONFORMANCE_RUNS"); s != "" {
		var err error
		runs, err = strconv.Atoi(s)
		require.NoError(t, err)
	}
	for run := range runs {
		for _, r := range revisions {
			t.Run(r.revision+" run "+strconv.Itoa(run+1), func(t *testing.T) { r.run(t, node, server.url()) })
		}
	}
}

func (r requirements) run(t *testing.T, node nodeTools, url string) {
	dir := t.TempDir()
	out, err := node.command(suite, "server", "--url", url, "--requirements", r.revision, "--output-dir", dir).CombinedOutput()
	if err != nil {
		t.Errorf("the suite: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the suite's output:\n%s", out)
		}
	})
	results := readResults(t, dir)
	scored, others, checks := tally{}, tally{}, 0
	var idle []string
	optional := notScored(string(out))
	for name, all := range results {
		passed := true
		for _, c := range all {
			switch c.Status {
			case "SUCCESS":
				checks++
			case "SKIPPED":
				idle = append(idle, name)
			case "FAILURE", "WARNING":
				passed = false
				t.Errorf("%s: %s: %s: %s %s", name, c.Status, c.ID, c.Description, c.ErrorMessage)
			}
		}
		switch {
		case slices.Contains(idle, name):
		case optional[name]:
			others.add(passed)
		default:
			scored.add(passed)
		}
	}
	t.Logf("%s: %v scored, %v of the others; %d checks", r.revision, scored, others, checks)
	assert.Equal(t, skipped[r.revision], idle, "the suite itself has changed")
	assert.Len(t, optional, r.notScored, "the suite itself has changed")
	assert.Len(t, results, r.scored+r.notScored, "the suite itself has changed")
	assert.Equal(t, tally{r.scored, r.scored}, scored)
	assert.Equal(t, tally{r.notScored - len(idle), r.notScored - len(idle)}, others)
}

type tally struct{ passed, of int }

func (c *tally) add(passed bool) {
	c.of++
	if passed {
		c.passed++
	}
}

func (c tally) String() string { return strconv.Itoa(c.passed) + "/" + strconv.Itoa(c.of) }

// check is one thing that a scenario checks, as the suite writes it to a file.
type check struct{ ID, Description, Status, ErrorMessage string }

// resultDir is the name of the directory with the results of one scenario.
var resultDir = regexp.MustCompile(`^server-(.+)-\d{4}-\d\d-\d\dT[0-9-]+Z$`)

func readResults(t *testing.T, dir string) map[string][]check {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	results := make(map[string][]check)
	for _, e := range entries {
		m := resultDir.FindStringSubmatch(e.Name())
		require.NotNil(t, m, e.Name())
		var all []check
		require.NoError(t, readJSON(filepath.Join(dir, e.Name(), "checks.json"), &all))
		results[m[1]] = all
	}
	return results
}

var notScoredLine = regexp.MustCompile(`(?m)^  \S+ (\S+) \([a-z-]+\)$`)

// notScored finds the scenarios that do not count: the suite lists them at the
// end of what it prints.
func notScored(out string) map[string]bool {
	names := make(map[string]bool)
	_, end, _ := strings.Cut(out, "\nNot scored for ")
	for _, m := range notScoredLine.FindAllStringSubmatch(end, -1) {
		names[m[1]] = true
	}
	return names
}
