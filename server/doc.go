// Package server serves sagas to clients: it joins the engine (package saga)
// and the tokens (package codec) to JSON-RPC and its transports.
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
// A server keeps nothing of a saga between two turns. Start as many as you like
// with the same keyset and audience, in any place; each can take any turn.
//
// # Clients
//
// The same tools serve clients of every revision of MCP, and those of the saga
// proposal, at one endpoint: each message is answered by the rules of its own
// revision. Nothing needs to be configured for that. A client is never asked for
// what it has not declared; [Options.Sampler] steps in for those without a model.
//
// # Errors
//
// A refused token is the error -32602 with one fixed text, whatever is wrong
// with it; the log says what. A client that cannot do what a tool asks for gets
// -32021 in MCP 2026-07-28, with the capabilities that it would have to declare,
// and a failed tool elsewhere. Answers that contradict earlier ones or are not of
// MCP's form are -32602 with a text that says which step and why; the token is
// still good. Failures inside are -32603; the log has tool, saga and cause.
package server
