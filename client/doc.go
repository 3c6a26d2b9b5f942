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
//     and [Client.Cancel] has the server undo a call;
//   - MCP 2026-07-28: multi round-trip requests for tools, prompts and resources, and
//     tasks. A handler that fails ends the call, as no answer can be an error;
//   - MCP 2024-11-05 to 2025-11-25, whose servers ask by requests of their own, in a
//     session: only with Options.Sessions, for which package client/legacy has an
//     implementation on the official Go SDK. A call cannot be stopped and continued later.
//     What the server asks has no names; here it is elicitation-1, sampling-1,
//     elicitation-2.
//
// # Tasks
//
// Over MCP 2026-07-28 a server may make a call of a tool a task (the tasks extension,
// SEP-2663), on which it works by itself. [Client.Call] then waits for its end: it asks as
// often as the server wants, but at most ten times a second and at least once a minute.
// What the task asks goes to the handlers, and each answer to the server as it comes.
// Handlers.OnProgress sees every state.
//
// A task outlives its client. Its position holds its id, with which [Client.Resume] continues,
// [Client.Task] looks, and [Client.Cancel] ends it. To begin a task and leave it, return
// [ErrPause] from Handlers.OnPosition. A task that fails, which is not the same as a tool
// that reports an error, or is cancelled, is a [*TaskError].
//
// # Hostile servers
//
// A server is not trusted. [Limits], the time for a turn, the number of rounds and
// the size of a response bound what it can have a client hold, show and wait for.
// Texts come as the server sent them, in questions and results alike: strip control
// sequences before a terminal shows them.
//
// # Positions
//
// The [Position] of a call is all there is to know about it, as the server keeps nothing
// between two turns, or only the task. Handlers.OnPosition sees every change of it, and
// the [*InterruptedError] that [Client.Call] and [Client.Resume] fail with has the last one.
// Encode it as JSON, and continue from any process with [Client.Resume]. Steps that were
// answered are not asked again.
//
// A position holds the arguments of the call, the answers of the user and the model, and
// the server's token or the task's id. Store it where only that user can read it: in a file
// of mode 0600, for as long as its token or task lives.
//
// # Lost connections
//
// A later turn whose connection was lost, or that met HTTP status 429, 502, 503 or 504,
// is sent again after a growing pause, or after the one the server asks for. If only
// the response was lost, the tool runs twice: it must change nothing twice.
// The first turn of a tool is sent again if it certainly did not reach the server, or if
// the server's list says that the tool takes idempotency keys: the client sends one
// with it, and a server with a ledger continues the saga that it began. Requests about
// tasks can be repeated. A call in a session is sent again if it did not reach the server,
// or the server had forgotten the session; if it is given up, so is the session, and over
// Stdio its process.
//
// What the server has answered is never repeated, except for the error -31503, by
// which this module's servers ask for the same request again.
package client
