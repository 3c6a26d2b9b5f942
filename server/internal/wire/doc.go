// Package wire is JSON-RPC 2.0 as it is on the wire: messages in, responses, requests
// and errors out, the HTTP headers that repeat what a message says, and event streams.
// It knows nothing of what the messages are about.
//
// A transport begins with [Parse] and ends with [AppendResponse]. Errors that clients
// see are of the type [Error] and have the status that HTTP has for them.
package wire
