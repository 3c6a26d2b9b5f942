package steps

import (
	"encoding/json"
	"strings"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// againMark stands between the question and the reason it is asked again.
const againMark = "\n\nThat cannot be used, please correct it. "

// Again returns the step with the reason why the user's content was refused
// appended to its message, to be asked once more. If the step was made by Again
// itself, the new reason takes the place of the old. The result is Varied and has
// the ID of the step: give it another one if the client must not confuse the two.
//
// The error is a *[QuestionError]: the step is not an elicitation.
func (s Step) Again(refused string) (Step, error) {
	reason := checkObject(s.Params)
	message, ok := jsonview.String(get(s.Params, "message"))
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
	out := make([]byte, 0, len(s.Params)+len(againMark)+len(refused)+16)
	sep := byte('{')
	for name, v := range jsonview.Members(s.Params) {
		out = append(appendString(append(out, sep), name), ':')
		if string(name) == "message" {
			out = appendString(out, message+againMark+refused)
		} else {
			out = append(out, v...)
		}
		sep = ','
	}
	s.Params = json.RawMessage(append(out, '}'))
	s.Varied = true
	return s, nil
}
