// Package server serves sagas to clients, over HTTP and on standard input and output.
//
//	keys, err := codec.LoadKeyset("keyset.json")
//	...
//	s, err := server.New(server.Options{
//		Tools: []saga.Definition{deploy.Tool},
//		Keys:  keys,
//	})
//	...
//	l, err := net.Listen("tcp", "127.0.0.1:8080")
//	...
//	err = s.Serve(ctx, l) // or s.ServeStdio(ctx, os.Stdin, os.Stdout)
//
// A server keeps nothing of a saga between two turns, except for clients that need a
// session (see below) and what it remembers in a ledger, if it has one. Start as many as
// you like with the same keyset, audience and ledger, in any place; each can take any
// turn.
//
// # Clients
//
// The same tools serve clients of every revision of MCP, and those of the saga
// proposal, at one endpoint: each message is answered by the rules of its own
// revision. Nothing needs to be configured for that. A client is never asked for
// what it has not declared; [Options.Sampler] steps in for those without a model.
//
// The methods of the proposal can be called in every revision, by its rules for
// requests and results, with a session or without. The tokens are the same. There
// every step may be asked, whatever the client has declared.
//
// # Sessions
//
// Clients of MCP before 2026-07-28 have a session: over HTTP its id is a token, by
// which any replica with the same keys serves it, on stdio it is the connection. The
// server asks such a client by requests of its own, while the client's call waits.
//
// With a ledger ([Options.Ledger]) the answers may reach any replica, and when the one
// that the client was connected to stops or dies, the call continues elsewhere for a
// client that comes back. Without a ledger the call waits in this process, and the
// answers must reach it; if the server stops meanwhile, what the saga did is undone. In
// both cases it is undone if the client cancels or ends its session.
//
// A client has nine tenths of [Options.TokenTTL] to answer. What it does not answer in
// time, or answers in a form that MCP does not have, counts as a failure of the client
// to perform the step, which the tool can handle.
//
// A client that loses its connection does not cancel; it can come back for what it
// missed. Sessions end when the client says so, and after [Options.SessionTTL]. The
// transport of MCP 2024-11-05 with two HTTP endpoints is not served; clients of that
// revision are, over Streamable HTTP and stdio.
//
// # Errors
//
// A refused token is the error -32602 with one fixed text, whatever is wrong
// with it; the log says what. A client that cannot do what a tool asks for gets
// -32021 in MCP 2026-07-28, with the capabilities that it would have to declare,
// and a failed tool elsewhere. Answers that contradict earlier ones or are not of
// MCP's form are -32602 with a text that says which step and why; the token is
// still good. So it is with arguments and answers that are too large to be
// remembered: the error's data says by how much. Failures inside are -32603; the log has
// tool, saga and cause. What may work a little later, as when the ledger cannot be
// reached, is -31503: send the same request again. A request that would begin
// another saga does not get that after something irreversible: it gets -32603 and
// the name of the effect.
package server
