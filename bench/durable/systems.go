package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// system is something that does durable work.
type system struct {
	name, store string // store is postgres or sqlite
	open        func(ctx context.Context, at place) (worker, error)
}

// place is where a system keeps its work.
type place struct {
	// Target is how to connect to a database of PostgreSQL, or the name of a file.
	Target string
	// Keys is a file with a key, for systems that encrypt.
	Keys string
}

// worker is a system in a process.
type worker interface {
	// Do has a piece of work done and waits for its result. Many call it at once.
	Do(ctx context.Context) error
	Close()
}

// most callers are there at a time.
const most = 64

var inFlight = []int{1, 16, most}

// ours is the system that is compared with the others.
const ours = "mcpsaga"

var systems = []system{
	{"DBOS", "postgres", openDBOS},
	{"River", "postgres", openRiver},
	{ours, "postgres", openTasks},
	{"DBOS", "sqlite", openDBOS},
	{ours, "sqlite", openTasks},
}

// chosen returns the systems whose names are in a list with commas.
func chosen(only string) []system {
	if only == "" {
		return systems
	}
	names := strings.Split(only, ",")
	return slices.DeleteFunc(slices.Clone(systems), func(s system) bool { return !slices.Contains(names, s.name) })
}

// wrong is the error of work whose result is not what three steps make.
func wrong(result any) error { return fmt.Errorf("the result of three steps is %v", result) }
