package sagatest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mcpsaga/mcpsaga/internal/engine"
)

// broken is a rule that a tool has broken.
type broken struct {
	// rule is said as what ought to be.
	rule string
	// about tells cases of one rule apart that are to be reported separately.
	about string
	// what happened, and how to mend it.
	what, advice string
}

// reports remembers what was said, so that one mistake is explained once, however
// many scenarios it spoils.
type reports struct{ said map[string]string }

func (r *reports) report(t testing.TB, scenario string, b broken) {
	t.Helper()
	key := b.rule + "\x00" + b.about
	if first, ok := r.said[key]; ok {
		t.Errorf("sagatest: again a broken rule: %s\n  scenario: %s\n  explained at: %s", b.rule, scenario, first)
		return
	}
	if r.said == nil {
		r.said = make(map[string]string)
	}
	r.said[key] = scenario
	t.Errorf("sagatest: broken rule: %s\n  scenario: %s\n  what happened: %s\n  what to do: %s", b.rule, scenario, strings.ReplaceAll(b.what, "\n", "\n    "), b.advice)
}

// mistake recognises errors that only a faulty tool brings about.
func mistake(err error) (broken, bool) {
	var panicked *engine.PanicError
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case err == nil:
		return broken{}, false
	case errors.As(err, new(*engine.SwallowedError)):
		return broken{"a flow that has asked returns at once", "", text,
			"return every error of saga.Ask, r.AskAll and saga.Do where you get it, as it is or wrapped with %w: it may mean that the flow has to wait for an answer"}, true
	case errors.As(err, new(*engine.DivergedError)):
		return broken{"a flow does the same each time it runs", "", text,
			"take the time from r.Now(), ids from r.NewID() and random numbers from r.Rand(); do not range over a map; perform as an effect whatever looks at something that others may change"}, true
	case errors.As(err, &panicked):
		return broken{"a tool does not panic", text, text + "\n" + origin(panicked.Stack), "return an error instead"}, true
	case errors.Is(err, errGoexit):
		return broken{"a tool's code returns", "", text, "let the tool return an error, and check in the test"}, true
	case strings.Contains(text, "is not declared"), strings.Contains(text, "is another one than the tool's Asks have"):
		return broken{"what a tool asks and does is declared", text, text,
			"list the question in Asks, or the effect in Effects, of the tool's definition: the very variable, not a copy"}, true
	}
	return broken{}, false
}

// origin returns the lines of a stack that tell where a panic began.
func origin(stack []byte) string {
	_, rest, ok := strings.Cut(string(stack), "panic(")
	if !ok {
		return ""
	}
	lines := strings.SplitN(rest, "\n", 5)
	if len(lines) < 4 {
		return ""
	}
	return "in " + strings.TrimSpace(lines[2]) + "\n  " + strings.TrimSpace(lines[3])
}

// differ shows where two texts part.
func differ(want, got string) string {
	const around, most = 60, 400
	i := 0
	for i < len(want) && i < len(got) && want[i] == got[i] {
		i++
	}
	if i > around && max(len(want), len(got)) > most {
		want, got = "…"+want[i-around:], "…"+got[i-around:]
	}
	return fmt.Sprintf("\nexpected: %s\nbut is:   %s", short(want, most), short(got, most))
}

func short(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}
