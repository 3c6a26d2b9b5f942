package interop

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"time"

	"github.com/mcpsaga/mcpsaga/cmd/program"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// runbookChild is the argument with which the test's binary is a program for operators to look after.
const runbookChild = "runbook"

// serveRunbook runs that program: the tools of the rollout, one that takes its server down, and a clock that can be wrong.
func serveRunbook() {
	flags := flag.NewFlagSet("runbook", flag.ContinueOnError)
	dir := flags.String("books", ".", "where effects are kept")
	ahead := flags.Duration("ahead", 0, "by how much the clock of this process is ahead")
	program.Main(program.Options{
		Server: server.Options{Name: "runbook"}, Flags: flags,
		Setup: func(_ context.Context, o *server.Options) error {
			o.Now = func() time.Time { return time.Now().Add(*ahead) }
			o.Tools = []saga.Definition{
				rolloutOrder("order", saga.TasksForbidden, 1, *dir), rolloutOrder("order_task", saga.TasksRequired, 1, *dir),
				poison(*dir), parcel(*dir),
			}
			return nil
		},
	})
}

// poison books, asks, and then takes its server down in each turn, until there is a file "mended". With a file "stuck" its undo
// does so, too.
func poison(dir string) saga.Definition {
	sure := &steps.Form[sureForm]{ID: "sure", Message: "Shall I?"}
	book := kept(dir, "book")
	undo := book.Undo
	book.Undo = func(ctx context.Context, p saga.Performed[string, string]) error {
		if exists(dir, "stuck") {
			os.Exit(3)
		}
		return undo(ctx, p)
	}
	return saga.Flow[none, string]{
		Info: saga.Info{Name: "poison", Tasks: saga.Tasks{Mode: saga.TasksRequired}, Asks: []steps.Question{sure}, Effects: []saga.Declared{book}},
		Run: func(r *saga.Run, _ none) (string, error) {
			if _, err := saga.Do(r, book, r.ID().String()); err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, sure); err != nil {
				return "", err
			}
			if !exists(dir, "mended") { //sagavet:ignore it is to take its server down
				dies(dir)
			}
			return "survived", nil
		},
	}
}

// dies notes that a server goes down, and takes it down.
func dies(dir string) {
	f, err := os.OpenFile(filepath.Join(dir, "deaths"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, _ = f.WriteString("x")
	}
	os.Exit(3)
}

func exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return !errors.Is(err, os.ErrNotExist)
}

// parcel writes the handle of its arrival down, and waits for that.
func parcel(dir string) saga.Definition {
	arrived := &steps.Event[sureForm]{ID: "arrived", Message: "The parcel arrives.", Within: time.Hour}
	label := &saga.Effect[string, string]{
		Name: "label",
		Do: func(_ context.Context, _ saga.Key, handle string) (string, error) {
			return "", os.WriteFile(filepath.Join(dir, "handle"), []byte(handle), 0o600)
		},
		Undo: func(context.Context, saga.Performed[string, string]) error { return nil },
	}
	return saga.Flow[none, string]{
		Info: saga.Info{Name: "parcel", Tasks: saga.Tasks{Mode: saga.TasksRequired}, Asks: []steps.Question{arrived}, Effects: []saga.Declared{label}},
		Run: func(r *saga.Run, _ none) (string, error) {
			handle, err := saga.Handle(r, arrived)
			if err != nil {
				return "", err
			}
			if _, err := saga.Do(r, label, handle); err != nil {
				return "", err
			}
			_, err = saga.Ask(r, arrived)
			return "arrived", err
		},
	}
}
