package durable

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	_ "github.com/dbos-inc/dbos-transact-golang/dbos/driver/sqlite"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// dbosWork is DBOS Transact. Its workflows are started directly, which is faster than by its queues,
// as those are polled.
type dbosWork struct{ ctx dbos.Context }

func openDBOS(ctx context.Context, target string) (worker, error) {
	config := dbos.Config{AppName: "bench", ApplicationVersion: "1", Logger: slog.New(slog.DiscardHandler)}
	if strings.HasPrefix(target, "/") {
		// As it opens a file by itself, but for synchronous, which is NORMAL there: what is committed has
		// to be on the disk, as with the others.
		set := url.Values{"_txlock": {"immediate"}, "_pragma": {"journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(5000)", "foreign_keys(1)"}}
		db, err := sql.Open("sqlite", "file:"+target+"?"+set.Encode())
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(8)
		db.SetMaxIdleConns(4)
		config.SQLiteSystemDB = db
	} else {
		config.DatabaseURL = target + fmt.Sprintf(" pool_max_conns=%d", most)
	}
	c, err := dbos.NewContext(ctx, config)
	if err != nil {
		return nil, err
	}
	dbos.RegisterWorkflow(c, dbosWorkflow, dbos.WithWorkflowName("steps"))
	return dbosWork{c}, dbos.Launch(c)
}

func dbosWorkflow(ctx dbos.Context, _ string) (n int, err error) {
	for range 3 {
		n, err = dbos.RunAsStep(ctx, func(context.Context) (int, error) { return n + 1, nil })
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

func (d dbosWork) Do(context.Context) error {
	handle, err := dbos.RunWorkflow(d.ctx, dbosWorkflow, "")
	if err != nil {
		return err
	}
	n, err := handle.GetResult()
	if err == nil && n != 3 {
		err = wrong(n)
	}
	return err
}

func (d dbosWork) Close() { _ = dbos.Shutdown(d.ctx, 5*time.Second) }
