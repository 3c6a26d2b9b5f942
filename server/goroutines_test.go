package server_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// wildTools use their Turn or Run in many goroutines at once, with everything that these have.
func wildTools() []saga.Definition {
	hold := &saga.Effect[int, int]{
		Name: "hold", Do: func(_ context.Context, _ saga.Key, in int) (int, error) { return in, nil },
		Undo: func(context.Context, saga.Performed[int, int]) error { return nil },
	}
	info := func(name string) saga.Info {
		return saga.Info{Name: name, Asks: []steps.Question{askSure}, Effects: []saga.Declared{hold}, Yields: true,
			Tasks: saga.Tasks{Mode: saga.TasksOptional}}
	}
	parallel := func(f func(i int)) {
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() { f(i) })
		}
		all.Wait()
	}
	type turn = saga.Turn[struct{}, struct{}]
	return []saga.Definition{
		saga.Machine[struct{}, struct{}]{
			Info: info("machine"),
			Start: func(t *turn) (saga.Next, error) {
				parallel(func(i int) {
					_, _ = saga.Do(t, hold, i)
					t.Progress(float64(i), 8, "at work")
					t.Log(0, i)
					_, _, _ = t.Now(), t.ID(), t.Err()
					_, _ = t.Ask("next", askSure)
					_, _ = askSure.Answer(t)
				})
				return t.Textf("done")
			},
			Steps: saga.Steps[struct{}, struct{}]{"next": func(t *turn) (saga.Next, error) { return t.Textf("done") }},
		},
		saga.Flow[struct{}, string]{
			Info: info("flow"),
			Run: func(r *saga.Run, _ struct{}) (string, error) {
				parallel(func(i int) {
					_, _ = saga.Do(r, hold, i)
					r.Progress(float64(i), 8, "at work")
					_, _, _, _ = r.Now(), r.NewID(), r.Rand().Int(), r.ID()
					_, _ = saga.Ask(r, askSure)
					_ = r.Sleep(time.Hour)
					_ = r.Yield()
				})
				return "done", nil
			},
		},
	}
}

const wildly = "MCPSAGA_TEST_WILDLY"

// Whatever tools do in goroutines, the server goes on: each call fails, and says why in the log.
func TestToolsInGoroutines(t *testing.T) {
	if os.Getenv(wildly) == "" {
		t.Parallel()
		self := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestToolsInGoroutines$")
		self.Env = append(os.Environ(), wildly+"=yes")
		out, err := self.CombinedOutput() // by another process, which would die
		require.NoError(t, err, "%.3000s", out)
		return
	}
	for _, remembered := range []bool{false, true} {
		o := server.Options{Tools: wildTools()}
		if remembered {
			store := ledger.NewMemory(ledger.MemoryOptions{})
			defer func() { _ = store.Close() }()
			o.Ledger = store
		}
		r := newRig(t, o)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for i := range 20 {
					name := "machine"
					if i%2 == 1 {
						name = "flow"
					}
					q := callTool(name, nil)
					if remembered && i%4 > 1 {
						s := r.begin(q)
						for s.Status == "working" {
							s = r.task(s.TaskID)
							time.Sleep(time.Millisecond)
						}
						assert.Equal(t, "completed", s.Status)
						assert.True(t, s.Result.IsError, "%+v", s.Result)
						continue
					}
					m := r.send(q)
					assert.Equal(t, http.StatusOK, m.status)
					assert.Contains(t, m.raw, "The tool failed", name)
				}
			})
		}
		all.Wait()
		log := r.log.take()
		assert.Contains(t, log, `tool \"machine\", step function \"start\": saga.Do of the effect \"hold\" was called in a goroutine of the tool's own`)
		assert.Contains(t, log, `tool \"flow\", step function \"start\": saga.Do of the effect \"hold\" was called in a goroutine of the tool's own`)
		assert.NotContains(t, log, "panic")
		assert.Equal(t, 80, strings.Count(log, `"msg":"tool failed"`), fmt.Sprint(remembered))
	}
}
