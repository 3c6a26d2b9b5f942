// Package postgrestest starts a real PostgreSQL server for a test.
package postgrestest

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/stretchr/testify/require"
)

// Require is the environment variable that, if it is set, makes a missing PostgreSQL
// a failure rather than a reason to skip.
const Require = "SAGA_REQUIRE_DEBIAN"

// Start runs a server with an empty database until the test ends, and returns how to
// connect to it, for pgx. It skips the test where PostgreSQL is not installed.
func Start(t testing.TB) string {
	t.Helper()
	bin := programs()
	if bin == "" {
		if os.Getenv(Require) != "" {
			t.Fatal("PostgreSQL is not installed: its programs initdb and postgres are in no directory of PATH and not below /usr/lib/postgresql")
		}
		t.Skip("PostgreSQL is not installed")
	}
	// The path of a socket must be short, so not t.TempDir.
	dir, err := os.MkdirTemp("", "pg")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	who, err := account(dir)
	require.NoError(t, err)
	var log bytes.Buffer
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", filepath.Join(dir, "data"), "-U", "postgres", "-A", "trust", "--no-sync")
	initdb.Stdout, initdb.Stderr, initdb.SysProcAttr, initdb.Dir = &log, &log, who, dir
	require.NoError(t, initdb.Run(), log.String())

	// Nothing here survives the test, so nothing waits for the disk.
	server := exec.Command(filepath.Join(bin, "postgres"), "-D", filepath.Join(dir, "data"), "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off")
	server.Stdout, server.Stderr, server.SysProcAttr, server.Dir = &log, &log, who, dir
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGINT) // what PostgreSQL calls a fast shutdown
		_ = server.Wait()
	})
	at := fmt.Sprintf("host=%s user=postgres dbname=postgres", dir)
	db, err := sql.Open("pgx", at)
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for db.PingContext(ctx) != nil {
		require.NoError(t, ctx.Err(), "PostgreSQL does not come up")
		time.Sleep(20 * time.Millisecond)
	}
	return at
}

// programs returns the directory of PostgreSQL's programs, of the newest version if
// there are several.
func programs() string {
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path)
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(slices.Max(found))
}
