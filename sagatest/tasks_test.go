package sagatest_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

// depot keeps what it is given under keys.
type depot struct {
	mu   sync.Mutex
	kept map[string]string
}

type stock = saga.Turn[struct{}, struct{}]

// stocks is a task of two effects with a long sleep and a question between. keyed is whether the
// depot knows keys; undoes is whether it gives back.
func stocks(keyed, undoes bool) func(testing.TB) sagatest.Subject {
	return func(testing.TB) sagatest.Subject {
		d := &depot{kept: map[string]string{}}
		keep := &saga.Effect[string, string]{
			Name: "keep",
			Do: func(_ context.Context, key saga.Key, in string) (string, error) {
				d.mu.Lock()
				defer d.mu.Unlock()
				at := string(key)
				if !keyed {
					at = strings.Repeat("x", len(d.kept)+1)
				}
				d.kept[at] = in
				return in, nil
			},
			Undo: func(_ context.Context, p saga.Performed[string, string]) error {
				d.mu.Lock()
				defer d.mu.Unlock()
				if undoes {
					delete(d.kept, string(p.Key))
				}
				return nil
			},
		}
		sure := &steps.Form[struct {
			Go bool `json:"go"`
		}]{ID: "go", Message: "Go?"}
		return sagatest.Subject{
			World: func() any {
				d.mu.Lock()
				defer d.mu.Unlock()
				n := map[string]int{}
				for _, what := range d.kept {
					n[what]++
				}
				return n
			},
			Tool: saga.Machine[struct{}, struct{}]{
				Info: saga.Info{
					Name: "stock", Asks: []steps.Question{sure}, Effects: []saga.Declared{keep},
					Tasks: saga.Tasks{Mode: saga.TasksOptional, TTL: 1000 * time.Hour},
				},
				Start: func(t *stock) (saga.Next, error) { return t.Ask("first", sure) },
				Steps: saga.Steps[struct{}, struct{}]{
					"first": func(t *stock) (saga.Next, error) {
						if _, err := sure.Answer(t); err != nil {
							return nil, err
						}
						if _, err := saga.Do(t, keep, "one"); err != nil {
							return nil, err
						}
						return t.Sleep(5*time.Minute, "second")
					},
					"second": func(t *stock) (saga.Next, error) {
						if _, err := saga.Do(t, keep, "two"); err != nil {
							return nil, err
						}
						return t.Textf("kept")
					},
				},
			},
		}
	}
}

var others = []string{"crashes", "stops", "losses", "duplicates", "forks", "refusals", "cancels", "failures", "expiries"}

func TestTasksAreSwept(t *testing.T) {
	script := []answer{accept("go", map[string]any{"go": true})}
	sagatest.Sweep(t, sagatest.Case{New: stocks(true, true), Script: script})
	for name, test := range map[string]struct {
		keyed, undoes bool
		finds         []string
	}{
		"a system that does not know keys": {false, true, []string{
			"as a task, its worker dies before write 2", "as a task, its worker dies before write 4",
		}},
		"an undo that does nothing": {true, false, []string{"as a task, cancelled at write 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := reported(t, func(t testing.TB) {
				sagatest.Sweep(t, sagatest.Case{New: stocks(test.keyed, test.undoes), Script: script, Skip: others})
			})
			for _, name := range test.finds {
				assert.Contains(t, strings.Join(f.errors, "\n"), name)
			}
		})
	}
}
