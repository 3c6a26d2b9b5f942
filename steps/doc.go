// Package steps holds what a saga can ask of a client: forms and links for the
// user, completions from the client's model, and the client's roots.
//
// # Asking and reading
//
// A question is declared once, as a package variable, and used twice: to ask, and
// in the next step function to read the answer. So the id and the type of the
// answer cannot come apart.
//
//	type Target struct {
//		Target string `json:"target" title:"Where to" enum:"staging|production"`
//	}
//
//	var target = &steps.Form[Target]{ID: "target", Message: "Where do you want to deploy?"}
//
//	// asking, in one step function of a saga:
//	return t.Ask("advice", target)
//
//	// reading, in the next:
//	where, err := target.Answer(t)
//
// There are four kinds of question:
//
//   - [Form] shows a form to the user (elicitation, form mode);
//   - [Link] sends the user to a web page (elicitation, URL mode);
//   - [Sample] asks the client's model (sampling);
//   - [RootsList] asks which directories the client works in (roots).
//
// Their With methods ask differently this time, with a message or choices that
// are known only now; what they return is asked and read like the question itself.
// Their Nth methods make instances for a loop, each with an id of its own.
// [Otherwise] asks something else of a client that lacks what a question needs.
//
// # Outcomes
//
// A user may decline or dismiss a question, and a client may fail; all of these
// are ordinary. Answer returns them as a *[StepError] that wraps [ErrDeclined],
// [ErrCancelled], a *[ClientError] or [ErrNotAsked]:
//
//	where, err := target.Answer(t)
//	switch {
//	case errors.Is(err, steps.ErrDeclined):
//		// the user said no: respect it
//	case errors.Is(err, steps.ErrCancelled):
//		// the user closed the form: perhaps ask again later
//	case err != nil:
//		return nil, err
//	}
//
// # What a form can hold
//
// MCP allows flat forms of a few kinds of field (page "client/elicitation"). The
// type of a field of T decides its kind:
//
//	string, time.Time                text; a time.Time is a date-time
//	a string type with Choices       one choice (see [Chooser])
//	int..., uint..., float...        a number
//	bool                             yes or no
//	[]string, or of a Chooser        several choices
//
// The json tag names a field. It is required, unless the json tag says omitempty
// or omitzero or the field is a pointer. A jsonschema tag describes it. These tags
// say more, and are named like the keywords that they become. Arguments and results
// of tools have them too, and some more, which docs/write.md in the repository lists.
//
//	tag        for                value
//	title      all                the field's name for the user
//	enum       text, lists        choices, separated by |; a title may follow each
//	                              after =, as in "eu=Europe|us=United States"
//	enumNames  one choice         "legacy" writes titles for clients of 2025-06-18
//	format     text               email, uri, date or date-time
//	minLength  text               least number of characters
//	maxLength  text               greatest number of characters
//	minimum    numbers            least number
//	maximum    numbers            greatest number
//	minItems   lists              least number of choices made
//	maxItems   lists              greatest number of choices made
//	default    all                what the form shows at first; lists as in enum,
//	                              without titles
//	notsecret  all                why the field is no secret although it is named
//	                              like one
//
// A tag that is misspelt or has no meaning for the field is refused, as is anything
// else that a form cannot have.
//
// Choices that hold | or = come from a [Chooser] or, at run time, from [Choices].
// A list must have choices when it is asked. Structs can be embedded; their fields
// become the form's. Anything else is refused by Verify and Step with a
// *[QuestionError] that names the type, the field, the tag and what to do instead.
//
// A form must not ask for secrets (MCP: passwords, keys, tokens, card data). A
// field that is named like one is refused: send the user to a page with a [Link],
// where what they enter does not pass through the client.
//
// # What is validated, and where
//
// Verify and Step validate the question: a tool is not registered with one that MCP does
// not allow. Check validates the client's result when it arrives: one that breaks the
// protocol is refused, and a user whose content does not satisfy the form is asked again.
// Your code sees neither. What a model said, and what a user entered in a field without
// rules, is validated only by the author.
//
// A client reads what it is asked by the methods Form, Link and Sample of [Step], and
// validates what the user enters by [FormSpec.Validate], the code that the server
// uses.
package steps
