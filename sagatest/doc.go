// Package sagatest is for testing tools that are written with package saga. It runs
// them through the real engine and real tokens: the engine keeps nothing between two turns
// but the token, and in a play the tool is compiled anew from its definition in every turn.
// What the tool's code keeps in variables survives; [Sweep] finds most of that.
//
// # Playing
//
// [Play] runs a tool against a script of answers and returns what happened:
//
//	played := sagatest.Play(t, tool, args,
//		sagatest.Accept("cake", cake{Flavour: "nut"}),
//		sagatest.Decline("consent"),
//	)
//	assert.False(t, played.Good())
//	assert.Equal(t, "Which cake would you like?", played.Find("cake").Message())
//	assert.Equal(t, []string{"reserve", "undo reserve"}, played.Effects())
//
// Answers are found by the question's id. If a question is asked several times, they
// are used in their order. [Accept], [Decline] and [Cancel] answer forms and links,
// [Say] answers for the client's model, [Roots] lists the client's roots. [Fail] is a
// client that cannot, [Leave] one that never comes back, [Raw] one that breaks the
// protocol, and [Func] decides when it sees the question. [Answer.Via] is for hosts whose clients cannot ask, and [Answer.By] for what others are asked.
//
// A play fails the test if the script does not fit what the tool asks. Everything
// else is for the test to judge. A [Player] has options: what the client can
// do, the time, how many rounds and how long tokens may be.
//
// The clock does not run by itself: each request comes a second after the one before
// it (or [Player].Pause), and an answer can come [Answer.Later]. Ids are the same in
// every run. Effects that fail are tried again without pauses.
//
// # Starting in the middle
//
// [Player.At] starts a machine in one of its step functions, with a state and with
// answers. [Player.After] starts a flow, or any tool, behind the answers it was given.
// [Player.Performed] says which effects were done before.
//
// # Sweeping
//
// [Sweep] takes a script that leads through the tool and has everything go wrong on
// the way that can go wrong, such as
//
//	crash after reserve in turn 2, then the client repeats the turn
//
// Afterwards it checks that all is as it must be: by rules of its own, by what
// [Subject.World] shows of the world that the tool acts on, which finds most, and by
// [Subject.Check]. A world for tests should do what the real one does: know idempotency
// keys, and refuse to undo what is final. A sweep finds no more than its world lets it see.
//
// # Journals
//
// [Journal] records where sagas are suspended under each revision of a tool, and
// proves in every later run that they still come to a good end with the present
// code. Commit what it writes, and the build fails before a deployment strands a
// user.
//
// docs/testing.md in the repository has examples, and what none of this can find.
package sagatest
