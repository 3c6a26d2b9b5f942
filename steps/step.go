package steps

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// Kind says what a step asks of the client.
type Kind uint8

// The kinds of step MCP knows. Their parameters are those of the MCP request of
// the same purpose.
const (
	// Elicitation asks the user: elicitation/create.
	Elicitation Kind = iota + 1
	// Sampling asks the client's model: sampling/createMessage.
	Sampling
	// Roots asks which directories the client works in: roots/list.
	Roots
	// Outside is no request of MCP: an [Event], which is answered at the server. No client is
	// sent such a step.
	Outside
)

// String returns the kind's name: "elicitation", "sampling", "roots" or "outside".
func (k Kind) String() string {
	names := [...]string{Elicitation: "elicitation", Sampling: "sampling", Roots: "roots", Outside: "outside"}
	if k >= Elicitation && k <= Outside {
		return names[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Step is one question to the client, ready to be sent.
type Step struct {
	// ID correlates the answer with the step. It is unique within a saga.
	ID string
	// Kind says which MCP request Params belong to.
	Kind Kind
	// Params are the parameters of that MCP request, as compact JSON.
	Params json.RawMessage
	// Needs are the features the client must have to be sent this step.
	Needs Features
	// Varied reports that Params differ from those of the declared question, so they
	// must be remembered until the answer comes.
	Varied bool
	// Otherwise is what to ask a client that lacks Needs, or nil.
	Otherwise *Step
	// Routes and Consent are those of the declared question.
	Routes  Routes `cbor:",omitempty"`
	Consent bool   `cbor:",omitempty"`
	// Done is the id of the event that finishes what a declared [Link] is for, or empty.
	Done string `cbor:"-"`
}

// Request is what can be asked: a declared question, what its With method makes of it,
// or one question [Otherwise] another.
type Request interface {
	// Step returns what to send. It fails if MCP does not allow the question.
	Step() (Step, error)
}

// Question is a question declared by a tool: *[Form], *[Link], *[Sample],
// *[RootsList] or *[Event].
type Question interface {
	Request
	// StepID returns the question's id.
	StepID() string
	// Verify reports what is wrong with the declaration. What With may still supply
	// may be missing: the URL of a [Link], the messages of a [Sample], the choices of a
	// list. Registering a tool verifies its questions, so that a mistake shows before the
	// first user meets it. The error is a *[QuestionError].
	Verify() error
	// Check is for the engine. It decides whether a client's result answers step, which
	// was made from this question. Its errors say that the client broke the protocol,
	// that the user should be asked again, or that step was not made from this question.
	Check(step Step, result json.RawMessage) error
}

// Answer is what the client returned for one step: either Result or Error is set.
type Answer struct {
	// StepID is the id of the step that was answered.
	StepID string
	// Result is the result object of the MCP request, as the client sent it.
	Result json.RawMessage
	// Error says that the client failed to perform the step.
	Error *ClientError
	// By says by which route it came: "app", "page" or "relay", or who gave it; empty is the client.
	By string `cbor:",omitempty"`
}

// Answers are the answers to what was asked last. A turn of a saga implements it.
type Answers interface {
	// StepAnswer returns the answer to the step with an id, and false if that step was
	// not asked in the last suspension.
	StepAnswer(id string) (Answer, bool)
}

// Features are what a client may be able to do. A step that needs one must not be sent
// to a client that lacks it.
type Features struct {
	// Forms: the client shows forms ("elicitation.form").
	Forms bool
	// Links: the client opens URLs for the user ("elicitation.url").
	Links bool
	// Sampling: the client has a model ("sampling").
	Sampling bool
	// SamplingTools: the client's model can use given tools ("sampling.tools").
	SamplingTools bool
	// SamplingContext: the client can add context from MCP servers ("sampling.context").
	SamplingContext bool
	// Roots: the client lists its roots ("roots").
	Roots bool
}

// AllFeatures returns every feature.
func AllFeatures() Features { return Features{true, true, true, true, true, true} }

// Has reports whether f holds every feature of want.
func (f Features) Has(want Features) bool { return f.With(want) == f }

// With returns the features of both.
func (f Features) With(g Features) Features {
	return Features{f.Forms || g.Forms, f.Links || g.Links, f.Sampling || g.Sampling,
		f.SamplingTools || g.SamplingTools, f.SamplingContext || g.SamplingContext, f.Roots || g.Roots}
}

// Without returns the features of f that g does not hold.
func (f Features) Without(g Features) Features {
	return Features{f.Forms && !g.Forms, f.Links && !g.Links, f.Sampling && !g.Sampling,
		f.SamplingTools && !g.SamplingTools, f.SamplingContext && !g.SamplingContext, f.Roots && !g.Roots}
}

// String lists the features' MCP capability names, separated by commas.
func (f Features) String() string {
	var names []string
	for _, x := range []struct {
		has  bool
		name string
	}{{f.Forms, "elicitation.form"}, {f.Links, "elicitation.url"}, {f.Sampling, "sampling"},
		{f.SamplingTools, "sampling.tools"}, {f.SamplingContext, "sampling.context"}, {f.Roots, "roots"}} {
		if x.has {
			names = append(names, x.name)
		}
	}
	return strings.Join(names, ", ")
}

// checkID reports what is wrong with the id of a question. That of an instance may end
// with the number that Nth adds.
func checkID(id string, instance bool) error {
	reason := ""
	switch {
	case !instance && strings.Contains(id, "#"):
		reason = `the ID holds "#", which separates the number that Nth adds`
	case id == "":
		reason = "has no ID"
	case !ident.Valid(ident.Base(id)):
		reason = "the ID must be " + ident.Rule
	default:
		return nil
	}
	return &QuestionError{StepID: id, Reason: reason}
}

func nthID(id string, n int) string { return id + "#" + strconv.Itoa(n) }

// Otherwise asks first, or second if the client lacks what first needs. The Answer of
// the one that was not asked fails with [ErrNotAsked]. Alternatives can be chained.
func Otherwise(first, second Request) Request { return otherwise{first, second} }

type otherwise struct{ first, second Request }

func (o otherwise) Step() (Step, error) {
	first, err := o.first.Step()
	if err != nil {
		return Step{}, err
	}
	second, err := o.second.Step()
	if err != nil {
		return Step{}, err
	}
	last := &first
	for last.Otherwise != nil {
		next := *last.Otherwise
		last.Otherwise = &next
		last = &next
	}
	last.Otherwise = &second
	return first, nil
}

// againMark stands between the question and the reason it is asked again.
const againMark = "\n\nThat cannot be used, please correct it. "

// Again returns the step with the reason why the user's content was refused at the end
// of its message. It replaces the reason of a step that Again has made. The result is
// Varied and has the same ID: give it another if the client must not confuse the two.
// The error is a *[QuestionError]: the step is not an elicitation.
func (s Step) Again(refused string) (Step, error) {
	reason := checkObject(s.Params)
	message, ok := jsonview.String(jsonview.Get(s.Params, "message"))
	switch {
	case s.Kind != Elicitation:
		reason = "only an elicitation can be asked again"
	case refused == "":
		reason = "there is no reason to ask again"
	case reason == "" && !ok:
		reason = "it has no message"
	}
	if reason != "" {
		return Step{}, &QuestionError{StepID: s.ID, Reason: reason}
	}
	if i := strings.LastIndex(message, againMark); i >= 0 {
		message = message[:i]
	}
	s.Params = jsonview.Rewrite(s.Params, func(name, v []byte) []byte {
		if string(name) == "message" {
			return appendJSON(nil, message+againMark+refused)
		}
		return v
	})
	s.Varied = true
	return s, nil
}
