// Package client calls tools of MCP servers that may ask on the way: it answers what a
// tool asks with your [Handlers], and continues until there is a result.
//
//	c := client.New(&client.HTTP{URL: "http://127.0.0.1:8080/mcp"}, client.Options{})
//	defer c.Close()
//	result, err := c.Call(ctx, "complex_tool", map[string]any{"initial_arg": "value"}, client.Handlers{
//		Elicit: askTheUser,
//		Sample: askTheModel,
//	})
//
// [Client.GetPrompt] and [Client.ReadResource] do the same for prompts and resources.
//
// # Protocols
//
// A client speaks what its server speaks. Before its first request it asks, by
// server/discover, unless Options.Protocol says what it is:
//
//   - the saga proposal, for tools of servers of this module. An answer can be an error,
//     a call that is given up can be undone by [Client.Cancel];
//   - MCP 2026-07-28: multi round-trip requests for tools, prompts and resources, and tasks
//     (see below). A handler that fails ends the call, as no answer can be an error;
//   - MCP 2024-11-05 to 2025-11-25, whose servers ask by requests of their own, in a
//     session: only with Options.Sessions, for which package client/legacy has an
//     implementation on the official Go SDK. A call cannot be left and gone on with. What
//     the server asks has no names; here it is elicitation-1, sampling-1, elicitation-2.
//
// # Tasks
//
// Over MCP 2026-07-28 a server may make a call of a tool a task (the tasks extension,
// SEP-2663), on which it works by itself. [Client.Call] then waits for its end: it asks as
// often as the server wants, but at most ten times a second and at least once a minute,
// and listens if the server takes a subscription. What the task asks goes to the handlers,
// and each answer to the server as it comes. Handlers.OnProgress sees every state.
//
// A task outlives its client. Its position holds its id, with which [Client.Resume] continues,
// [Client.Task] looks, and [Client.Cancel] ends it. To begin a task and leave it, return
// [ErrPause] from Handlers.OnPosition. A task that fails, which is not the same as a tool
// that reports an error, or is cancelled, is a [*TaskError].
//
// # Hostile servers
//
// A server is not trusted. [Limits], the time for a turn, the number of rounds and
// the size of a response bound what it can have a client hold, show and wait for;
// what is beyond ends the call with an error that says so. Texts come as the server
// sent them, in questions and results alike: strip control sequences before a terminal
// shows them.
//
// # Going on later
//
// Where a call stands is in its [Position]: all there is to know about a saga or a request
// in rounds, of which the server keeps nothing between two turns, and the id of a task.
// Handlers.OnPosition sees every change of it, and every
// error that [Client.Call] and [Client.Resume] return is an [*InterruptedError],
// which carries the last one. Encode it as JSON, keep it as long as its token or task
// lives, and continue from any process with [Client.Resume]. Steps that were
// answered are not asked again.
//
// A position holds the arguments of the call, everything the user and the model
// answered, and the server's token or the task's id. Store it where only that user can read
// it: a file of mode 0600.
//
// # Lost connections
//
// A later turn whose connection was lost, or that met HTTP status 429, 502, 503 or 504,
// is sent again after a growing pause, or after the one the server asks for. If only
// the response was lost, the tool runs twice: it is its part to change nothing twice.
// The first turn of a tool is sent again if it certainly did not reach the server, or if
// the tool says in the server's list that it takes idempotency keys: the client sends one
// with it, and a server with a ledger continues the saga that it began. Requests about
// tasks can be repeated. A call in a session is never sent again.
//
// What the server has answered is never repeated, except for the error -31503, by
// which this module's servers ask for the same request again.
package client
