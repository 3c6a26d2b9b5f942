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
	worst := map[string]bool{}
	for _, c := range slices.Concat(worstBy(first, top, timePerByte), worstBy(first, top, memoryPerByte)) {
		worst[c.Name] = true
	}
	again := measure(largest, 3, func(name string) bool { return worst[name] })
	usual, usualBytes := base.PerByte()
	parts := []any{fmt.Sprintf("The worst requests of %d KB; %s. To read usual JSON with encoding/json takes %.0f ms per MB here, and %.0f bytes per byte.\n", largest/1000, where(), usual, usualBytes)}
	for _, by := range []func(hostile.Cost) float64{timePerByte, memoryPerByte} {
		t := newTable("request", "bytes", "ms of CPU per MB", "of encoding/json", "bytes allocated per byte")
		for _, c := range worstBy(again, top, by) {
			t.row("%s\t%d\t%.0f\t%.1f\t%.0f", c.Name, c.Size, timePerByte(c), timePerByte(c)/usual, memoryPerByte(c))
		}
		parts = append(parts, t)
	}
	m.section("hostile", parts...)
}

func timePerByte(c hostile.Cost) float64   { v, _ := c.PerByte(); return v }
func memoryPerByte(c hostile.Cost) float64 { _, v := c.PerByte(); return v }

// leastSize is how large a request must be to be compared by its bytes: every one
// costs something.
const leastSize = 8 << 10

// worstBy returns the requests that cost the most by a measure. Of one that there is in several
// dialects it has the worst.
func worstBy(costs []hostile.Cost, top int, by func(hostile.Cost) float64) (worst []hostile.Cost) {
	seen := map[string]bool{}
	for _, c := range slices.SortedStableFunc(slices.Values(costs), func(a, b hostile.Cost) int { return cmp.Compare(by(b), by(a)) }) {
		_, what, _ := strings.Cut(c.Name, ", ")
		if c.Size >= leastSize && !seen[what] && len(worst) < top {
			seen[what], worst = true, append(worst, c)
		}
	}
	return worst
}
