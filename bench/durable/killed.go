package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
)

// kill kills a process while it runs the second step of a piece of work, with another
// process beside it, and tells how long it takes until that one runs the step. If that does not
// come, a process is started with the name of the one that was killed.
func (p plan) kill(ctx context.Context, s system, dir string, server *postgrestest.Server) (string, error) {
	at := place{Keys: filepath.Join(dir, "keys"), Executor: "victim"}
	if s.store == "sqlite" {
		private := filepath.Join(dir, s.name+"-killed")
		if err := os.Mkdir(private, 0o700); err != nil {
			return "", err
		}
		at.Target = filepath.Join(private, "work.db")
	} else {
		database := "killed_" + strings.ToLower(s.name)
		server.Exec("CREATE DATABASE " + database)
		at.Target = fmt.Sprintf("host=%s user=postgres dbname=%s", server.Dir, database)
	}
	victim, err := startChild(ctx, s, at, "stuck")
	if err != nil {
		return "", err
	}
	defer victim.kill()
	if _, err := victim.tell(ctx, order{Callers: 1}); err != nil { // and it is in the step
		return "", err
	}
	at.Executor = "heir"
	heir, err := startChild(ctx, s, at, "heir")
	if err != nil {
		return "", err
	}
	defer func() { heir.end() }()
	time.Sleep(2 * time.Second) // it is at rest
	killed := time.Now()
	victim.kill()
	waiting, cancel := context.WithTimeout(ctx, p.killed)
	defer cancel()
	switch _, err := heir.answer(waiting); {
	case err == nil:
		return fmt.Sprintf("%.1f s", time.Since(killed).Seconds()), nil
	case !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil:
		return "", err
	}
	heir.end()
	at.Executor = "victim"
	again := time.Now()
	same, err := startChild(ctx, s, at, "heir")
	if err != nil {
		return "", err
	}
	defer same.end()
	waiting, cancelAgain := context.WithTimeout(ctx, 10*time.Second)
	defer cancelAgain()
	if _, err := same.answer(waiting); err != nil {
		return fmt.Sprintf("not within %v", p.killed), ctx.Err()
	}
	return fmt.Sprintf("not within %v; by a new process of the same name %.1f s", p.killed, time.Since(again).Seconds()), nil
}
