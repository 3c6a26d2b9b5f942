package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// event is one of those that go doc test2json describes.
type event struct {
	Action, Package, Test, Output string
}

// report shows what go test would show by itself, and counts.
type report struct {
	out     io.Writer
	passed  int
	failed  int
	skipped map[string]int       // by reason
	said    map[[2]string][]byte // by tests that have not ended, and their packages
}

func newReport(out io.Writer) *report {
	return &report{out: out, skipped: map[string]int{}, said: map[[2]string][]byte{}}
}

// read takes events as they come. Lines that are no events are shown.
func (r *report) read(events io.Reader) error {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		switch {
		case len(line) == 0:
		case json.Unmarshal(line, &e) != nil:
			_, _ = r.out.Write(line)
		default:
			r.take(e)
		}
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (r *report) take(e event) {
	test := [2]string{e.Package, e.Test}
	switch {
	case e.Action == "build-output", e.Action == "output" && e.Test == "":
		if e.Output != "PASS\n" && !strings.HasSuffix(e.Output, "[no test files]\n") {
			_, _ = io.WriteString(r.out, e.Output)
		}
	case e.Action == "output":
		r.said[test] = append(r.said[test], e.Output...)
	case e.Action == "fail" && e.Test == "":
		// A panic, or the end of its time, leaves tests that have not ended.
		for _, t := range slices.SortedFunc(maps.Keys(r.said), func(a, b [2]string) int { return cmp.Compare(a[1], b[1]) }) {
			if t[0] == e.Package {
				_, _ = r.out.Write(r.said[t])
				delete(r.said, t)
			}
		}
		r.failed++
	case e.Test == "":
	case e.Action == "pass", e.Action == "fail", e.Action == "skip":
		switch e.Action {
		case "pass":
			r.passed++
		case "fail":
			r.failed++
			_, _ = r.out.Write(r.said[test])
		case "skip":
			r.skipped[reason(r.said[test])]++
		}
		delete(r.said, test)
	}
}

var logged = regexp.MustCompile(`(?m)^ +\S+\.go:\d+: (.*)$`)

// reason is what a test has said last before it was skipped.
func reason(said []byte) string {
	all := logged.FindAllSubmatch(said, -1)
	if len(all) == 0 {
		return "it does not say why"
	}
	return string(all[len(all)-1][1])
}

// wanting is in the reasons of tests that want a program, or to be asked for.
var wanting = regexp.MustCompile(`is not installed|\.ci/(debian|node)|SAGA_LONG=1`)

// close writes the summary, and reports whether all tests have run that can be had by programs that
// the repository installs, and by asking.
func (r *report) close() (complete bool) {
	skipped := 0
	reasons := slices.SortedFunc(maps.Keys(r.skipped), func(a, b string) int {
		return cmp.Or(r.skipped[b]-r.skipped[a], strings.Compare(a, b))
	})
	complete = true
	for i, why := range reasons {
		if i == 0 {
			_, _ = fmt.Fprintln(r.out, "\nLeft out:")
		}
		_, _ = fmt.Fprintf(r.out, "%6d  %s\n", r.skipped[why], why)
		skipped += r.skipped[why]
		complete = complete && !wanting.MatchString(why)
	}
	if !complete {
		_, _ = fmt.Fprintln(r.out, "\nTo have them: .ci/debian and .ci/node install other people's programs, and SAGA_LONG=1 runs what takes long.")
	}
	_, _ = fmt.Fprintf(r.out, "\n%d passed, %d failed, %d skipped\n", r.passed, r.failed, skipped)
	return complete
}
