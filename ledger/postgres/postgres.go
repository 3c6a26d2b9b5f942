// Package postgres keeps a ledger in PostgreSQL, for servers on several machines.
//
//	store, err := postgres.Open(ctx, "postgres://user:password@db.example.com/app")
//	if err != nil { … }
//	defer store.Close()
//	s, err := server.New(server.Options{Ledger: store, Keys: keys, Tools: tools})
//
// The tables are in a schema of their own, mcpsaga_ledger, which Open creates and brings
// up to date; any number of servers can do so at once. A role that may not create schemas
// is enough where it is there already:
//
//	GRANT USAGE ON SCHEMA mcpsaga_ledger TO app;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA mcpsaga_ledger TO app;
//
// Changes by other processes are seen by LISTEN and NOTIFY, which takes one connection
// while somebody waits, besides those of the pool. Behind a pooler such as PgBouncer
// connections are shared. The store notices that by itself: it then asks for changes several
// times a second instead, and uses no prepared statements.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// settings are what tests vary.
type settings struct {
	// patience is how long one request to the database may take at most. It bounds what a
	// database that hangs does to callers that set no deadline of their own.
	patience time.Duration
	// quiet is after how long without a notification it is looked whether the connection that
	// listens is still alive, and needed.
	quiet time.Duration
	// look is how often watched records are looked at, and takers look out, while the server tells of
	// changes, in case that something is missed.
	look time.Duration
	// gather is for how long changes are gathered before others are told of them. A
	// NOTIFY in each transaction would have commits wait for one another.
	gather time.Duration
}

func usual() settings {
	return settings{patience: 10 * time.Second, quiet: 10 * time.Second, look: time.Second, gather: 20 * time.Millisecond}
}

// store implements [ledger.Store].
type store struct {
	settings
	pool  *pgxpool.Pool
	hub   hub
	swaps chan *swap
	tell  teller

	ctx  context.Context // ends when the store is closed, with ledger.ErrClosed
	end  context.CancelCauseFunc
	work sync.WaitGroup // the goroutines of the store
}

// Open connects to a database and returns the ledger in it. The URL is as for psql and
// other programs that use libpq (https://www.postgresql.org/docs/current/libpq-connect.html),
// with several hosts if need be (target_session_attrs=read-write then finds the one that can
// be written), and with the parameters of pgxpool, of which pool_max_conns is how many
// connections are used at most (default: the number of processors, at least 4).
// default_query_exec_mode=exec does without prepared statements also where Open sees no
// pooler.
//
// It fails if the database cannot be reached, cannot be written, or if its tables are of a
// version that this program cannot use. No error names the password.
//
// After Open the database may go away and come back: calls fail meanwhile. A call that gets
// no answer fails after 10 seconds.
func Open(ctx context.Context, url string) (ledger.Store, error) {
	return open(ctx, url, usual())
}

func open(ctx context.Context, url string, set settings) (ledger.Store, error) {
	config, err := parse(url)
	if err != nil {
		return nil, err
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		// Less than callers wait: while one connects in vain, it is one connection less.
		config.ConnConfig.ConnectTimeout = set.patience / 3
	}
	ctx, cancel := context.WithTimeout(ctx, 6*set.patience) // others may be migrating
	defer cancel()
	// A connection that breaks in the midst is not yet a database that is gone.
	for end := time.Now().Add(set.patience); ; time.Sleep(10 * time.Millisecond) {
		if err = prepare(ctx, config); err == nil {
			break
		}
		if !broken(err) || time.Now().After(end) || ctx.Err() != nil {
			return nil, err
		}
	}
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	if err != nil {
		return nil, fmt.Errorf("ledger/postgres: %w", err)
	}
	s := &store{settings: set, pool: pool, swaps: make(chan *swap)}
	s.hub.init()
	s.tell.init()
	s.ctx, s.end = context.WithCancelCause(context.Background())
	for range writers {
		s.work.Go(s.write)
	}
	s.work.Go(s.announce)
	s.work.Go(s.listen)
	s.work.Go(s.poll)
	return s, nil
}

