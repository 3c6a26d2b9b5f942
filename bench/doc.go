// Command bench compares what a turn of a saga costs on this server, on a server
// that does the same by hand with the official Go SDK, and on a floor: net/http
// and encoding/json that read the same requests and answer with constants.
//
//	go run ./bench
//
// Every server runs in a process of its own, one after the other, several rounds;
// the load comes from this process over loopback. Every answer is checked, and a
// wrong one ends the run with an error. Ratios are within one run only.
package main
