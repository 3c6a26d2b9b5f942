package sagatest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Answer is what the client will answer to a question. A script is a list of them.
// A question that is asked several times gets the answers to its id in order.
type Answer struct {
	question string
	answer   steps.Answer // unless decide is there
	err      error        // it cannot be encoded
	decide   func(Asked) Answer
	later    time.Duration
	by       string
	leaves   bool
	always   bool
	route    steps.Routes // zero: the client, or the first that there is
	given    bool         // before the play starts
}

// decided is the answer to a step, by its function if it has one. What that says of the answer counts first.
func (a Answer) decided(asked Asked) Answer {
	for a.decide != nil {
		own := a.decide(asked)
		if own.answer.Result == nil && own.answer.Error == nil && own.err == nil && own.decide == nil && !own.leaves {
			own.err = errors.New("the function that decides gave no answer")
		}
		own.later, own.by, own.route, own.given = max(own.later, a.later), cmp.Or(own.by, a.by), cmp.Or(own.route, a.route), a.given
		a = own
	}
	return a
}

// to is what answers a step, once it is decided.
func (a Answer) to(asked Asked) (steps.Answer, error) {
	if a.err != nil {
		return a.answer, fmt.Errorf("the answer to %q: %w", asked.Question, a.err)
	}
	a.answer.StepID = asked.ID
	return a.answer, nil
}

// Always makes the answer that of all later times the question is asked, too. What
// the script has for the question behind it is never used.
func (a Answer) Always() Answer {
	a.always = true
	return a
}

// Later makes the client take that long to answer, besides the [Player]'s Pause.
func (a Answer) Later(d time.Duration) Answer {
	a.later = d
	return a
}

// By says who answers a form that is for others ([steps.Form].By), or tries to: the server refuses who is not named
// there, and then the time is over. Without it, it is the first one that it names.
func (a Answer) By(who string) Answer {
	a.by = who
	return a
}

// Accept answers a form with content, which encodes to the form's JSON object: the
// form's own struct, a map, or JSON as a json.RawMessage. A nil content agrees to
// open a link.
func Accept(question string, content any) Answer {
	return Raw(question, elicited{"accept", content})
}

// Decline says no to a form or a link.
func Decline(question string) Answer {
	return Raw(question, elicited{Action: "decline"})
}

// Cancel closes a form or a link without a choice. It does not cancel the saga.
func Cancel(question string) Answer {
	return Raw(question, elicited{Action: "cancel"})
}

// Say answers a sampling question: the client's model says text.
func Say(question, text string) Answer {
	return Raw(question, steps.SampleResult{
		Role: content.Assistant, Content: content.Blocks{content.Text{Text: text}}, Model: "sagatest", StopReason: "endTurn",
	})
}

// Roots answers with the client's roots, which are file:// URIs.
func Roots(question string, uris ...string) Answer {
	list := make([]map[string]string, len(uris))
	for i, uri := range uris {
		list[i] = map[string]string{"uri": uri}
	}
	return Raw(question, map[string]any{"roots": list})
}

// Fail has the client fail to perform the step, with a JSON-RPC error.
func Fail(question string, code int64, message string) Answer {
	return Answer{question: question, answer: steps.Answer{Error: &steps.ClientError{Code: code, Message: message}}}
}

// Raw answers with a whole result: a [steps.SampleResult] of a model, or JSON as bytes,
// to see what becomes of one that breaks the protocol.
func Raw(question string, result any) Answer {
	raw, err := encoded(result)
	return Answer{question: question, answer: steps.Answer{Result: raw}, err: err}
}

// encoded is v as JSON, which it may be.
func encoded(v any) (json.RawMessage, error) {
	switch v := v.(type) {
	case json.RawMessage:
		return v, nil
	case []byte:
		return v, nil
	}
	return json.Marshal(v)
}

// Func decides about the answer when the question is asked, from what is asked. In
// a sweep it is called many times, and should answer the same question the same.
func Func(question string, decide func(Asked) Answer) Answer {
	return Answer{question: question, decide: decide}
}

// Leave ends the play when the question is asked: the client never comes back. The
// [Played] then ends suspended.
func Leave(question string) Answer { return Answer{question: question, leaves: true} }

// elicited is MCP's ElicitResult.
type elicited struct {
	Action  string `json:"action"`
	Content any    `json:"content,omitempty"`
}

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

// count is how many answers there are to a question, or to its instances.
func (s *script) count(question string) int {
	return max(len(s.answers[question]), len(s.answers[ident.Base(question)]))
}

// lack says that there is no answer to a question.
func (s *script) lack(a Asked) string {
	how := "Accept"
	switch a.Kind {
	case steps.Sampling:
		how = "Say"
	case steps.Roots:
		how = "Roots"
	}
	what := "the script has no answer to it"
	if n := s.count(a.Question); n > 0 {
		what = fmt.Sprintf("the script has only %d of the %d answers that it takes", n, a.Again+1)
	}
	return fmt.Sprintf("the tool asks %q, and %s.\n  asked: %s\n  what to do: add sagatest.%s(%q, …) to the script, or sagatest.Leave(%q) if the client is to stop here", a.Question, what, short(a.Message(), 300), how, a.Question, a.Question)
}

// leftover reports the answers that were never asked for, or is empty.
func (s *script) leftover() string {
	var left []string
	for id, list := range s.answers {
		if n := len(list) - s.used[id]; n == 1 {
			left = append(left, fmt.Sprintf("%q", id))
		} else if n > 1 {
			left = append(left, fmt.Sprintf("%q (%d times)", id, n))
		}
	}
	if left == nil {
		return ""
	}
	slices.Sort(left)
	return "the script has answers that the tool never asked for: " + strings.Join(left, ", ") +
		".\n  what to do: take them out, or find out why the tool did not ask"
}
