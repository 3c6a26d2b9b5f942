package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
)

// startPostgres starts a server with its default settings, and makes sure that what it has
// committed is on the disk. The server is stopped by cleanup, also if there is an error.
func startPostgres(ctx context.Context) (server *postgrestest.Server, version string, cleanup func(), err error) {
	t := new(outsider)
	cleanup = t.clean
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		default:
			panic(r)
		}
	}()
	server = postgrestest.Run(t)
	conn, err := pgx.Connect(ctx, server.DSN())
	if err != nil {
		return server, "", cleanup, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var fsync, commit string
	err = conn.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit')`).Scan(&version, &fsync, &commit)
	if err == nil && (fsync != "on" || commit != "on") {
		err = fmt.Errorf("PostgreSQL is set to fsync=%s, synchronous_commit=%s", fsync, commit)
	}
	return server, version, cleanup, err
}

// outsider stands in for a test, for package postgrestest.
type outsider struct {
	testing.TB
	last []func()
}

type failure struct{ error }

func (*outsider) Helper()                             {}
func (o *outsider) Cleanup(f func())                  { o.last = append(o.last, f) }
func (*outsider) Errorf(format string, args ...any)   { panic(failure{fmt.Errorf(format, args...)}) }
func (o *outsider) Fatalf(format string, args ...any) { o.Errorf(format, args...) }
func (o *outsider) Skipf(format string, args ...any)  { o.Errorf(format, args...) }
func (o *outsider) FailNow()                          { panic(failure{errors.New("it failed")}) }

func (o *outsider) clean() {
	for _, f := range o.last {
		f()
	}
	o.last = nil
}

// backends tells what a server of PostgreSQL has used: all of its processes, also those that
// have ended.
type backends struct {
	postmaster int
	tick       time.Duration
}

func backendsOf(server *postgrestest.Server) (backends, error) {
	text, err := os.ReadFile(filepath.Join(server.Dir, "data", "postmaster.pid"))
	if err != nil {
		return backends{}, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	return backends{pid, time.Second / 100}, err
}

// used reads /proc. The time of processes that live is exact, and that of those that have ended
// is counted in hundredths of a second.
func (b backends) used() (total time.Duration, err error) {
	processes, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	found := false
	for _, name := range processes {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has just ended
		}
		pid, rest, _ := strings.Cut(string(text), " (")
		fields := strings.Fields(rest[strings.LastIndex(rest, ")")+1:]) // from the third on
		if len(fields) < 15 {
			continue
		}
		number := func(n int) time.Duration { // as proc(5) counts the fields
			v, _ := strconv.ParseInt(fields[n-3], 10, 64)
			return time.Duration(v)
		}
		parent := int(number(4))
		if pid == strconv.Itoa(b.postmaster) {
			found = true
			total += (number(16) + number(17)) * b.tick // of children that were waited for
		} else if parent != b.postmaster {
			continue
		}
		ran := (number(14) + number(15)) * b.tick
		if text, err := os.ReadFile(filepath.Join(filepath.Dir(name), "schedstat")); err == nil {
			first, _, _ := strings.Cut(string(text), " ")
			if ns, err := strconv.ParseInt(first, 10, 64); err == nil {
				ran = time.Duration(ns)
			}
		}
		total += ran
	}
	if !found {
		return 0, errors.New("the server of PostgreSQL is gone")
	}
	return total, nil
}
