// Package hostile holds no code but tests. They look for requests that cost a server
// much: they make requests of every method in every dialect with what is likely to be
// expensive in every place of them, have a server answer, and measure time and memory
// per byte of request.
//
// TestRequestsCostLittlePerByte holds each of them to a limit. TestWorstRequests shows
// the worst, and writes them to docs/benchmarks/tables.md when run with -update.
package hostile
