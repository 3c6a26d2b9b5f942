package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

func init() {
	servers["ledger"], servers["turns"] = ledgerServer, turnServer
}

// openStore opens the ledger memory:, sqlite:PATH or postgres://….
func openStore(url string) ledger.Store {
	if url == "memory:" {
		return ledger.NewMemory(ledger.MemoryOptions{})
	}
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		return must(sqlite.Open(context.Background(), path))
	}
	return must(postgres.Open(context.Background(), url))
}

// userHeader says whose request it is, so that records can be those of many.
const userHeader = "Bench-User"

// ledgerServer is this project's with a ledger, if one is given, with tools that use it and one
// that does not.
func ledgerServer(args []string) http.Handler {
	once := roundsTool // asks several times; with a ledger, each turn is taken once
	once.Info.Name = "once"
	o := server.Options{Authenticate: func(r *http.Request) (server.Principal, error) {
		return server.Principal{Subject: r.Header.Get(userHeader)}, nil
	}}
	if args[0] != "" {
		o.Ledger, once.Info.SingleUse = openStore(args[0]), saga.SingleUseRequired
	}
	o.Tools = []saga.Definition{complextool.Tool, quickTool, actingTool, once}
	return serverOf(o)
}

var nothing = &saga.Effect[string, string]{
	Name: "nothing",
	Do:   func(context.Context, saga.Key, string) (string, error) { return "", nil },
	Undo: func(context.Context, saga.Performed[string, string]) error { return nil },
}

// actingTool is roundsTool, which acts before it continues.
var actingTool = func() saga.Machine[roundsArgs, roundsState] {
	tool := roundsTool
	tool.Info.Name, tool.Info.Effects = "acting", []saga.Declared{nothing}
	tool.Steps = saga.Steps[roundsArgs, roundsState]{"next": func(t *saga.Turn[roundsArgs, roundsState]) (saga.Next, error) {
		if _, err := saga.Do(t, nothing, ""); err != nil {
			return nil, err
		}
		return roundsTool.Steps["next"](t)
	}}
	return tool
}()

// What a request to the server turns has done: so many callers at once take the turns of so many
// sagas each, so many of each saga.
const (
	batchCallers = 16
	batchEach    = 4
	batchChain   = 4
)

// batches is a server that has it done for each request, without a network in between.
func batches(do func(context.Context)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var group sync.WaitGroup
		errs := make([]error, batchCallers)
		for caller := range errs {
			group.Go(func() {
				errs[caller] = try(func() {
					for range batchEach {
						do(r.Context())
					}
				})
			})
		}
		group.Wait()
		if err := errors.Join(errs...); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
}

// turnServer takes turns of a tool of the server ledger as fast as that can.
func turnServer(args []string) http.Handler {
	send := within(ledgerServer(args))
	return batches(func(context.Context) { asking(args[1]).all(send, rounds...) })
}
