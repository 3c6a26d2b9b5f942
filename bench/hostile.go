package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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
func searchHostile(ctx context.Context, m measurement) error {
	keys, err := codec.NewKeyset()
	if err != nil {
		return err
	}
	s, err := server.New(server.Options{Keys: keys, Tools: hostile.Definitions(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer s.Close()
	target, err := hostile.NewTarget(s.Handler())
	if err != nil {
		return err
	}
	base, err := hostile.Baseline(100)
	if err != nil {
		return err
	}
	largest, top := m.Int("largest"), m.Int("top")
	var worst, found worstOf
	var failed error
	measure := func(into *worstOf, size, times int, wanted func(string) bool) {
		for r := range target.Requests(size, wanted) {
			if ctx.Err() != nil {
				return
			}
			cost, err := target.Measure(r, times)
			if err != nil {
				failed = errors.Join(failed, err)
				continue
			}
			into.add(cost, top)
		}
	}
	measure(&worst, largest/32, 1, nil)
	measure(&worst, largest/4, 1, nil)
	measure(&found, largest, 3, worst.has)
	if err := errors.Join(failed, ctx.Err()); err != nil {
		return err
	}
	return m.section("hostile", func(out io.Writer) error {
		usual, usualBytes := base.PerByte()
		fmt.Fprintf(out, "The worst requests of %d KB; %s. To read usual JSON with encoding/json takes %.0f ms per MB here, and %.0f bytes per byte.\n\n", largest/1000, where(), usual, usualBytes)
		for _, list := range found {
			t := newTable("request", "bytes", "ms of CPU per MB", "of encoding/json", "bytes allocated per byte")
			for _, c := range list {
				time, allocated := c.PerByte()
				t.row("%s\t%d\t%.0f\t%.1f\t%.0f", c.Name, c.Size, time, time/usual, allocated)
			}
			if err := t.print(out); err != nil {
				return err
			}
		}
		return nil
	})
}

// leastSize is how large a request must be to be compared by its bytes: every one
// costs something.
const leastSize = 8 << 10

// worstOf has the requests that cost the most per byte: of time, and of memory. Of
// one that there is in several dialects it has the worst.
type worstOf [2][]hostile.Cost

func (w *worstOf) add(c hostile.Cost, kept int) {
	what := func(c hostile.Cost) string { _, what, _ := strings.Cut(c.Name, ", "); return what }
	for i := range w {
		by := func(c hostile.Cost) float64 {
			time, memory := c.PerByte()
			return []float64{time, memory}[i]
		}
		at := slices.IndexFunc(w[i], func(o hostile.Cost) bool { return what(o) == what(c) })
		switch {
		case c.Size < leastSize:
		case at < 0:
			w[i] = append(w[i], c)
		case by(w[i][at]) < by(c):
			w[i][at] = c
		}
		slices.SortStableFunc(w[i], func(a, b hostile.Cost) int { return cmp.Compare(by(b), by(a)) })
		w[i] = w[i][:min(len(w[i]), kept)]
	}
}

func (w *worstOf) has(name string) bool {
	return slices.ContainsFunc(slices.Concat(w[0], w[1]), func(c hostile.Cost) bool { return c.Name == name })
}
