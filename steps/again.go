package steps

import (
	"encoding/json"
	"strings"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// againMark stands between the question and the reason it is asked again.
const againMark = "\n\nThat cannot be used, please correct it. "

// Again returns the step with the reason why the user's content was refused
// appended to its message, to be asked once more. If step was made by Again
// itself, the new reason takes the place of the old. The result is Varied and has
// the ID of step: give it another one if the client must not confuse the two.
//
// The error is a *[QuestionError]: step is not an elicitation.
func Again(step Step, invalid *InvalidError) (Step, error) {
	reason := checkObject(step.Params)
	message, ok := jsonview.String(get(step.Params, "message"))
	switch {
	case step.Kind != Elicitation:
		reason = "only an elicitation can be asked again"
	case invalid == nil:
		reason = "there is no reason to ask again"
	case reason == "" && !ok:
		reason = "it has no message"
	}
	if reason != "" {
		return Step{}, &QuestionError{StepID: step.ID, Reason: reason}
	}
	if i := strings.LastIndex(message, againMark); i >= 0 {
		message = message[:i]
	}
	out := make([]byte, 0, len(step.Params)+len(againMark)+len(invalid.Reason)+16)
	sep := byte('{')
	for name, v := range jsonview.Members(step.Params) {
		out = append(appendString(append(out, sep), name), ':')
		if string(name) == "message" {
			out = appendString(out, message+againMark+invalid.Reason)
		} else {
			out = append(out, v...)
		}
		sep = ','
	}
	step.Params = json.RawMessage(append(out, '}'))
	step.Varied = true
	return step, nil
}
