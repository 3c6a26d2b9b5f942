package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/keyfile"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/late"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
)

// Kinds of ledgers, as --ledger names them.
const (
	ledgerOff      = "off"
	ledgerMemory   = "memory"
	ledgerSQLite   = "sqlite:"
	ledgerForms    = "off, memory, sqlite:PATH or postgres://USER@HOST/DATABASE"
	ledgerFileName = "ledger.db"
)

func ledgerFlag(otherwise string) cli.Flag {
	return stringFlag("ledger", "the `LEDGER`: "+ledgerForms+" (default: "+otherwise+")", "")
}

// ledgerName is a ledger that a user has named.
type ledgerName struct {
	// name is what --ledger says, or the default.
	name string
	// implied: it was not named.
	implied bool
}

// ledgerOf returns what --ledger names. The default is for who has a keyset of their own:
// one that is named is there to be shared with other servers, and all of these need one
// ledger.
func ledgerOf(c *cli.Command) ledgerName {
	if name := c.String("ledger"); name != "" {
		return ledgerName{name: name}
	}
	if c.String("keyset") != "" {
		return ledgerName{ledgerOff, true}
	}
	path, err := keyfile.Default()
	if err != nil {
		return ledgerName{ledgerOff, true}
	}
	return ledgerName{ledgerSQLite + filepath.Join(filepath.Dir(path), ledgerFileName), true}
}

// String returns the name for a log: of a URL no user, no password and no parameters, which
// may hold one.
func (l ledgerName) String() string {
	if !isPostgres(l.name) {
		return l.name
	}
	u, err := url.Parse(l.name)
	if err != nil {
		return "postgres"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

func isPostgres(name string) bool {
	return strings.HasPrefix(name, "postgres://") || strings.HasPrefix(name, "postgresql://")
}

// errNoSuchLedger does not repeat what was given: it may be a URL with a password and a
// mistyped scheme.
var errNoSuchLedger = errors.New("--ledger is none of " + ledgerForms)

// open opens the ledger; nil is none. The server of a database may be away: then it is
// waited for, if that is what is wanted.
func (l ledgerName) open(ctx context.Context, log *slog.Logger, wait bool) (ledger.Store, error) {
	path, isSQLite := strings.CutPrefix(l.name, ledgerSQLite)
	switch {
	case l.name == ledgerOff:
		return nil, nil
	case l.name == ledgerMemory:
		return ledger.NewMemory(ledger.MemoryOptions{}), nil
	case isSQLite && path != "":
		return sqlite.Open(ctx, path)
	case isPostgres(l.name) && wait:
		return late.Open(ctx, log, l.postgres, isAway)
	case isPostgres(l.name):
		return l.postgres(ctx)
	}
	return nil, errNoSuchLedger
}

func (l ledgerName) postgres(ctx context.Context) (ledger.Store, error) {
	return postgres.Open(ctx, l.name)
}

// isAway reports whether a database may be reached later, though nothing is changed
// here. A wrong password, or a database that does not exist, is for the operator to mend.
func isAway(err error) bool {
	if said, ok := errors.AsType[*pgconn.PgError](err); ok {
		// connection, resources, intervention (it starts or stops), system
		return slices.Contains([]string{"08", "53", "57", "58"}, said.Code[:min(2, len(said.Code))])
	}
	return errors.As(err, new(*pgconn.ConnectError))
}

// openLedger opens the ledger of a server, and says which one it is.
func (p *program) openLedger(ctx context.Context, c *cli.Command, log *slog.Logger) (ledger.Store, error) {
	l := ledgerOf(c)
	store, err := l.open(ctx, log, true)
	switch {
	case errors.Is(err, errNoSuchLedger):
		return nil, p.usage(c, "%v", err)
	case err != nil && l.implied && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)):
		// As in a container that may write nothing: it needs none.
		log.Warn("there is no ledger: its file cannot be there; name another with --ledger", "error", err)
		return nil, nil
	case err != nil:
		return nil, failed(fmt.Errorf("%w\nMend that, or name another ledger; --ledger off is none", err))
	}
	log.Info("ledger", "ledger", l.String())
	return store, nil
}

func closeStore(store ledger.Store) {
	if store != nil {
		_ = store.Close() // what it has acknowledged is there
	}
}
