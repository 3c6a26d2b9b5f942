package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// middle returns the median.
func middle[T cmp.Ordered](list []T) T {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

func each(list []sample, f func(sample) float64) float64 {
	values := make([]float64, len(list))
	for i, s := range list {
		values[i] = f(s)
	}
	return middle(values)
}

// What samples are compared by.
func rate(s sample) float64 { return s.rate }
func cpu(s sample) float64  { return s.cpu.Seconds() * 1000 }
func half(s sample) float64 { return s.half.Seconds() * 1000 }

// best compares a system with the others on its store. It returns the smallest of the medians of the
// ratios in each round, or the largest if small figures are the good ones. It is 0 if there are none.
func best(s *subject, subjects []*subject, i int, f func(sample) float64, smallIsGood bool) (found float64) {
	for _, other := range subjects {
		if other.store != s.store || other.name == s.name {
			continue
		}
		ratios := make([]float64, len(s.loads[i]))
		for round, one := range s.loads[i] {
			ratios[round] = f(one) / f(other.loads[i][round])
		}
		if ratio := middle(ratios); found == 0 || (ratio > found) == smallIsGood {
			found = ratio
		}
	}
	return found
}

func report(out io.Writer, p plan, subjects []*subject) {
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	row := func(cells ...any) {
		for _, c := range cells {
			fmt.Fprintf(w, "| %v\t", c)
		}
		fmt.Fprintln(w, "|")
	}
	row("store", "system", "in flight", "tasks/s", "× best peer", "CPU/task ms", "× best peer's", "p50 ms")
	row("---", "---", "--:", "--:", "--:", "--:", "--:", "--:")
	for _, s := range subjects {
		for i, callers := range inFlight {
			l, rates, cpus := s.loads[i], "", ""
			if ratio := best(s, subjects, i, rate, false); s.name == ours && ratio > 0 {
				rates = fmt.Sprintf("%.2f", ratio)
				cpus = fmt.Sprintf("%.2f", best(s, subjects, i, cpu, true))
			}
			row(s.store, s.name, callers, fmt.Sprintf("%.0f", each(l, rate)), rates, fmt.Sprintf("%.3f", each(l, cpu)), cpus, fmt.Sprintf("%.2f", each(l, half)))
		}
	}
	w.Flush()
	if p.idle <= 0 {
		return
	}
	fmt.Fprintln(out)
	row("store", "system", "CPU ms in a second of nothing", "its own process's")
	row("---", "---", "--:", "--:")
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/float64(time.Millisecond)) }
	for _, s := range subjects {
		row(s.store, s.name, ms(s.idle.all), ms(s.idle.own))
	}
	w.Flush()
}
