package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/hostile"
	"github.com/mcpsaga/mcpsaga/server"
)

// searchHostile looks for the requests that cost a server the most: all are measured
// at two sizes, so that what grows faster than its size stands out, and the worst of
// each once more at the largest size that servers take.
func searchHostile(ctx context.Context, m measurement) {
	s := must(server.New(server.Options{Keys: must(codec.NewKeyset()), Tools: hostile.Definitions(), Logger: slog.New(slog.DiscardHandler)}))
	defer s.Close()
	target, base := must(hostile.NewTarget(s.Handler())), must(hostile.Baseline(100))
	largest, top := m.Int("largest"), m.Int("top")
	measure := func(size, times int, wanted func(string) bool) (costs []hostile.Cost) {
		for r := range target.Requests(size, wanted) {
			check(ctx.Err())
			costs = append(costs, must(target.Measure(r, times)))
		}
		return costs
	}
	first := slices.Concat(measure(largest/32, 1, nil), measure(largest/4, 1, nil))
	worst := slices.Concat(worstBy(first, top, 0), worstBy(first, top, 1))
	again := measure(largest, 3, func(name string) bool {
		return slices.ContainsFunc(worst, func(c hostile.Cost) bool { return c.Name == name })
	})
	usual, usualBytes := base.PerByte()
	parts := []any{fmt.Sprintf("The worst requests of %d KB; %s. To read usual JSON with encoding/json takes %.0f ms per MB here, and %.0f bytes per byte.\n", largest/1000, where(), usual, usualBytes)}
	for by := range 2 {
		t := newTable("request", "bytes", "ms of CPU per MB", "of encoding/json", "bytes allocated per byte")
		for _, c := range worstBy(again, top, by) {
			time, allocated := c.PerByte()
			t.row("%s\t%d\t%.0f\t%.1f\t%.0f", c.Name, c.Size, time, time/usual, allocated)
		}
		parts = append(parts, t)
	}
	m.section("hostile", parts...)
}

// leastSize is how large a request must be to be compared by its bytes: every one
// costs something.
const leastSize = 8 << 10

// worstBy returns the requests that cost the most time per byte (0) or memory (1). Of one
// that there is in several dialects it has the worst.
func worstBy(costs []hostile.Cost, top, by int) []hostile.Cost {
	value := func(c hostile.Cost) float64 {
		time, memory := c.PerByte()
		return []float64{time, memory}[by]
	}
	costs = slices.SortedStableFunc(slices.Values(costs), func(a, b hostile.Cost) int { return cmp.Compare(value(b), value(a)) })
	seen := map[string]bool{}
	costs = slices.DeleteFunc(costs, func(c hostile.Cost) bool {
		_, what, _ := strings.Cut(c.Name, ", ")
		drop := seen[what] || c.Size < leastSize
		seen[what] = seen[what] || !drop
		return drop
	})
	return costs[:min(len(costs), top)]
}
