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
// # Errors
//
// A refused token is the error -32602 with one fixed text, whatever is wrong
// with it; the log says what. Answers that contradict earlier ones or are not of
// MCP's form are -32602 with a text that says which step and why; the token is
// still good. Failures inside are -32603; the log has tool, saga and cause.
package server
