// Package durable compares tasks with the best Go libraries for durable work, on PostgreSQL and on SQLite. Its benchmarks
// have three trivial steps done, with a checkpoint after each, for 1, 16 and 64 callers that wait for them.
//
//	cd bench/durable && GOWORK=off go test -mod=mod -bench .
//
// It is a module of its own, so that the product does not depend on what it is compared with.
package durable
