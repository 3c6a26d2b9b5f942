package steps

import (
	"encoding/json"
	"fmt"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/checkerr"
)

// Sample asks the client's model for a completion: sampling/createMessage (MCP
// page "client/sampling"). Declare it once with what does not change, and give
// the messages when asking:
//
//	var advice = &steps.Sample{ID: "advice", Request: steps.SampleRequest{MaxTokens: 100}}
//	...
//	t.Ask("decide", advice.With(steps.Promptf("Is deploying to '%s' safe right now?", target)))
//
// Do not change a Sample after its first use.
type Sample struct {
	// ID correlates the answer with the question. It is unique within a saga, and has
	// 1 to 64 characters of A-Z a-z 0-9 _ - . : / .
	ID string
	// Request is what is asked for, as far as it is known beforehand.
	Request SampleRequest

	nth, varied bool
}

// SampleOption changes what a [Sample] asks for. It is given a copy of the declared
// request; slices within it must be replaced, not changed in place. Any function of
// this type will do; see [Promptf] and [Messages] for what is needed most.
type SampleOption func(*SampleRequest)

// Promptf makes the messages a single one of the user, formatted as by
// [fmt.Sprintf].
func Promptf(format string, args ...any) SampleOption {
	return Messages(UserText(fmt.Sprintf(format, args...)))
}

// Messages replaces the messages.
func Messages(messages ...SampleMessage) SampleOption {
	return func(r *SampleRequest) { r.Messages = messages }
}

// UserText returns a message of the user that holds text.
func UserText(text string) SampleMessage {
	return SampleMessage{Role: content.User, Content: content.Blocks{content.Text{Text: text}}}
}

// AssistantText returns a message of the model that holds text.
func AssistantText(text string) SampleMessage {
	return SampleMessage{Role: content.Assistant, Content: content.Blocks{content.Text{Text: text}}}
}

// StepID implements [Question].
func (s *Sample) StepID() string { return s.ID }

// Verify implements [Question]. Messages may still be missing: they come with
// [Promptf] or [Messages]. MaxTokens must be declared.
func (s *Sample) Verify() error {
	if reason := checkInstanceID(s.ID, s.nth); reason != "" {
		return &QuestionError{StepID: s.ID, Reason: reason}
	}
	r := s.Request
	if len(r.Messages) == 0 {
		r.Messages = []SampleMessage{UserText("")}
	}
	return withID(s.ID, r.Verify())
}

// usualParams is what the parameters of most requests fit in, in bytes.
const usualParams = 256

// Step implements [Request].
func (s *Sample) Step() (Step, error) {
	if reason := checkInstanceID(s.ID, s.nth); reason != "" {
		return Step{}, &QuestionError{StepID: s.ID, Reason: reason}
	}
	params, err := s.Request.AppendParams(make([]byte, 0, usualParams))
	if err != nil {
		return Step{}, withID(s.ID, err)
	}
	return Step{ID: s.ID, Kind: Sampling, Params: params, Needs: s.Request.Needs(), Varied: s.varied}, nil
}

// With returns the question with other messages or settings.
func (s *Sample) With(options ...SampleOption) *Sample {
	varied := *s
	varied.varied = true
	for _, o := range options {
		if o != nil {
			o(&varied.Request)
		}
	}
	return &varied
}

// Nth returns the n-th instance of the question, with the id "ID#n".
func (s *Sample) Nth(n int) *Sample {
	nth := *s
	nth.ID, nth.nth = nthID(s.ID, n), true
	return &nth
}

// Check implements [Question]. It does not judge what the model said.
func (s *Sample) Check(step Step, result json.RawMessage) error {
	if _, reason := parseSampleResult(result); reason != "" {
		return &checkerr.MalformedError{StepID: step.ID, Reason: reason}
	}
	return nil
}

// Answer returns what the client's model said. The error is a *[StepError].
func (s *Sample) Answer(a Answers) (SampleResult, error) {
	result, err := answerTo(a, s.ID)
	if err != nil {
		return SampleResult{}, err
	}
	answer, reason := parseSampleResult(result)
	if reason != "" {
		return SampleResult{}, &StepError{StepID: s.ID, Err: &checkerr.MalformedError{StepID: s.ID, Reason: reason}}
	}
	return answer, nil
}
