// Package gosdk serves sagas on a server of the official Go SDK,
// github.com/modelcontextprotocol/go-sdk. The author of such a server adds tools,
// prompts and resources of package saga to it in one line and keeps everything
// else: its tools, its middleware, its transports and its authorization.
//
//	s := mcp.NewServer(&mcp.Implementation{Name: "travel", Version: "1"}, nil)
//	_, err := gosdk.Mount(s, gosdk.Options{Keys: keys}, trip.Tool)
//
// What is mounted answers every client that the SDK lets in:
//
//   - Clients of MCP 2026-07-28 get the questions as results of tools/call,
//     prompts/get and resources/read, with a sealed requestState.
//   - Older clients are asked by requests, in as many rounds as the saga has. The
//     SDK by itself calls a tool a second time, and no more.
//   - Clients of the saga proposal call tools/callSaga, tools/resumeSaga and
//     tools/cancelSaga. So can the others; clients of MCP 2026-07-28 cancel by the
//     last of these what they began with tools/call.
//
// A client is asked only for what it has declared. The saga methods have no
// declarations: there every step may be asked. A token works only for the principal it
// was given to, which is the user of the SDK's [auth.TokenInfo].
//
// The SDK's HTTP handler serves MCP 2026-07-28 or older clients with sessions, one
// of the two. [NewHTTPHandler] serves both at one address.
//
// # Limits that the SDK sets
//
//   - A server can have one Mount. What was taken off with RemoveTools can still be
//     called with tools/callSaga.
//   - Whole numbers beyond 2^53, in forms and in what models call tools with, are
//     refused, as the SDK reads them inexactly.
//   - A request to a model cannot have the temperature 0.
//   - Subscriptions are the SDK's and cannot be to tasks of the tasks extension: its
//     clients look with tasks/get.
//   - The SDK has no result for a call that has become a task. Middleware that is added
//     after Mount gets another one than [mcp.CallToolResult] then, which happens only
//     for clients that declare the extension; the SDK's own client does not. Tools that
//     may be tasks do not work behind middleware that replaces the request's context.
//   - Log messages reach older clients only once they have set a level.
package gosdk
