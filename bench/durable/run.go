package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
)

// subject is a system that is being measured.
type subject struct {
	system
	*child
	server *backends // nil if it uses none

	loads [][]sample // by the index in inFlight, then by round
	idle  usage      // what it uses in a second of doing nothing
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
	if err := (codec.KeysetFile{Path: filepath.Join(dir, "keys")}).Write(keys); err != nil {
		return err
	}
	cleanups := new(outsider)
	defer cleanups.clean()
	var subjects []*subject
	for _, s := range list {
		one := &subject{system: s, loads: make([][]sample, len(inFlight))}
		at := place{Target: filepath.Join(dir, s.name+".db"), Keys: filepath.Join(dir, "keys")}
		if s.store == "postgres" {
			if at.Target, one.server, err = startPostgres(cleanups); err != nil {
				return err
			}
		}
		if one.child, err = startChild(ctx, s, at); err != nil {
			return err
		}
		defer one.end()
		subjects = append(subjects, one)
	}
	if err := p.measure(subjects); err != nil {
		return err
	}
	if p.idle > 0 {
		if err := p.rest(ctx, subjects); err != nil {
			return err
		}
	}
	fmt.Printf("%s, %s/%s, %d CPUs; PostgreSQL as it is by default, by a socket; SQLite in WAL mode, synchronous=FULL. %d rounds of %v each.\n\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), p.rounds, p.window)
	report(os.Stdout, p, subjects)
	return nil
}

// measure has each system work in each round, with few callers and with many.
func (p plan) measure(subjects []*subject) error {
	for _, s := range subjects { // caches, connections, tables that grow
		if _, err := s.do(order{Callers: most, For: p.window}); err != nil {
			return err
		}
	}
	for range p.rounds {
		for i, callers := range inFlight {
			for _, s := range subjects {
				one, err := s.sample(order{Callers: callers, For: p.window})
				if err != nil {
					return err
				}
				s.loads[i] = append(s.loads[i], one)
			}
		}
	}
	return nil
}

func (s *subject) sample(o order) (sample, error) {
	before, err := s.used()
	if err != nil {
		return sample{}, err
	}
	a, err := s.do(o)
	if err != nil {
		return sample{}, err
	}
	after, err := s.used()
	return sample{rate: float64(a.Done) / a.Elapsed.Seconds(), cpu: (after.all - before.all) / time.Duration(a.Done), half: a.Half}, err
}

// usage is time of processors: of the system's own process, and with its server's.
type usage struct{ own, all time.Duration }

func (s *subject) used() (usage, error) {
	a, err := s.do(order{})
	if err != nil || s.server == nil {
		return usage{a.CPU, a.CPU}, err
	}
	server, err := s.server.used()
	return usage{a.CPU, a.CPU + server}, err
}

// settling is for how long what was begun under load continues: PostgreSQL looks once a minute for
// what to clean up.
const settling = 65 * time.Second

// rest watches the systems with nothing to do.
func (p plan) rest(ctx context.Context, subjects []*subject) error {
	if err := sleep(ctx, settling); err != nil {
		return err
	}
	before := make([]usage, len(subjects))
	began := time.Now()
	var err error
	for i, s := range subjects {
		if before[i], err = s.used(); err != nil {
			return err
		}
	}
	if err := sleep(ctx, p.idle); err != nil {
		return err
	}
	elapsed := time.Since(began).Seconds()
	for i, s := range subjects {
		after, err := s.used()
		if err != nil {
			return err
		}
		perSecond := func(d time.Duration) time.Duration { return time.Duration(float64(d) / elapsed) }
		s.idle = usage{perSecond(after.own - before[i].own), perSecond(after.all - before[i].all)}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
