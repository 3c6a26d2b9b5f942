package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// shelf is what effects act on that are performed at the same time.
type shelf struct {
	mu   sync.Mutex
	held map[saga.Key]string
	most int
}

func (s *shelf) tool(mode saga.TaskMode, n int, out string) saga.Definition {
	s.held = map[saga.Key]string{}
	hold := &saga.Effect[string, string]{
		Name: "hold",
		Do: func(_ context.Context, key saga.Key, in string) (string, error) {
			takes, _ := time.ParseDuration(in)
			time.Sleep(takes)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.held[key] = in
			s.most = max(s.most, len(s.held))
			return out, nil
		},
		Undo: func(_ context.Context, p saga.Performed[string, string]) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.held, p.Key)
			return nil
		},
	}
	return saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "holds", Effects: []saga.Declared{hold}, Tasks: saga.Tasks{Mode: mode}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			in := make([]string, n)
			for i := range in {
				in[i] = fmt.Sprint(time.Duration(i%3) * time.Millisecond)
			}
			_, err := saga.DoAll(r, hold, in)
			if err == nil {
				err = saga.Failf("it went wrong")
			}
			return "", err
		},
	}
}

// However many effects a saga has performed at once, all are undone, also if no record can hold them.
func TestManyEffectsAtOnceAreUndone(t *testing.T) {
	for name, mode := range map[string]saga.TaskMode{"a call": saga.TasksForbidden, "a task": saga.TasksRequired} {
		for what, c := range map[string]struct {
			n    int
			out  string
			most int // of a task, whose checkpoints hold them
		}{
			"some":       {20, "ok", 20},
			"many":       {2000, "ok", 2000},
			"large ones": {24, strings.Repeat("x", 1<<20), 8},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					store := ledger.NewMemory(ledger.MemoryOptions{})
					t.Cleanup(func() { _ = store.Close() })
					var s shelf
					r := newRig(t, server.Options{Ledger: store, Tools: []saga.Definition{s.tool(mode, c.n, c.out)}})
					if mode == saga.TasksForbidden {
						c.most = c.n
						assert.Contains(t, r.send(callTool("holds", nil)).raw, "it went wrong")
					} else {
						task := r.begin(callTool("holds", nil))
						for task.Status == "working" {
							time.Sleep(time.Second)
							task = r.task(task.TaskID)
						}
						assert.Equal(t, c.most == c.n, task.Status == "completed", task.Status)
					}
					s.mu.Lock()
					defer s.mu.Unlock()
					assert.Empty(t, s.held)
					assert.Equal(t, c.most, s.most)
					_ = r.log.take()
				})
			})
		}
	}
}

// A turn is given up of whose effects one ignores its context. The others are undone as what they are: done.
func TestOneOfManyIgnoresItsContext(t *testing.T) {
	for name, mode := range map[string]saga.TaskMode{"a call": saga.TasksForbidden, "a task": saga.TasksRequired} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := ledger.NewMemory(ledger.MemoryOptions{})
				t.Cleanup(func() { _ = store.Close() })
				var mu sync.Mutex
				var undone []string
				e := &saga.Effect[time.Duration, string]{
					Name: "hold",
					Do: func(_ context.Context, _ saga.Key, takes time.Duration) (string, error) {
						time.Sleep(takes)
						return "ok", nil
					},
					Undo: func(_ context.Context, p saga.Performed[time.Duration, string]) error {
						mu.Lock()
						defer mu.Unlock()
						undone = append(undone, fmt.Sprint(p.In, " ", p.Known))
						return nil
					},
				}
				r := newRig(t, server.Options{Ledger: store, TurnTimeout: 3 * time.Second, Tools: []saga.Definition{saga.Flow[struct{}, string]{
					Info: saga.Info{Name: "deaf", Effects: []saga.Declared{e}, Tasks: saga.Tasks{Mode: mode}},
					Run: func(r *saga.Run, _ struct{}) (string, error) {
						_, err := saga.DoAll(r, e, []time.Duration{time.Second, time.Hour, 0})
						return "done", err
					},
				}}})
				if mode == saga.TasksRequired {
					assert.Contains(t, r.until(r.begin(callTool("deaf", nil)).TaskID, "failed").Error.Message, "took too long")
				} else {
					assert.Contains(t, r.send(callTool("deaf", nil)).raw, "took too long")
				}
				time.Sleep(2 * time.Hour)
				mu.Lock()
				defer mu.Unlock()
				assert.Equal(t, []string{"0s true", "1h0m0s false", "1s true"}, undone)
				log := r.log.take()
				assert.Contains(t, log, `effect \"hold\"`)
				assert.Contains(t, log, "which counts for nothing")
			})
		})
	}
}
