package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
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
	o := server.Options{
		Audience: "bench", Keys: must(codec.NewKeyset()), Logger: slog.New(slog.DiscardHandler),
		Authenticate: func(r *http.Request) (server.Principal, error) {
			return server.Principal{Subject: r.Header.Get(userHeader)}, nil
		},
	}
	if args[0] != "" {
		o.Ledger, once.Info.SingleUse = openStore(args[0]), saga.SingleUseRequired
	}
	o.Tools = []saga.Definition{complextool.Tool, quickTool, actingTool, once}
	return must(server.New(o)).Handler()
}

var nothing = &saga.Effect[string, string]{
	Name: "nothing",
	Do:   func(context.Context, saga.Key, string) (string, error) { return "", nil },
	Undo: func(context.Context, saga.Performed[string, string]) error { return nil },
}

var actingTool = saga.Machine[roundsArgs, roundsState]{
	Info: saga.Info{
		Name: "acting", Description: "Asks several times, and acts.", Asks: []steps.Question{goOnForm}, Effects: []saga.Declared{nothing},
	},
	Start: roundsTool.Start,
	Steps: saga.Steps[roundsArgs, roundsState]{
		"next": func(t *saga.Turn[roundsArgs, roundsState]) (saga.Next, error) {
			if _, err := saga.Do(t, nothing, ""); err != nil {
				return nil, err
			}
			return roundsTool.Steps["next"](t)
		},
	},
}

// What a request to the servers swaps and turns has done: so many callers at once write so many
// records each, or take the turns of so many sagas; each is written, or has a turn taken, so often.
const (
	batchCallers = 16
	batchEach    = 4
	batchChain   = 4
)

// batches is a server that has it done for each request, without a network in between.
func batches(do func(context.Context) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var group sync.WaitGroup
		errs := make([]error, batchCallers)
		for caller := range batchCallers {
			group.Go(func() {
				for range batchEach {
					errs[caller] = cmp.Or(errs[caller], do(r.Context()))
				}
			})
		}
		group.Wait()
		if err := errors.Join(errs...); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
}

// swapBytes are about as many as records of sagas have.
const swapBytes = 1024

// swapServer writes records as fast as the store can, with all that a saga's have.
func swapServer(args []string) http.Handler {
	store := openStore(args[0])
	return batches(func(ctx context.Context) (err error) {
		r := newRecord()
		for range batchChain {
			err = cmp.Or(err, change(ctx, store, r))
		}
		return err
	})
}

func newRecord() *ledger.Record {
	r := &ledger.Record{Key: rand.Text(), Queue: "queue", Owner: "owner", Body: make([]byte, swapBytes)}
	rand.Read(r.Body)
	return r
}

func change(ctx context.Context, store ledger.Store, r *ledger.Record) error {
	r.Keep = time.Now().Add(time.Hour)
	return store.Swap(ctx, r)
}

// turnServer takes turns of a tool of the server ledger as fast as that can.
func turnServer(args []string) http.Handler {
	h := ledgerServer(args)
	return batches(func(context.Context) error {
		return askAll(args[1], func(t *talk, id int, wanted string, last bool) error { return t.ask(h, id, wanted, last) })
	})
}

// besideServer takes the same turns without a ledger, and changes a record beside each that would
// be remembered, as often as that would be: what any server would have to do.
func besideServer(args []string) http.Handler {
	h, store, changes := ledgerServer([]string{""}), openStore(args[0]), changesOf[args[1]]
	return batches(func(ctx context.Context) error {
		r := newRecord()
		return askAll(args[1], func(t *talk, id int, wanted string, last bool) error {
			for range min(id, 1) * changes { // the first turn is not remembered
				if err := change(ctx, store, r); err != nil {
					return err
				}
			}
			return t.ask(h, id, wanted, last)
		})
	})
}

// changesOf says how often a turn of a tool changes its record.
var changesOf = map[string]int{"once": 1, "acting": 2}

// ask sends the saga's next request to a handler, without a network.
func (t *talk) ask(h http.Handler, id int, wanted string, last bool) error {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, t.httpRequest(id))
	return t.take(id, rec.Body.Bytes(), wanted, last)
}
