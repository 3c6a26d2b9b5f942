// Package client drives multi-step MCP tools: it calls a tool, answers what the
// tool asks with your [Handlers], and goes on until there is a result.
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
// Tools are called by the saga proposal, which servers of this module speak. Prompts
// and resources come over MCP 2026-07-28, whose servers ask in results as well.
//
// # Hostile servers
//
// A server is not trusted. [Limits], the time for a turn, the number of rounds and
// the size of a response bound what it can have a client hold, show and wait for;
// what is beyond ends the call with an error that says so. Texts come as the server
// sent them: strip control sequences before a terminal shows them.
//
// # Going on later
//
// The server keeps nothing between two turns: all there is to know about a call
// is in its [Position]. Handlers.OnPosition sees every change of it, and every
// error that [Client.Call] and [Client.Resume] return is an [*Interrupted],
// which carries the last one. Encode it as JSON, keep it as long as its token
// lives, and continue from any process with [Client.Resume]. Steps that were
// answered are not asked again.
//
// A position holds the arguments of the call, everything the user and the model
// answered, and the server's token. Store it where only that user can read it: a
// file of mode 0600.
//
// # Lost connections
//
// A later turn whose connection was lost, or that met HTTP status 429, 502, 503 or 504,
// is sent again after a growing pause, or after the one the server asks for. If only
// the response was lost, the tool runs twice: it is its part to change nothing twice.
// The first turn of a tool is sent again if it certainly did not reach the server, or if
// the tool says in the server's list that it takes idempotency keys: the client sends one
// with it, and a server with a ledger goes on with the saga that it began.
//
// What the server has answered is never repeated, except for the error -31503, by
// which this module's servers ask for the same request again.
package client
