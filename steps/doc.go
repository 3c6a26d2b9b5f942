// Package steps holds what a saga can ask of a client: forms and links for the
// user, completions from the client's model, and the client's roots; and events,
// which no client is asked for.
//
// # Asking and reading
//
// Declare a question once, as a package variable, and use it twice: to ask, and to read
// the answer in the next step function.
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
// There are five kinds of question:
//
//   - [Form] shows a form to the user (elicitation, form mode);
//   - [Link] sends the user to a web page (elicitation, URL mode);
//   - [Sample] asks the client's model (sampling);
//   - [RootsList] asks which directories the client works in (roots);
//   - [Event] waits for what is delivered to the server.
//
// Their With methods return the question with a message or choices that are known only
// now. Their Nth methods make instances for a loop, each with an id of its own.
// [Otherwise] asks something else of a client that lacks what a question needs.
//
// # Outcomes
//
// A user may decline or dismiss a question, and a client may fail. Answer returns this as
// a *[StepError] that wraps [ErrDeclined], [ErrCancelled], a *[ClientError] or
// [ErrNotAsked]:
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
// MCP allows flat forms of a few kinds of field (page "client/elicitation"). The type of
// a field of T decides its kind:
//
//	string, time.Time                text; a time.Time is a date-time
//	a string type with Choices       one choice (see [Chooser])
//	int..., uint..., float...        a number
//	bool                             yes or no
//	[]string, or of a Chooser        several choices
//
// The json tag names a field. A field is required unless its json tag says omitempty or
// omitzero or it is a pointer. A jsonschema tag describes it. Further tags are named like
// the keywords that they become. (Arguments and results of tools have the same tags and
// some more, which docs/write.md in the repository lists.)
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
// Choices that hold | or = come from a [Chooser] or, at run time, from [Choices]. A list
// must have choices when it is asked. The fields of embedded structs become the form's.
//
// Verify and Step refuse what a form cannot have, and tags that are misspelt or mean
// nothing for their field, with a *[QuestionError] that says what to do instead.
//
// A form must not ask for secrets (MCP: passwords, keys, tokens, card data). A field that
// is named like one is refused: use a [Link], which sends the user to a page.
//
// # What is validated, and where
//
// Verify validates a question when its tool is registered. Check validates the client's
// result when it arrives: one that breaks the protocol is refused, and a user whose content
// does not satisfy the form is asked again. Your code sees neither, and must itself validate
// what a model said, and what a user entered in a field without rules.
//
// A client reads a question by the methods Form, Link and Sample of [Step], and validates
// what the user enters by [FormSpec.Validate], as the server does.
package steps
