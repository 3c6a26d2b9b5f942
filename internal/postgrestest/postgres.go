// Package postgrestest starts a real PostgreSQL server: [Run] one for a test, [Shared] one for
// all tests of a package that are content with a database each. Tests import the driver "pgx",
// github.com/jackc/pgx/v5/stdlib, so that this package needs no module of its own.
package postgrestest

import (
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

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/longtests"
)

// Server is a PostgreSQL server that is running, or can be started again, as one test has it.
type Server struct {
	// Dir is the directory with the server's socket, which is that of port 5432.
	Dir string

	t       testing.TB
	bin     string
	who     *syscall.SysProcAttr
	options []string
	log     *os.File  // what its programs say
	process *exec.Cmd // nil while the server is down
}

// Run runs a server with the given settings and an empty database until the test ends, which
// can stop it and start it again. It skips the test where PostgreSQL is not installed, and
// where it was not asked for. Running a benchmark asks for it.
func Run(t testing.TB, settings ...string) *Server {
	t.Helper()
	s := create(t, settings...)
	t.Cleanup(s.remove)
	return s
}

// create runs a server, which is the caller's to remove.
func create(t testing.TB, settings ...string) *Server {
	t.Helper()
	if _, test := t.(*testing.T); test {
		longtests.OnlyIfWanted(t, "starts PostgreSQL")
	}
	s := &Server{t: t, bin: programs()}
	if s.bin == "" {
		Missing(t, "PostgreSQL (the programs initdb and postgres are in no directory of PATH and not below /usr/lib/postgresql)")
	}
	// The path of a socket must be short, so not t.TempDir.
	dir, err := os.MkdirTemp("", "pg")
	require.NoError(t, err)
	s.Dir = dir
	s.log, err = os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	up := false
	defer func() {
		if !up {
			s.remove()
		}
	}()
	s.who, err = Account(dir)
	require.NoError(t, err)
	s.options = []string{"-D", filepath.Join(dir, "data"), "-k", dir, "-c", "listen_addresses="}
	for _, setting := range settings {
		s.options = append(s.options, "-c", setting)
	}
	initdb := s.command("initdb", "-D", filepath.Join(dir, "data"), "-U", "postgres", "-A", "trust", "--no-sync")
	require.NoError(t, initdb.Run(), s.said())
	s.Up()
	up = true
	return s
}

// remove stops the server, by what PostgreSQL calls a fast shutdown, and removes its data.
func (s *Server) remove() {
	s.stop(syscall.SIGINT)
	_ = s.log.Close()
	_ = os.RemoveAll(s.Dir)
}

// Missing skips a test that needs a program which is not installed, or fails it where
// all programs are required.
func Missing(t testing.TB, program string) {
	t.Helper()
	longtests.Missing(t, longtests.Debian, program+" is not installed; .ci/debian installs it")
}

// DSN says how to connect to the server as its superuser, for pgx.
func (s *Server) DSN() string {
	return fmt.Sprintf("host=%s user=postgres dbname=postgres", s.Dir)
}

// URL says how to connect to a database of the server as a user. All passwords are right.
func (s *Server) URL(user, database string) string {
	return fmt.Sprintf("postgres://%s@/%s?host=%s", user, database, s.Dir)
}

// Up starts the server, on the data that it had, and waits until it can be used.
func (s *Server) Up() {
	s.t.Helper()
	s.process = s.command("postgres", s.options...)
	require.NoError(s.t, s.process.Start())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		err := run(ctx, s.DSN(), "")
		if err == nil {
			return
		}
		require.NoError(s.t, ctx.Err(), "PostgreSQL does not come up: %s", s.said())
		time.Sleep(20 * time.Millisecond)
	}
}

// Crash ends the server at once, as pg_ctl stop -m immediate does: connections break, and
// it must recover when it is started again.
func (s *Server) Crash() { s.stop(syscall.SIGQUIT) }

func (s *Server) stop(signal os.Signal) {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Signal(signal)
	_ = s.process.Wait()
	s.process = nil
}

// Exec runs statements as the superuser.
func (s *Server) Exec(sql string) {
	s.t.Helper()
	s.ExecIn("postgres", sql)
}

// ExecIn runs statements in another database.
func (s *Server) ExecIn(database, sql string) {
	s.t.Helper()
	ctx := context.Background() // also while the test cleans up
	require.NoError(s.t, run(ctx, s.URL("postgres", database), sql))
}

// run runs statements on a connection of its own.
func run(ctx context.Context, dsn, statements string) error {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, statements)
	return err
}

// command prepares one of PostgreSQL's programs.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(s.bin, name), args...)
	c.Stdout, c.Stderr, c.SysProcAttr, c.Dir = s.log, s.log, s.who, s.Dir
	return c
}

// said is what the programs have said so far.
func (s *Server) said() string {
	text, _ := os.ReadFile(s.log.Name())
	return string(text)
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
