// Command bench compares what a turn of a saga costs on this server, on a server
// that does the same by hand with the official Go SDK, and on a floor: net/http
// and encoding/json that read the same requests and answer with constants.
//
//	go run ./bench
//	go run ./bench --base ANOTHER    # beside another build of this command
//	go run ./bench curves [rounds|size|connections|replicas|heap ...]
//	go run ./bench hostile
//
// Every server runs in a process of its own; each gets a short load in turn, many
// rounds, over loopback from this process. What counts is the CPU time of the server
// per turn, and its ratio to the floor's in the same round. Every answer is checked,
// and a wrong one ends the run with an error. Ratios are within one run only.
//
// Curves show how the cost of a turn grows with what their name says; hostile looks
// for the requests that cost the most. With --into, tables go into a document as well.
package main
