package steps

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/mcpsaga/mcpsaga/content"
)

// Sample asks the client's model for a completion: sampling/createMessage (MCP
// page "client/sampling"). Declare it once with what does not change, and give
// the messages when asking:
//
//	var advice = &steps.Sample{ID: "advice", Request: steps.SampleRequest{MaxTokens: 100}}
//	...
//	t.Ask("decide", advice.With(steps.Prompt("Is deploying to '%s' safe right now?", target)))
//
// Do not change a Sample after its first use.
type Sample struct {
	// ID correlates the answer with the question. It is unique within a saga, and has
	// 1 to 64 characters of A-Z a-z 0-9 _ - . : / .
	ID string
	// Request is what is asked for, as far as it is known beforehand.
	Request SampleRequest

	nth bool
}

// SampleOption changes what a [Sample] asks for. See [Prompt], [Messages] and
// [Change].
type SampleOption interface{ applySample(*SampleRequest) }

type sampleOption func(*SampleRequest)

func (o sampleOption) applySample(r *SampleRequest) { o(r) }

// Prompt makes the messages a single one of the user, formatted as by
// [fmt.Sprintf].
func Prompt(format string, args ...any) SampleOption {
	text := fmt.Sprintf(format, args...)
	return Messages(UserText(text))
}

// Messages replaces the messages.
func Messages(messages ...SampleMessage) SampleOption {
	return sampleOption(func(r *SampleRequest) { r.Messages = messages })
}

// Change changes the request in any way. It is given a copy of the declared one;
// slices within it must be replaced, not changed in place.
func Change(change func(*SampleRequest)) SampleOption { return sampleOption(change) }

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

// Verify implements [Verifier]. Messages may still be missing: they come with
// [Prompt] or [Messages]. MaxTokens must be declared.
func (s *Sample) Verify() error {
	check := checkDeclaredID
	if s.nth {
		check = checkID
	}
	if reason := check(s.ID); reason != "" {
		return &QuestionError{StepID: s.ID, Reason: reason}
	}
	r := s.Request
	if len(r.Messages) == 0 {
		r.Messages = []SampleMessage{UserText("")}
	}
	return withID(s.ID, r.Verify())
}

// Step implements [Ask].
func (s *Sample) Step() (Step, error) { return s.step(false, nil) }

// With returns the question with other messages or settings.
func (s *Sample) With(options ...SampleOption) Variation[SampleResult] {
	options = slices.Clone(options)
	return Variation[SampleResult]{func() (Step, error) { return s.step(true, options) }, s.Answer}
}

// Nth returns the n-th instance of the question, with the id "ID#n".
func (s *Sample) Nth(n int) *Sample {
	return &Sample{ID: nthID(s.ID, n), Request: s.Request, nth: true}
}

func (s *Sample) step(varied bool, options []SampleOption) (Step, error) {
	check := checkDeclaredID
	if s.nth {
		check = checkID
	}
	if reason := check(s.ID); reason != "" {
		return Step{}, &QuestionError{StepID: s.ID, Reason: reason}
	}
	r := s.Request
	for _, o := range options {
		if o != nil {
			o.applySample(&r)
		}
	}
	params, err := r.AppendParams(nil)
	if err != nil {
		return Step{}, withID(s.ID, err)
	}
	return Step{ID: s.ID, Kind: Sampling, Params: params, Needs: r.Needs(), Varied: varied}, nil
}

// Check implements [Question]. It does not judge what the model said.
func (s *Sample) Check(step Step, result json.RawMessage) error {
	if _, reason := parseSampleResult(result); reason != "" {
		return &MalformedError{StepID: step.ID, Reason: reason}
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
		return SampleResult{}, &StepError{StepID: s.ID, Err: &MalformedError{StepID: s.ID, Reason: reason}}
	}
	return answer, nil
}
