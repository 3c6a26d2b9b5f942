package hostile_test

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "measure the worst of all requests, in some minutes, and write docs/benchmarks/tables.md")

const tables = "../../docs/benchmarks/tables.md"

// section is what TestWorstRequests writes in tables.
var section = regexp.MustCompile(`(?s)<!-- bench:hostile -->\n(.*)\n<!-- /bench:hostile -->`)

// All requests are measured at two sizes, so that what grows faster than its size stands
// out, and the worst of each once more at the largest size that servers take. Without
// -update there are few requests, which are small, and the document stays.
func TestWorstRequests(t *testing.T) {
	const top = 12
	largest, times, wanted := 100_000, 3, func(name string) bool { return strings.HasPrefix(name, "saga, tools/callSaga, ask.arguments.any") }
	if *update {
		largest, times, wanted = 1_000_000, 100, nil
	}
	target, _ := newTarget(t)
	measure := func(size, times int, wanted func(string) bool) (costs []Cost) {
		for r := range target.Requests(size, wanted) {
			c, err := target.Measure(r, times)
			require.NoError(t, err)
			costs = append(costs, c)
		}
		return costs
	}
	first := slices.Concat(measure(largest/32, 1, wanted), measure(largest/4, 1, wanted))
	worst := slices.Concat(worstBy(first, top, 0), worstBy(first, top, 1))
	again := measure(largest, min(times, 3), func(name string) bool {
		return slices.ContainsFunc(worst, func(c Cost) bool { return c.Name == name })
	})
	base, err := Baseline(times)
	require.NoError(t, err)
	usual, usualBytes := base.PerByte()

	var b bytes.Buffer
	fmt.Fprintf(&b, "\nThe worst requests of %d KB; %s, %s/%s, %d CPUs (%s). To read usual JSON with encoding/json takes %.0f ms per MB here, and %.0f bytes per byte.\n",
		largest/1000, runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), processor(), usual, usualBytes)
	fmt.Fprintln(&b)
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	fmt.Fprint(w, "| request\t| bytes\t| ms of CPU per MB\t| of encoding/json\t| bytes allocated per byte\t|\n", "| --:\t| --:\t| --:\t| --:\t| --:\t|\n")
	shown := worstBy(again, top, 0)
	assert.Len(t, shown, top)
	for _, c := range shown {
		time, allocated := c.PerByte()
		fmt.Fprintf(w, "| %s\t| %d\t| %.0f\t| %.1f\t| %.0f\t|\n", c.Name, c.Size, time, time/usual, allocated)
	}
	require.NoError(t, w.Flush())
	t.Logf("\n%s", b.String())

	document, err := os.ReadFile(tables)
	require.NoError(t, err)
	place := section.FindSubmatchIndex(document)
	require.NotNil(t, place, "%s has no place for this", tables)
	if *update {
		require.NoError(t, os.WriteFile(tables, slices.Concat(document[:place[2]], b.Bytes(), document[place[3]:]), 0o644))
	}
}

// processor is the processor's name, where it can be known.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	if found := regexp.MustCompile(`model name\s*: (.*)`).FindSubmatch(text); found != nil {
		return string(found[1])
	}
	return "of unknown make"
}

// leastSize is how large a request must be to be compared by its bytes: every one
// costs something.
const leastSize = 8 << 10

// worstBy returns the requests that cost the most time per byte (0) or memory (1). Of one
// that there is in several dialects it has the worst.
func worstBy(costs []Cost, top, by int) []Cost {
	value := func(c Cost) float64 {
		time, memory := c.PerByte()
		return []float64{time, memory}[by]
	}
	costs = slices.SortedStableFunc(slices.Values(costs), func(a, b Cost) int { return cmp.Compare(value(b), value(a)) })
	seen := map[string]bool{}
	costs = slices.DeleteFunc(costs, func(c Cost) bool {
		_, what, _ := strings.Cut(c.Name, ", ")
		drop := seen[what] || c.Size < leastSize
		seen[what] = seen[what] || !drop
		return drop
	})
	return costs[:min(len(costs), top)]
}
