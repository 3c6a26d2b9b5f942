package program

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/cmd/program/internal/keyfile"
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

// ledgerPause is how long a database that is away is left alone.
const ledgerPause = 2 * time.Second

func (p *program) ledgerFlag(otherwise string) cli.Flag {
	return p.stringFlag("ledger", "the `LEDGER`: "+ledgerForms+" (default: "+otherwise+")", "")
}

// ledgerOf returns what --ledger names, or the default, which is implied. The default is for who has a
// keyset of their own: one that is named is there to be shared with other servers, and all of these need
// one ledger.
func (p *program) ledgerOf(c *cli.Command) (name string, implied bool) {
	if name := c.String("ledger"); name != "" {
		return name, false
	}
	path, err := keyfile.Default(p.name)
	if c.String("keyset") != "" || err != nil {
		return ledgerOff, true
	}
	return ledgerSQLite + filepath.Join(filepath.Dir(path), ledgerFileName), true
}

// audienceOf returns what --audience names. Without it, and with this user's own ledger, stdio serves one directory: hosts start it in
// each project, and none may work on what another has begun. Values of the program's own flags, which may be secret, are hashed.
func (p *program) audienceOf(c *cli.Command) (string, error) {
	name, implied := p.ledgerOf(c)
	if given := p.server.Audience; given != "" || c.Name != "stdio" || !implied || name == ledgerOff {
		return given, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("%w\nStart it in a directory, or name an --audience", err)
	}
	h := sha256.New()
	if p.options.Flags != nil {
		p.options.Flags.VisitAll(func(f *flag.Flag) {
			if c.IsSet(f.Name) {
				fmt.Fprintf(h, "%s=%q\n", f.Name, c.Value(f.Name))
			}
		})
	}
	if sum := h.Sum(nil); !bytes.Equal(sum, sha256.New().Sum(nil)) {
		dir += fmt.Sprintf(" %x", sum[:4])
	}
	return "stdio " + strings.Trim(strconv.Quote(dir), `"`), nil // a directory's name may be anything
}

// shownLedger returns the name for a log: of a URL no user, no password and no parameters, which
// may hold one, and nothing of what is no ledger's name, as it may be a mistyped URL.
func shownLedger(name string) string {
	switch {
	case name == ledgerOff, name == ledgerMemory, strings.HasPrefix(name, ledgerSQLite):
		return name
	case !isPostgres(name):
		return "(not a ledger's name)"
	}
	u, err := url.Parse(name)
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

// openStore opens a ledger; nil is none.
func openStore(ctx context.Context, name string) (ledger.Store, error) {
	path, isSQLite := strings.CutPrefix(name, ledgerSQLite)
	switch {
	case name == ledgerOff:
		return nil, nil
	case name == ledgerMemory:
		return ledger.NewMemory(ledger.MemoryOptions{}), nil
	case isSQLite && path != "":
		return sqlite.Open(ctx, path)
	case isPostgres(name):
		return postgres.Open(ctx, name)
	}
	return nil, errNoSuchLedger
}

// isAway reports whether a database may be reached, and written, later, though nothing is changed
// here. A wrong password, or a database that does not exist, is for the operator to mend.
func isAway(err error) bool {
	if said, ok := errors.AsType[*pgconn.PgError](err); ok {
		// connection, resources, intervention (it starts or stops), system; read_only_sql_transaction (another is to be the primary)
		return slices.Contains([]string{"08", "53", "57", "58"}, said.Code[:min(2, len(said.Code))]) || said.Code == "25006"
	}
	return errors.As(err, new(*pgconn.ConnectError))
}

// openLedger opens the ledger of a server, and says which one it is. It waits for a database that is away,
// as servers and their database are often started together.
func (p *program) openLedger(ctx context.Context, c *cli.Command, log *slog.Logger) (ledger.Store, error) {
	name, implied := p.ledgerOf(c)
	store, err := openStore(ctx, name)
	for err != nil && isAway(err) && ctx.Err() == nil {
		log.Warn("the ledger cannot be reached or written, and is waited for", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(ledgerPause):
			store, err = openStore(ctx, name)
		}
	}
	switch {
	case errors.Is(err, errNoSuchLedger):
		return nil, p.usage(c, "%v", err)
	case err != nil && implied && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)):
		// As in a container that may write nothing: it needs none.
		log.Warn("there is no ledger: its file cannot be there; name another with --ledger", "error", err)
		return nil, nil
	case err != nil:
		return nil, failed(fmt.Errorf("%w\nMend that, or name another ledger; --ledger off is none", err))
	}
	log.Info("ledger", "ledger", shownLedger(name), "audience", p.server.Audience)
	return store, nil
}
