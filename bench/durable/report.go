package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
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

// against is the median of the ratios of one's samples to another's of the same rounds.
func against(a, b []sample, f func(sample) float64) float64 {
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = f(a[i]) / f(b[i])
	}
	return middle(ratios)
}

// peersOf are the others on a store, without the floor.
func peersOf(subjects []*subject, s *subject) (list []*subject) {
	for _, other := range subjects {
		if other.store == s.store && other.name != floor && other.name != s.name {
			list = append(list, other)
		}
	}
	return list
}

// compared shows a ratio to the best of several, in what has to be much or has to be little.
func compared(s *subject, others []*subject, i int, f func(sample) float64, much bool) string {
	if len(others) == 0 || s.name == floor {
		return ""
	}
	ratios := make([]float64, len(others))
	for j, o := range others {
		ratios[j] = against(s.loads[i], o.loads[i], f)
	}
	if much {
		return fmt.Sprintf("%.2f", slices.Min(ratios))
	}
	return fmt.Sprintf("%.2f", slices.Max(ratios))
}

func report(out io.Writer, p plan, subjects []*subject) {
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	row := func(cells ...any) {
		for _, c := range cells {
			fmt.Fprintf(w, "| %v\t", c)
		}
		fmt.Fprintln(w, "|")
	}
	row("store", "system", "in flight", "tasks/s", "× floor", "× best peer", "CPU/task ms", "× best peer's", "p50 ms", "× floor's")
	row("---", "---", "--:", "--:", "--:", "--:", "--:", "--:", "--:", "--:")
	for _, s := range subjects {
		var floors []*subject
		for _, other := range subjects {
			if other.store == s.store && other.name == floor {
				floors = []*subject{other}
			}
		}
		var peers []*subject
		if s.name == ours {
			peers = peersOf(subjects, s)
		}
		for i, callers := range inFlight {
			l := s.loads[i]
			row(s.store, s.name, callers, fmt.Sprintf("%.0f", each(l, rate)), compared(s, floors, i, rate, true), compared(s, peers, i, rate, true),
				fmt.Sprintf("%.3f", each(l, cpu)), compared(s, peers, i, cpu, false), fmt.Sprintf("%.2f", each(l, half)), compared(s, floors, i, half, false))
		}
	}
	w.Flush()
	if p.idle <= 0 && p.killed <= 0 {
		return
	}
	fmt.Fprintln(out)
	row("store", "system", "CPU ms in a second of nothing", "its own process's", "after kill -9 another process goes on")
	row("---", "---", "--:", "--:", "---")
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/float64(time.Millisecond)) }
	for _, s := range subjects {
		row(s.store, s.name, ms(s.idle.all), ms(s.idle.own), s.taken)
	}
	w.Flush()
}

// where says on what the figures were taken, and what is compared.
func where() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	model := append(regexp.MustCompile(`model name\s*: (.*)`).FindSubmatch(text), nil, nil)[1]
	var versions []string
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, d := range build.Deps {
			switch d.Path {
			case "github.com/dbos-inc/dbos-transact-golang", "github.com/riverqueue/river", "github.com/jackc/pgx/v5", "modernc.org/sqlite":
				versions = append(versions, d.Path+" "+d.Version)
			}
		}
	}
	return fmt.Sprintf("%s, %s/%s, %d CPUs (%s)\n%s", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), cmp.Or(string(model), "of unknown make"), strings.Join(versions, ", "))
}
