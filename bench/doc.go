// Package bench measures what this server costs: a turn of a saga beside its peers, a call of a client with a session, and a
// stream on which nothing happens. Its servers run in processes of their own, and what counts is their CPU time.
//
//	go test ./bench -bench Turns -benchtime 500x
//
// The peer is a server that does the same by hand with the official Go SDK. Every answer is checked, and a wrong one ends the
// run. Package bench/durable measures what tasks cost.
package bench
