package sagatest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/steps"
)

// script finds answers by question and by how often it was asked, not by what was
// taken so far: so a client in a sweep can go back to an earlier point.
type script struct {
	answers map[string][]Answer
	used    map[string]int
}

func newScript(answers []Answer) *script {
	s := &script{answers: make(map[string][]Answer), used: make(map[string]int)}
	for _, a := range answers {
		s.answers[a.question] = append(s.answers[a.question], a)
	}
	return s
}

// find returns the n-th answer to a question. An answer to a question without its
// instance is for all its instances.
func (s *script) find(question string, n int) (Answer, bool) {
	for _, id := range []string{question, ident.Base(question)} {
		list := s.answers[id]
		i := n
		if always := slices.IndexFunc(list, func(a Answer) bool { return a.always }); always >= 0 {
			i = min(n, always)
		}
		if i < len(list) {
			s.used[id] = max(s.used[id], i+1)
			return list[i], true
		}
	}
	return Answer{}, false
}

// lack explains that there is no answer.
func (s *script) lack(a Asked) string {
	said := a.Message()
	if len(said) > 300 {
		said = said[:300] + "…"
	}
	how := fmt.Sprintf("sagatest.Accept(%q, …)", a.Question)
	switch {
	case a.Kind == steps.Sampling:
		how = fmt.Sprintf("sagatest.Say(%q, …)", a.Question)
	case a.Kind == steps.Roots:
		how = fmt.Sprintf("sagatest.Roots(%q, …)", a.Question)
	}
	what := "the script has no answer to it"
	if n := len(s.answers[a.Question]); n > 0 {
		what = fmt.Sprintf("the script has only %d of the %d answers that it takes", n, a.Again+1)
	}
	return fmt.Sprintf("the tool asks %q, and %s.\n  asked: %s\n  what to do: add %s to the script, or sagatest.Leave(%q) if the client is to stop here", a.Question, what, said, how, a.Question)
}

// left lists the answers that were never asked for.
func (s *script) left() []string {
	var left []string
	for id, list := range s.answers {
		if n := len(list) - s.used[id]; n == 1 {
			left = append(left, fmt.Sprintf("%q", id))
		} else if n > 1 {
			left = append(left, fmt.Sprintf("%q (%d times)", id, n))
		}
	}
	slices.Sort(left)
	return left
}

func (s *script) leftover() string {
	left := s.left()
	if left == nil {
		return ""
	}
	return "the script has answers that the tool never asked for: " + strings.Join(left, ", ") +
		".\n  what to do: take them out, or find out why the tool did not ask"
}