// Close implements [ledger.Store]. It waits for what is being written.
func (s *store) Close() error {
	s.end(ledger.ErrClosed)
	s.work.Wait()
	s.pool.Close()
	return nil
}

// parse reads a URL. What the parser says about one that it cannot read may quote it, and
// with it the password, so this is only repeated without it.
func parse(at string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(at)
	if err == nil {
		if config.ConnConfig.RuntimeParams["application_name"] == "" {
			config.ConnConfig.RuntimeParams["application_name"] = "mcpsaga"
		}
		return config, nil
	}
	why := "its form is postgres://user:password@host:port/database, and @ : / ? # and % in the password must be percent-encoded"
	if u, bad := url.Parse(at); bad == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql") {
		text := err.Error()
		// The parser's message begins with the URL in quotes, its passwords made
		// unreadable as well as it can. Only what follows is of use.
		if i := strings.LastIndexByte(text, '`'); i >= 0 {
			text = strings.TrimLeft(text[i+1:], ": ")
		}
		secrets := append([]string{}, u.Query()["password"]...)
		secrets = append(secrets, u.Query()["sslpassword"]...)
		if password, ok := u.User.Password(); ok {
			secrets = append(secrets, password, strings.TrimPrefix(u.User.String(), url.User(u.User.Username()).String()+":"))
		}
		quoted := false
		for _, secret := range secrets {
			quoted = quoted || secret != "" && strings.Contains(text, secret)
		}
		if !quoted {
			why = text
		}
	}
	return nil, fmt.Errorf("ledger/postgres: the database's URL cannot be used: %s", why)
}

// prepare looks at the server, and has the tables created. It uses a connection of its
// own, as how the pool is to work depends on what is found.
func prepare(ctx context.Context, config *pgxpool.Config) error {
	plain := config.ConnConfig.Copy()
	plain.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, plain)
	if err != nil {
		return fmt.Errorf("ledger/postgres: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	shared, err := pooled(ctx, conn)
	if err != nil {
		return fmt.Errorf("ledger/postgres: %w", err)
	}
	// A pooler may execute each transaction on another connection, where what was
	// prepared before is not known.
	if mode := &config.ConnConfig.DefaultQueryExecMode; shared && *mode != pgx.QueryExecModeSimpleProtocol {
		*mode = pgx.QueryExecModeExec
	}
	if _, err := now(ctx, conn); err != nil {
		return err
	}
	if err := durable(ctx, conn); err != nil {
		return err
	}
	return migrate(ctx, conn)
}

// durable fails if the server says that something is written when it is not on disk yet.
func durable(ctx context.Context, conn *pgx.Conn) error {
	var setting string
	if err := conn.QueryRow(ctx, `SELECT current_setting('synchronous_commit')`).Scan(&setting); err != nil {
		return fmt.Errorf("ledger/postgres: %w", err)
	}
	if setting == "off" {
		return unusable("ledger/postgres: synchronous_commit is off, so the database would forget what it has acknowledged: set it for this role, by ALTER ROLE … SET synchronous_commit = on")
	}
	return nil
}

// pooled says whether there is a pooler between this program and the server: the server
// then runs in another process than it said at the start.
func pooled(ctx context.Context, conn *pgx.Conn) (bool, error) {
	var pid uint32
	err := conn.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&pid)
	return pid != conn.PgConn().PID(), err
}

// bound returns a context for one request to the database: it ends with its parent, with
// the store, and after a while.
func (s *store) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// failed says why something failed that was given ctx by its caller.
func (s *store) failed(ctx context.Context, what string, err error) error {
	switch {
	case s.ctx.Err() != nil:
		return fmt.Errorf("ledger/postgres: %s: %w", what, ledger.ErrClosed)
	case ctx.Err() != nil:
		return fmt.Errorf("ledger/postgres: %s: %w", what, ctx.Err())
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("ledger/postgres: %s: the database does not answer: %w", what, err)
	}
	return fmt.Errorf("ledger/postgres: %s: %w", what, err)
}
