package main

import (
	"cmp"
	"context"
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
	largest := m.Int("largest")
	worst := worstOf{kept: m.Int("top")}
	for _, size := range []int{largest / 32, largest / 4} {
		for r := range target.Requests(size, nil) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			cost, err := target.Measure(r, 1)
			if err != nil {
				fmt.Fprintln(m.Root().ErrWriter, err)
			}
			worst.add(cost)
		}
	}
	found := worstOf{kept: m.Int("top")}
	for r := range target.Requests(largest, worst.has) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		cost, err := target.Measure(r, 3)
		if err != nil {
			return err
		}
		found.add(cost)
	}
	return m.section("hostile", func(out io.Writer) error { return found.print(out, base, largest) })
}

// leastSize is how large a request must be to be compared by its bytes: every one
// costs something.
const leastSize = 8 << 10

// worstOf keeps the requests that cost the most per byte: of time, and of memory. Of
// one that there is in several dialects it keeps the worst.
type worstOf struct {
	kept        int
	cpu, memory []hostile.Cost
}

func (w *worstOf) add(c hostile.Cost) {
	if c.Size < leastSize {
		return
	}
	time := func(c hostile.Cost) float64 { v, _ := c.PerByte(); return v }
	bytes := func(c hostile.Cost) float64 { _, v := c.PerByte(); return v }
	w.cpu, w.memory = w.with(w.cpu, c, time), w.with(w.memory, c, bytes)
}

func (w *worstOf) with(list []hostile.Cost, c hostile.Cost, by func(hostile.Cost) float64) []hostile.Cost {
	_, what, _ := strings.Cut(c.Name, ", ")
	same := func(o hostile.Cost) bool { _, is, _ := strings.Cut(o.Name, ", "); return is == what }
	if i := slices.IndexFunc(list, same); i < 0 {
		list = append(list, c)
	} else if by(list[i]) < by(c) {
		list[i] = c
	}
	slices.SortStableFunc(list, func(a, b hostile.Cost) int { return cmp.Compare(by(b), by(a)) })
	return list[:min(len(list), w.kept)]
}

func (w *worstOf) has(name string) bool {
	is := func(c hostile.Cost) bool { return c.Name == name }
	return slices.ContainsFunc(w.cpu, is) || slices.ContainsFunc(w.memory, is)
}

func (w *worstOf) print(out io.Writer, base hostile.Cost, largest int) error {
	usual, usualBytes := base.PerByte()
	fmt.Fprintf(out, "The worst requests of %d KB; %s. To read usual JSON with encoding/json takes %.0f ms per MB here, and %.0f bytes per byte.\n\n", largest/1000, where(), usual, usualBytes)
	for _, list := range [][]hostile.Cost{w.cpu, w.memory} {
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
}
