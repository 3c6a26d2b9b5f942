package sagatest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

// crates is a depot that several crates are taken to at the same time, two of them at once.
type crates struct {
	mu    sync.Mutex
	kept  map[saga.Key]string
	gone  map[saga.Key]bool
	keyed bool
	n     int
}

func (c *crates) tool(machine bool, in func() []string) saga.Definition {
	keep := &saga.Effect[string, string]{
		Name: "keep", AtOnce: 2,
		Do: func(_ context.Context, key saga.Key, in string) (string, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			switch {
			case c.gone[key]:
				return "", saga.Refused(errors.New("it was taken away"))
			case !c.keyed:
				c.n++
				key += saga.Key(fmt.Sprint(c.n))
			}
			c.kept[key] = in
			return in + " under " + string(key[len(key)-4:]), nil
		},
		Undo: func(_ context.Context, p saga.Performed[string, string]) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.gone[p.Key] = true
			delete(c.kept, p.Key)
			return nil
		},
	}
	type ok struct {
		Go bool `json:"go"`
	}
	begin, sure := &steps.Form[ok]{ID: "begin", Message: "Begin?"}, &steps.Form[ok]{ID: "sure", Message: "Sure?"}
	info := saga.Info{Name: "keeps", Asks: []steps.Question{begin, sure}, Effects: []saga.Declared{keep}, Tasks: saga.Tasks{Mode: saga.TasksOptional}}
	if machine {
		type turn = saga.Turn[struct{}, []string]
		return saga.Machine[struct{}, []string]{
			Info: info, Start: func(t *turn) (saga.Next, error) { return t.Ask("begun", begin) },
			Steps: saga.Steps[struct{}, []string]{
				"begun": func(t *turn) (_ saga.Next, err error) {
					if _, err := begin.Answer(t); err != nil {
						return nil, err
					}
					if t.State, err = saga.DoAll(t, keep, in()); err != nil {
						return nil, err
					}
					return t.Ask("sure", sure)
				},
				"sure": func(t *turn) (saga.Next, error) {
					if _, err := sure.Answer(t); err != nil {
						return nil, err
					}
					return t.Textf("kept %s", strings.Join(t.State, " "))
				},
			},
		}
	}
	return saga.Flow[struct{}, string]{Info: info, Run: func(r *saga.Run, _ struct{}) (string, error) {
		if _, err := saga.Ask(r, begin); err != nil {
			return "", err
		}
		got, err := saga.DoAll(r, keep, in())
		if some := (saga.EffectErrors)(nil); err != nil && !errors.As(err, &some) {
			return "", err
		} else if len(some.Unwrap()) > 1 || strings.Contains(fmt.Sprint(err), "unknown") {
			return "", err // one that was refused is let go
		}
		if _, err := saga.Ask(r, sure); err != nil {
			return "", err
		}
		return "kept " + strings.Join(got, " "), nil
	}}
}

func cratesCase(machine, keyed bool, in func() []string) sagatest.Case {
	return sagatest.Case{
		New: func(testing.TB) sagatest.Subject {
			c := &crates{kept: map[saga.Key]string{}, gone: map[saga.Key]bool{}, keyed: keyed}
			return sagatest.Subject{Tool: c.tool(machine, in), World: func() any {
				c.mu.Lock()
				defer c.mu.Unlock()
				var kept []string
				for _, what := range c.kept {
					kept = append(kept, what)
				}
				slices.Sort(kept)
				return kept
			}}
		},
		Script: []sagatest.Answer{accept("begin", map[string]bool{"go": true}), accept("sure", map[string]bool{"go": true})},
	}
}

func three() []string { return []string{"a", "b", "c"} }

func TestSweepOfDoAll(t *testing.T) {
	for name, machine := range map[string]bool{"flow": false, "machine": true} {
		t.Run(name, func(t *testing.T) {
			c := cratesCase(machine, true, three)
			c.Skip = []string{"forks"} // no last effect checks what the others have done
			sagatest.Sweep(t, c)
			played := sagatest.Play(t, c.New(t).Tool, nil, c.Script...)
			assert.Equal(t, []string{"keep", "keep", "keep"}, played.Effects())
			for i, call := range played.Calls {
				assert.JSONEq(t, fmt.Sprintf("%q", three()[i]), string(call.Input), "in a test they come in order")
			}
		})
	}
}

func TestSweepFindsWhatIsWrongWithDoAll(t *testing.T) {
	found := reported(t, func(t testing.TB) { sagatest.Sweep(t, cratesCase(false, false, three)) })
	require.NotEmpty(t, found.errors)
	assert.Contains(t, strings.Join(found.errors, "\n"), "broken rule: an effect happens once per key\n  scenario: crash before keep number 2 in turn 2")
	other := three()
	found = reported(t, func(t testing.TB) {
		sagatest.Sweep(t, cratesCase(false, true, func() []string { slices.Reverse(other); return other }))
	})
	require.NotEmpty(t, found.errors)
	assert.Contains(t, found.errors[0], `number 1`)
}
