package postgres_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/longtests"
	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
)

// pooler is a PgBouncer before a server, in transaction mode.
type pooler struct{ dir string }

func (p pooler) url(database string) string {
	return fmt.Sprintf("postgres://postgres@/%s?host=%s&port=6432", database, p.dir)
}

// startPooler runs PgBouncer until the test ends, where that was asked for.
func startPooler(t testing.TB, server *postgrestest.Server) pooler {
	t.Helper()
	longtests.OnlyIfWanted(t, "starts PgBouncer")
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer"
	}
	if _, err := os.Stat(program); err != nil {
		postgrestest.Missing(t, "PgBouncer")
	}
	dir, err := os.MkdirTemp("", "pb")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	who, err := postgrestest.Account(dir)
	require.NoError(t, err)
	config := filepath.Join(dir, "ini")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `[databases]
* = host=%s user=postgres
[pgbouncer]
listen_port = 6432
unix_socket_dir = %s
auth_type = any
pool_mode = transaction
default_pool_size = 5
max_client_conn = 1000
`, server.Dir, dir), 0o644))
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	defer func() { _ = log.Close() }()
	run := exec.Command(program, config)
	run.Stdout, run.Stderr, run.SysProcAttr, run.Dir = log, log, who, dir
	require.NoError(t, run.Start())
	t.Cleanup(func() {
		_ = run.Process.Signal(syscall.SIGQUIT) // at once
		_ = run.Wait()
	})
	p := pooler{dir}
	require.Eventually(t, func() bool {
		conn, err := pgx.Connect(t.Context(), p.url("postgres")+"&default_query_exec_mode=exec")
		if err != nil {
			return false
		}
		return conn.Close(t.Context()) == nil
	}, 30*time.Second, 20*time.Millisecond, "PgBouncer does not come up")
	return p
}
