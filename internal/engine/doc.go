// Package engine runs sagas, a turn at a time. It knows no protocol, no token and none
// of an author's types: package saga gives it those behind the interfaces [Code] and
// [Effect], and the server of sagas seals what it returns.
//
// A [Program] is a tool, a prompt or a resource that was checked, and a [Registry] a set
// of them. [Program.Start] takes a saga's first turn. Its [Outcome] is a result, or
// questions and a [Position]: everything that must survive until the answers come.
// [Program.Resume] takes every later turn, [Program.Cancel] and [Program.Abandon] undo
// what the saga has done.
//
//	out, err := program.Start(ctx, engine.Call{ID: id, Now: now, Client: features, Arguments: args})
//	for err == nil && out.Position != nil {
//		answers := ask(out.Steps)
//		out, err = program.Resume(ctx, out.Position, engine.Call{Now: now, Client: features, Answers: answers})
//	}
//
// A position holds what client, machine or flow must not lose: the arguments, the answers
// or the state, and the log of effects. [Position.Encode] returns it as bytes, in parts
// that differ in who knows what is in them.
//
// definition.go and program.go check and hold what authors write; engine.go takes turns, with
// turn.go for the code that runs in them, and flow.go and record.go for flows. settle.go reads
// answers. effects.go performs effects, checkpoint.go records them in the middle of a turn,
// cancel.go, undo.go and end.go undo them. position.go, encoded.go and secrets.go are what is kept between
// turns. testkit.go is for package sagatest.
package engine
