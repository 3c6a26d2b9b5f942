package durable

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// backends are the processes of a server of PostgreSQL.
type backends struct{ postmaster int }

func backendsOf(dir string) (*backends, error) {
	text, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		return nil, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	return &backends{pid}, err
}

// tick is the unit in which Linux counts the time of processes.
const tick = time.Second / 100

// used is what all of them have used, also those that have ended. The time of processes that live is
// exact, and that of the others is counted in ticks.
func (b *backends) used() (total time.Duration, err error) {
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
			total += (number(16) + number(17)) * tick // of children that were waited for
		} else if parent != b.postmaster {
			continue
		}
		ran := (number(14) + number(15)) * tick
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
