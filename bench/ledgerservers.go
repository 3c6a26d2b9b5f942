package main

import (
	"context"
	crand "crypto/rand"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

func init() {
	servers["ledger"], servers["swaps"], servers["turns"], servers["beside"] = ledgerServer, swapServer, turnServer, besideServer
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

// What a request to the servers swaps and turns has done: so many callers at once write so many
// records each, or take the turns of so many sagas; each is written, or has a turn taken, so often.
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

// swapServer writes records as fast as the store can, with all that a saga's have.
func swapServer(args []string) http.Handler {
	store := openStore(args[0])
	return batches(func(ctx context.Context) {
		swap := swaps(ctx, store)
		for range batchChain {
			swap()
		}
	})
}

// swaps returns what creates a record, with about as many bytes as those of sagas, and then changes it.
func swaps(ctx context.Context, store ledger.Store) func() {
	r := &ledger.Record{Key: crand.Text(), Queue: "queue", Owner: "owner", Body: make([]byte, 1024)}
	crand.Read(r.Body)
	return func() {
		r.Keep = time.Now().Add(time.Hour)
		check(store.Swap(ctx, r))
	}
}

// turnServer takes turns of a tool of the server ledger as fast as that can.
func turnServer(args []string) http.Handler {
	send := within(ledgerServer(args))
	return batches(func(context.Context) { asking(args[1]).all(send, rounds...) })
}

// besideServer takes the same turns without a ledger, and changes a record beside each that would
// be remembered, as often as that would be: what any server would have to do.
func besideServer(args []string) http.Handler {
	send, store, changes := within(ledgerServer([]string{""})), openStore(args[0]), changesOf[args[1]]
	return batches(func(ctx context.Context) {
		turn, swap := 0, swaps(ctx, store)
		asking(args[1]).all(func(header map[string]string, request []byte) []byte {
			for range min(turn, 1) * changes { // the first turn is not remembered
				swap()
			}
			turn++
			return send(header, request)
		}, rounds...)
	})
}

// changesOf says how often a turn of a tool changes its record.
var changesOf = map[string]int{"once": 1, "acting": 2}
