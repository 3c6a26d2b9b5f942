// Package postgres keeps a ledger in PostgreSQL 13 or newer, for servers on several machines.
//
//	store, err := postgres.Open(ctx, "postgres://user:password@db.example.com/app")
//	if err != nil { … }
//	defer store.Close()
//	s, err := server.New(server.Options{Ledger: store, Keys: keys, Tools: tools})
//
// The tables are in a schema of their own, mcpsaga_ledger, which Open creates; any number of
// servers can do so at once. A role that may not create schemas is enough where it is there already:
//
//	GRANT USAGE ON SCHEMA mcpsaga_ledger TO app;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA mcpsaga_ledger TO app;
//
// Each call is one round trip. Processes tell one another of writes by LISTEN and NOTIFY, which takes one
// connection besides those of the pool. Behind a pooler such as PgBouncer, which the store notices, listeners
// look for themselves twice a second, and no statements are prepared.
package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// settings are what tests vary.
type settings struct {
	// patience is how long one request may take at most, also of callers that set no deadline.
	patience time.Duration
	// gather is for how long changes are gathered before others are notified of them. A NOTIFY in each
	// transaction would have commits wait for one another.
	gather time.Duration
	// connect changes how connections are made.
	connect func(*pgx.ConnConfig)
}

func usual() settings {
	return settings{patience: 10 * time.Second, gather: 2 * time.Millisecond, connect: func(*pgx.ConnConfig) {}}
}

type database struct {
	settings
	pool *pgxpool.Pool
	jobs chan *job

	listeners store.Listeners
	came      chan struct{} // has something as soon as there is one
	notified  atomic.Bool   // whether the server notifies of writes by other processes

	self      string // what this process begins its messages with
	gathering sync.Mutex
	heads     map[store.ID]uint64 // of what others are to be notified of; the zero ID if anything may have changed
	full      chan struct{}       // has something when there are some

	ctx  context.Context // ends when the store is closed
	end  context.CancelFunc
	work sync.WaitGroup // the goroutines of the store
}

// Open connects to a database and returns the store in it. The URL is as for psql and
// other programs that use libpq (https://www.postgresql.org/docs/current/libpq-connect.html),
// with several hosts if need be (target_session_attrs=read-write then finds the one that can
// be written), and with the parameters of pgxpool, of which pool_max_conns is how many
// connections are used at most (default: the number of processors, at least 4).
// default_query_exec_mode=exec does without prepared statements also where Open sees no pooler. What roles and
// databases set for their sessions does no harm, but datestyle and bytea_output do with these exec modes and simple_protocol.
//
// It fails if the database cannot be reached or written, or if its tables are of a version that this
// program cannot use. No error names the password. After Open the database may go away and
// come back: calls fail meanwhile. A call that gets no answer fails after 10 seconds.
func Open(ctx context.Context, url string) (ledger.Store, error) {
	return open(ctx, url, usual())
}

func open(ctx context.Context, url string, set settings) (store.Store, error) {
	config, err := parse(url)
	if err != nil {
		return nil, err
	}
	set.connect(config.ConnConfig)
	if config.ConnConfig.ConnectTimeout == 0 {
		// Less than callers wait: while one connects in vain, it is one connection less.
		config.ConnConfig.ConnectTimeout = set.patience / 3
	}
	ctx, cancel := context.WithTimeout(ctx, 6*set.patience) // others may be creating the tables
	defer cancel()
	if err := prepare(ctx, config); err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	if err != nil {
		return nil, wrapped("open", err)
	}
	d := &database{
		settings: set, pool: pool, jobs: make(chan *job), came: make(chan struct{}, 1),
		self: rand.Text(), heads: map[store.ID]uint64{}, full: make(chan struct{}, 1),
	}
	d.ctx, d.end = context.WithCancel(context.Background())
	for range writers {
		d.work.Go(d.writeJobs)
	}
	d.work.Go(d.notify)
	d.work.Go(d.listen)
	return d, nil
}

// Close waits, for a while, for what is being written.
func (d *database) Close() error {
	d.end()
	d.work.Wait()
	d.pool.Close()
	return nil
}

// parse reads a URL. What the parser says about one that it cannot read may quote it, and
// with it the password, so this is only repeated without it.
func parse(at string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(at)
	if err == nil {
		params := config.ConnConfig.RuntimeParams
		params["application_name"] = cmp.Or(params["application_name"], "mcpsaga")
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
		secrets := append(u.Query()["password"], u.Query()["sslpassword"]...)
		if password, ok := u.User.Password(); ok {
			secrets = append(secrets, password, strings.TrimPrefix(u.User.String(), url.User(u.User.Username()).String()+":"))
		}
		if !slices.ContainsFunc(secrets, func(secret string) bool { return secret != "" && strings.Contains(text, secret) }) {
			why = text
		}
	}
	return nil, fmt.Errorf("postgres: the database's URL cannot be used: %s", why)
}

// unprepared does without prepared statements. QueryExecModeExec would too, but reads text, in which
// the role or the database may have times and bytes written otherwise (datestyle, bytea_output).
const unprepared = pgx.QueryExecModeCacheDescribe

// prepare looks at the server, on which depends how the pool is to work, and has the tables created.
func prepare(ctx context.Context, config *pgxpool.Config) error {
	plain := config.ConnConfig.Copy()
	plain.DefaultQueryExecMode = unprepared
	conn, err := pgx.ConnectConfig(ctx, plain)
	if err != nil {
		return wrapped("connect", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, pid, err := seen(conn.QueryRow(ctx, look))
	if err != nil {
		return wrapped("look at the server", err)
	}
	// A pooler may execute each transaction on another connection, which does not know what was prepared.
	if mode := &config.ConnConfig.DefaultQueryExecMode; pid != conn.PgConn().PID() && *mode != pgx.QueryExecModeSimpleProtocol {
		*mode = unprepared
	}
	return prepareTables(ctx, conn)
}

// look reads the server's clock, and in which process it runs: if that is not the one which it named at the start,
// there is a pooler in between.
const look = `SELECT clock_timestamp(), pg_backend_pid(), current_setting('transaction_read_only')::bool, current_setting('synchronous_commit') = 'off'`

// seen reads what look has found. It fails if the server cannot be written, or acknowledges what is not on disk.
func seen(row pgx.Row) (at time.Time, pid uint32, err error) {
	var fixed, lax bool
	err = row.Scan(&at, &pid, &fixed, &lax)
	switch {
	case err == nil && fixed:
		err = &pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: readOnly, Message: "the database can only be read: it is a standby, or the role or the database is set so; give the address of the primary (several hosts with target_session_attrs=read-write find it)"}
	case err == nil && lax:
		err = errors.New("synchronous_commit is off, so the database would forget what it has acknowledged: set it for this role, by ALTER ROLE … SET synchronous_commit = on")
	}
	return at.UTC(), pid, err
}
