package saga

import "github.com/mcpsaga/mcpsaga/steps"

// Handle returns where an event of this saga is delivered, for an effect to give it to whom the saga waits for:
//
//	handle, err := saga.Handle(r, paid)
//	if err != nil {
//		return "", err
//	}
//	if _, err := saga.Do(r, checkout, order{Amount: in.Amount, Callback: "https://tools.example.com/events/" + handle}); err != nil {
//		return "", err
//	}
//	payment, err := saga.Ask(r, paid)
//
// It has at most 54 characters of A-Z a-z 0-9 - _, is the same whenever the flow or the step function runs again, and cannot be
// guessed, not even from the saga's [ID]. It lets its holder deliver, once. So give it to no other, and not to
// the client. It fails if the event is not among the tool's Asks, or has a [steps.Key].
func Handle[T any](ctx Context, e *steps.Event[T]) (string, error) { return ctx.running().Handle(e) }

// Page returns the address of the page on which others answer a form that is for them ([steps.Form].By), for an effect that
// tells them: by mail, or in a chat. It is the same whenever the flow or the step function runs again. It shows nothing to people
// who may not answer, but do not give it to the client. It fails if the form is not among the tool's Asks, or is for the caller.
func Page[T any](ctx Context, f *steps.Form[T]) (string, error) { return ctx.running().Page(f.ID) }
