package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
)

// subject is a system that is being measured.
type subject struct {
	system
	place
	*child
	server *backends // nil if it uses none

	loads [][]sample // by the index in inFlight, then by round
	idle  usage      // what it uses in a second of doing nothing
	taken string     // how another process takes over
}

// sample is one measurement.
type sample struct {
	rate      float64 // pieces of work in a second
	cpu, half time.Duration
}

func (p plan) run(ctx context.Context) (err error) {
	list := chosen(p.only)
	if len(list) == 0 {
		return fmt.Errorf("there is no system %s", p.only)
	}
	dir, err := os.MkdirTemp("", "durable")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	keys, err := codec.NewKeyset()
	if err != nil {
		return err
	}
	if err := keys.WriteFile(filepath.Join(dir, "keys")); err != nil {
		return err
	}
	var cleanups []func()
	var mu sync.Mutex
	defer func() {
		for _, f := range cleanups {
			f()
		}
	}()
	// The last subject of PostgreSQL is for processes that are killed.
	subjects := make([]*subject, len(list))
	version := ""
	var heirs *postgrestest.Server
	var starts sync.WaitGroup
	errs := make([]error, len(list)+1)
	start := func() (*postgrestest.Server, error) {
		server, found, cleanup, err := startPostgres(ctx)
		mu.Lock()
		defer mu.Unlock()
		cleanups = append(cleanups, cleanup)
		version = found
		return server, err
	}
	for i, s := range list {
		starts.Go(func() { subjects[i], errs[i] = prepare(s, dir, start) })
	}
	if p.killed > 0 {
		starts.Go(func() { heirs, errs[len(list)] = start() })
	}
	starts.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, s := range subjects {
		if s.child, err = startChild(ctx, s.system, s.place, ""); err != nil {
			return err
		}
		defer s.child.end()
	}
	began, loaded := time.Now(), loadAverage()
	if err := p.measure(ctx, subjects); err != nil {
		return err
	}
	if err := p.rest(ctx, subjects, dir, heirs); err != nil {
		return err
	}
	fmt.Printf("%s\nPostgreSQL %s, synchronous_commit=on, by a socket; SQLite in WAL mode, synchronous=FULL. %d rounds of %v each.\n", where(), version, p.rounds, p.window)
	fmt.Printf("Load average before and after: %s and %s. The run took %.0f s.\n\n", loaded, loadAverage(), time.Since(began).Seconds())
	report(os.Stdout, p, subjects)
	return nil
}

// prepare makes the place of a system.
func prepare(s system, dir string, start func() (*postgrestest.Server, error)) (*subject, error) {
	out := &subject{system: s, loads: make([][]sample, len(inFlight))}
	out.place = place{Keys: filepath.Join(dir, "keys"), Executor: "first"}
	if s.store == "sqlite" {
		private := filepath.Join(dir, s.name)
		out.Target = filepath.Join(private, "work.db")
		return out, os.Mkdir(private, 0o700)
	}
	server, err := start()
	if err != nil {
		return nil, err
	}
	out.Target = server.DSN()
	b, err := backendsOf(server)
	out.server = &b
	return out, err
}

// measure has each work in each round, with few callers and with many.
func (p plan) measure(ctx context.Context, subjects []*subject) error {
	for _, s := range subjects { // caches, connections, tables that grow
		if _, err := s.tell(ctx, order{Callers: most, For: p.window}); err != nil {
			return err
		}
	}
	for range p.rounds {
		for i, callers := range inFlight {
			for _, s := range subjects {
				before, err := s.used(ctx)
				if err != nil {
					return err
				}
				a, err := s.tell(ctx, order{Callers: callers, For: p.window})
				if err != nil {
					return err
				}
				after, err := s.used(ctx)
				if err != nil {
					return err
				}
				s.loads[i] = append(s.loads[i], sample{
					rate: float64(a.Done) / a.Elapsed.Seconds(), cpu: (after.all - before.all) / time.Duration(a.Done), half: a.Half,
				})
			}
		}
	}
	return nil
}

// usage is time of processors: of the system's own process, and with its server's.
type usage struct{ own, all time.Duration }

func (s *subject) used(ctx context.Context) (usage, error) {
	a, err := s.tell(ctx, order{})
	if err != nil || s.server == nil {
		return usage{a.CPU, a.CPU}, err
	}
	server, err := s.server.used()
	return usage{a.CPU, a.CPU + server}, err
}

// rest watches the systems with nothing to do. Meanwhile others of them are killed: that is
// waiting too, for the most part, and on a server of its own.
func (p plan) rest(ctx context.Context, subjects []*subject, dir string, heirs *postgrestest.Server) error {
	var all sync.WaitGroup
	errs := make([]error, len(subjects)+1)
	if p.killed > 0 {
		for i, s := range subjects {
			if s.name == floor {
				s.taken = ""
				continue
			}
			all.Go(func() { s.taken, errs[i] = p.kill(ctx, s.system, dir, heirs) })
		}
	}
	if p.idle > 0 {
		all.Go(func() { errs[len(subjects)] = p.nothing(ctx, subjects) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// settling is for how long what was begun under load continues: PostgreSQL looks once a minute for
// what to clean up.
const settling = 65 * time.Second

func (p plan) nothing(ctx context.Context, subjects []*subject) error {
	time.Sleep(settling)
	before := make([]usage, len(subjects))
	began := time.Now()
	var err error
	for i, s := range subjects {
		if before[i], err = s.used(ctx); err != nil {
			return err
		}
	}
	time.Sleep(p.idle)
	elapsed := time.Since(began).Seconds()
	for i, s := range subjects {
		after, err := s.used(ctx)
		if err != nil {
			return err
		}
		perSecond := func(d time.Duration) time.Duration { return time.Duration(float64(d) / elapsed) }
		s.idle = usage{perSecond(after.own - before[i].own), perSecond(after.all - before[i].all)}
	}
	return nil
}

func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
