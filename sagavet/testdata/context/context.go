// Package context has tools that ignore their context, and some that do not.
package context

import (
	"context"
	"database/sql"
	"log/slog"
	"net/http"
	"os/exec"
	"time"

	"github.com/mcpsaga/mcpsaga/saga"
)

type form struct{}

type turn = saga.Turn[form, form]

var background = context.Background()

func tool(ctx context.Context, db *sql.DB) []*saga.Effect[string, string] {
	return []*saga.Effect[string, string]{{
		Name: "literal",
		Do: func(_ context.Context, _ saga.Key, in string) (string, error) {
			_, err := db.ExecContext(ctx, in) // want `this context is another one's`
			if err != nil {
				_, err = db.Exec(in) // want `sql.Exec has no context`
			}
			return "", err
		},
		Undo: func(ctx context.Context, p saga.Performed[string, string]) error {
			time.Sleep(2 * time.Second) // want `time.Sleep has no context`
			call(context.TODO())        // want `context.TODO never ends`
			call(background)            // want `this context is another one's`
			_, err := http.Get(p.In)    // want `http.Get has no context`
			return err
		},
	}}
}

func call(context.Context) {}

type service struct {
	ctx context.Context
	db  *sql.DB
}

func (s *service) book(context.Context, saga.Key, string) (string, error) {
	call(s.ctx)                     // want `this context is another one's`
	if err := fetch(); err != nil { // want `fetch uses http.NewRequest`
		return "", err
	}
	return "", exec.Command("true").Run() // want `exec.Command has no context`
}

func fetch() error {
	_, err := http.NewRequest(http.MethodGet, "http://localhost", nil)
	return err
}

func step(t *turn) (saga.Next, error) {
	for range 3 {
		time.Sleep(time.Minute) // want `the step function holds its turn while it waits`
	}
	return t.Textf("done")
}

func flow(r *saga.Run, _ form) (string, error) {
	call(context.Background()) // want `context.Background never ends`
	return "done", nil
}

// What follows is as it should be.

func (s *service) pay(ctx context.Context, _ saga.Key, in string) (string, error) {
	ctx, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return "", err
	}
	defer call(context.Background())
	slog.Info("paying", "for", in)
	go func() { <-s.ctx.Done() }()
	if err := s.within(ctx, func(ctx context.Context) error { return exec.CommandContext(ctx, "true").Run() }); err != nil {
		return "", err
	}
	call(context.WithoutCancel(ctx))
	return "", tx.Commit()
}

func (s *service) within(ctx context.Context, f func(context.Context) error) error { return f(ctx) }

func memory(_ context.Context, _ saga.Key, in string) (string, error) {
	time.Sleep(time.Millisecond)
	return in, nil
}

func waits(t *turn) (saga.Next, error) {
	call(t)
	return t.Sleep(time.Minute, "waits")
}

func main() {
	_, _ = http.Get("http://localhost")
	call(context.Background())
}
