// Package saga is for writing tools that ask. A tool can stop in the middle, ask
// the user or the client's model something, and go on with the answer, in this
// process or in another one. The server need not keep anything meanwhile.
//
// # The words
//
// A saga is one call of such a tool, from the first request to the result. A turn is
// one piece of it: the tool's code runs until it asks or ends. For most clients that is
// one request and its response. A question is what a tool can ask: a form, a
// link, a completion of the client's model, the client's roots; package steps has
// them. A step is a question on its way to one client. A step function is a piece
// of the tool's code: it runs from one suspension to the next, and ends by saying
// how the turn ends. The state is what one step function leaves for the next.
//
// The server seals the state, the arguments and the name of the next step function
// into a token. The client sends the token back with its answers. Any server that has the
// keys can take the next turn.
//
// # A first tool
//
// A tool is a [Machine] or a [Flow]. A flow is shorter, and described below. A machine
// has a type for its arguments, a type for its state, questions, and step functions:
//
//	type order struct {
//		Office string `json:"office" jsonschema:"where to deliver"`
//	}
//
//	type meal struct {
//		Dish string `json:"dish" title:"Dish" enum:"soup=Soup of the day|pasta=Pasta"`
//	}
//
//	type turn = saga.Turn[order, struct{}] // arguments and state
//
//	var askMeal = &steps.Form[meal]{ID: "meal", Message: "What would you like?"}
//
//	var Lunch = saga.Machine[order, struct{}]{
//		Info:  saga.Info{Name: "order_lunch", Asks: []steps.Question{askMeal}},
//		Start: func(t *turn) (saga.Next, error) { return t.Ask("chosen", askMeal) },
//		Steps: saga.Steps[order, struct{}]{"chosen": chosen},
//	}
//
//	func chosen(t *turn) (saga.Next, error) {
//		meal, err := askMeal.Answer(t)
//		if err != nil {
//			return nil, err // the user declined, or closed the form
//		}
//		return t.Textf("Ordered %s for %s.", meal.Dish, t.Args.Office)
//	}
//
// The arguments and the form are structs, and tags say more about their fields. What
// does not fit the tags does not reach the tool's code.
//
// Start runs when the tool is called. It asks askMeal and names the step function
// that gets the answer, "chosen". That one runs in the next turn, reads the answer
// with the same question, and ends the saga with a text. Give Lunch to
// server.Options.Tools, and clients can call it.
//
// Step functions, flows and effects get a context as their first parameter: a [Turn] is
// one, and so is a [Run]. It ends when the client goes away or the turn takes too long.
// Give it to all that waits: code that does not return then is given up, and can do nothing
// more with its turn.
//
// A step function ends with one of these:
//
//   - [Turn.Ask] suspends the saga and asks one or several questions;
//   - [Turn.Goto] continues in another step function, in the same turn;
//   - [Turn.Pause] ends the turn and continues in the next one, without a question; so do
//     [Turn.Yield] with a part of the result, and [Turn.Sleep] and [Turn.Until] at a later time;
//   - [Turn.Textf], [Turn.Structured] or [Turn.Finish] end the saga with a result;
//   - an error ends the saga with a failure.
//
// # The rules
//
//   - A user may say no, or close the form; a client may fail. Answer then returns an
//     error that wraps steps.ErrDeclined, steps.ErrCancelled or a *steps.ClientError.
//     Return it, and the caller reads which question stopped the saga; or do something
//     else. Respect a user who declines. What does not fit a form, the engine asks again.
//   - [Failf] makes an error that the caller reads, [Fail] one that has a cause for the log
//     besides. Every other error is hidden: the caller reads that the tool failed and the
//     saga's id, under which the server's log has the error.
//   - The state is any type that encodes to JSON, or that [Machine.Encoding] encodes. It
//     travels to the client and back in every turn: keep it small. The client cannot read
//     it, but sees the token's length; keys, passwords and the like are a [Secret].
//   - Nothing in memory outlives a turn. Do not keep the [Turn], its context, a goroutine, a
//     lock, a transaction or an open file for the next step function: that may run
//     tomorrow, in another process, or never.
//   - [Do], and what a [Run] asks and gives, are for the goroutine that runs the function: in
//     another, also in that of another call, or after the turn, they are refused and the turn
//     fails. What shall happen at once goes within one effect. Your own data, State too, is
//     yours to guard. docs/write.md says what goroutines may do.
//   - A turn can be taken again: by a client whose connection broke, after a timeout, or
//     with other answers and the same token. So ask first and act last, and act by an
//     [Effect], which has an idempotency key, or with one made of [Turn.ID].
//   - Sagas that are suspended while you deploy go on in the new code. Raise the Revision
//     ([Info]) with every change of what a flow asks or does, and with every change of a
//     machine but new questions, step functions and fields of the state.
//
// server.New checks every definition and fails with a *[DefinitionError] for each problem.
// What only running code can show is an error of the turn; the command sagavet, used like
// go vet, finds much of that before. docs/write.md in the repository has all of this at
// length.
//
// # Flows
//
// A [Flow] is a tool written as one function from beginning to end:
//
//	var Lunch = saga.Flow[order, string]{
//		Info: saga.Info{Name: "order_lunch", Asks: []steps.Question{askMeal}},
//		Run: func(r *saga.Run, in order) (string, error) {
//			meal, err := saga.Ask(r, askMeal)
//			if err != nil {
//				return "", err // the saga waits, or the user declined
//			}
//			return "Ordered " + meal.Dish + " for " + in.Office + ".", nil
//		},
//	}
//
// When it has to wait, [Ask] returns an error, and the function returns it. When
// the answer is there, the function runs again from its beginning, and what was
// answered before comes from the record. So it must return every error of Ask and
// [Do], and do the same each time: the time, ids and random numbers come from the
// [Run], everything else that may change is an effect. A flow is shorter to
// write and to read than a machine; its token grows with the conversation.
//
// # Effects
//
// An [Effect] is something the tool does to the world, declared with what reverses
// it and performed with [Do], or for several inputs at once with [DoAll], in machines and in flows. If the saga ends badly (an error,
// a user who declines, a client that cancels or comes back too late), its effects are
// undone, the last first, and the result says what was undone and what was not.
//
// A turn that was cut off is taken again and performs its effects again, with the
// same [Key]. The system behind must know keys: act once for each, refuse one that
// was released, and refuse to undo what has become final ([Final]). If a client never
// comes back, a server with a ledger undoes what its saga did; without one nothing does,
// so what a saga holds while it waits must expire by itself.
//
// # Work that outlives a request
//
// A tool gives its result in parts with Yield, and waits with Sleep and Until, which cost nothing
// while they last. With [Tasks] a server with a ledger drives the saga by itself, so that the
// client need not wait for it, and continues from the last checkpoint after a restart.
//
// A steps.Event is waited for outside, and delivered to the address that [Handle] makes.
//
// [Prompt] and [Resource] embed a Machine, whose step functions end with
// [Turn.Messages] and [Turn.Contents]; they have no effects. Package sagatest plays a
// tool against a script of answers, and lets everything go wrong that can.
package saga
