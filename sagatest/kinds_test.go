package sagatest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

type kindArgs struct {
	ID string `json:"id"`
}

type kindTurn = saga.Turn[kindArgs, struct{}]

var kindAsk = &steps.Form[struct {
	Go bool `json:"go"`
}]{ID: "go", Message: "Go?"}

// kinds are tools, prompts and resources of all sorts, each with a question and, where there may be
// some, effects on an agency.
func kinds() map[string]func(*agency) saga.Definition {
	effect := func(a *agency) *saga.Effect[string, saga.Key] {
		return &saga.Effect[string, saga.Key]{
			Name: "hold",
			Do:   func(_ context.Context, k saga.Key, in string) (saga.Key, error) { return a.hold(k, in) },
			Undo: func(_ context.Context, p saga.Performed[string, saga.Key]) error { return a.release(p.Key) },
		}
	}
	// begins: it acts before it asks, as a task may, which nobody can lose.
	flow := func(change func(*saga.Info), begins bool, sleep time.Duration) func(*agency) saga.Definition {
		return func(a *agency) saga.Definition {
			hold := effect(a)
			info := saga.Info{Name: "flow", Asks: []steps.Question{kindAsk}, Effects: []saga.Declared{hold}, Yields: true}
			change(&info)
			return saga.Flow[kindArgs, string]{Info: info, Run: func(r *saga.Run, in kindArgs) (string, error) {
				if begins {
					if _, err := saga.Do(r, hold, "first"); err != nil {
						return "", err
					}
				}
				if err := r.Yield(content.Textf("part")); err != nil {
					return "", err
				}
				if _, err := saga.Ask(r, kindAsk); err != nil {
					return "", err
				}
				if _, err := saga.Do(r, hold, "second"); err != nil {
					return "", err
				}
				if err := r.Sleep(sleep); err != nil {
					return "", err
				}
				if _, err := saga.Do(r, hold, "third"); err != nil {
					return "", err
				}
				return "held for " + in.ID, nil
			}}
		}
	}
	machine := func(change func(*saga.Info)) func(*agency) saga.Definition {
		return func(a *agency) saga.Definition {
			hold := effect(a)
			info := saga.Info{Name: "machine", Asks: []steps.Question{kindAsk}, Effects: []saga.Declared{hold}}
			change(&info)
			return saga.Machine[kindArgs, struct{}]{
				Info:  info,
				Start: func(t *kindTurn) (saga.Next, error) { return t.Ask("asked", kindAsk) },
				Steps: saga.Steps[kindArgs, struct{}]{
					"asked": func(t *kindTurn) (saga.Next, error) {
						if _, err := kindAsk.Answer(t); err != nil {
							return nil, err
						}
						if _, err := saga.Do(t, hold, "second"); err != nil {
							return nil, err
						}
						return t.Goto("on")
					},
					"on":   func(t *kindTurn) (saga.Next, error) { return t.Sleep(5*time.Minute, "last") },
					"last": func(t *kindTurn) (saga.Next, error) { return t.Textf("held for %s", t.Args.ID) },
				},
			}
		}
	}
	asking := func(end func(*kindTurn) (saga.Next, error)) saga.Machine[kindArgs, struct{}] {
		return saga.Machine[kindArgs, struct{}]{
			Info:  saga.Info{Name: "note", Asks: []steps.Question{kindAsk}},
			Start: func(t *kindTurn) (saga.Next, error) { return t.Ask("asked", kindAsk) },
			Steps: saga.Steps[kindArgs, struct{}]{"asked": func(t *kindTurn) (saga.Next, error) {
				if _, err := kindAsk.Answer(t); err != nil {
					return nil, err
				}
				return end(t)
			}},
		}
	}
	tasks := func(i *saga.Info) { i.Tasks = saga.Tasks{Mode: saga.TasksRequired, TTL: 100 * time.Hour} }
	return map[string]func(*agency) saga.Definition{
		"a flow that must be a task":          flow(tasks, true, 5*time.Minute),
		"a flow that may be a task":           flow(func(i *saga.Info) { i.Tasks = saga.Tasks{Mode: saga.TasksOptional, TTL: 100 * time.Hour} }, false, 5*time.Minute),
		"a machine that must be a task":       machine(tasks),
		"a machine that becomes a task later": machine(func(i *saga.Info) { tasks(i); i.Tasks.After = "go" }),
		"a flow of single use":                flow(func(i *saga.Info) { i.SingleUse = saga.SingleUseRequired }, false, time.Minute),
		"a machine of single use":             machine(func(i *saga.Info) { i.SingleUse = saga.SingleUseRequired }),
		"a task that nobody remembers":        machine(func(i *saga.Info) { tasks(i); i.SingleUse = saga.SingleUseNever }),
		"a task of single use":                machine(func(i *saga.Info) { tasks(i); i.SingleUse = saga.SingleUseRequired }),
		"a prompt": func(*agency) saga.Definition {
			return saga.Prompt[kindArgs, struct{}]{Machine: asking(func(t *kindTurn) (saga.Next, error) {
				return t.Messages(content.Message{Role: content.User, Content: content.Textf("held for %s", t.Args.ID)})
			})}
		},
		"a prompt of single use": func(*agency) saga.Definition {
			m := asking(func(t *kindTurn) (saga.Next, error) {
				return t.Messages(content.Message{Role: content.User, Content: content.Textf("held for %s", t.Args.ID)})
			})
			m.SingleUse = saga.SingleUseRequired
			return saga.Prompt[kindArgs, struct{}]{Machine: m}
		},
		"a resource": func(*agency) saga.Definition {
			return saga.Resource[kindArgs, struct{}]{Template: "note://{id}", Machine: asking(func(t *kindTurn) (saga.Next, error) {
				return t.Contents(content.ResourceContents{URI: "note://" + t.Args.ID, Text: "held for " + t.Args.ID})
			})}
		},
	}
}

func kindCase(define func(*agency) saga.Definition) sagatest.Case {
	return sagatest.Case{
		New: func(testing.TB) sagatest.Subject {
			a := newAgency()
			return sagatest.Subject{Tool: define(a), World: a.standing}
		},
		Args: kindArgs{"7"}, Script: []answer{accept("go", map[string]any{"go": true})},
	}
}

// TestEveryKind has every kind of tool, prompt and resource go through every entry point of the kit.
func TestEveryKind(t *testing.T) {
	for name, define := range kinds() {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			c := kindCase(define)
			good := func(p *sagatest.Played) {
				t.Helper()
				require.NoError(t, p.Err)
				assert.True(t, p.Good())
				said := p.Text()
				for _, m := range p.Messages {
					said += content.Blocks{m.Content}.Text()
				}
				for _, c := range p.Contents {
					said += c.Text
				}
				assert.True(t, strings.HasSuffix(said, "held for 7"), said)
			}
			for _, p := range []sagatest.Player{{}, {Resends: true}, {Parts: true}, {Pause: time.Minute}} {
				good(p.Play(t, define(newAgency()), c.Args, c.Script...))
			}
			good(sagatest.Player{}.After(c.Script...).Play(t, define(newAgency()), c.Args))
			if !strings.HasPrefix(name, "a flow") {
				good(sagatest.Player{}.At("asked", nil, c.Script...).Play(t, define(newAgency()), c.Args))
			}
			declined := sagatest.Play(t, define(newAgency()), c.Args, sagatest.Decline("go"))
			assert.False(t, declined.Good())
			assert.False(t, declined.Suspended)
			assert.True(t, sagatest.Play(t, define(newAgency()), c.Args, sagatest.Leave("go")).Suspended)

			assert.Contains(t, journal(t, c, false), "lacks the suspension")
			assert.Empty(t, journal(t, c, true))
			assert.Empty(t, journal(t, c, false))
			sagatest.Sweep(t, c)
		})
	}
}

// TestRequiredTasksAreSwept: the sweep of a tool that must be a task finds what is wrong with it.
func TestRequiredTasksAreSwept(t *testing.T) {
	c := kindCase(kinds()["a flow that must be a task"])
	c.New = func(testing.TB) sagatest.Subject {
		a := newAgency()
		return sagatest.Subject{Tool: kinds()["a flow that must be a task"](a), World: func() any { return len(a.holds) }} // it knows nothing of releases
	}
	f := reported(t, func(t testing.TB) { sagatest.Sweep(t, c) })
	all := strings.Join(f.errors, "\n")
	assert.Contains(t, all, "a saga that ends badly undoes what it did")
	assert.Contains(t, all, "as a task, cancelled at write")
	assert.Contains(t, all, "scenario: go is declined")
	c.Script = append(c.Script, accept("go", nil))
	f = reported(t, func(t testing.TB) { sagatest.Sweep(t, c) })
	assert.Contains(t, strings.Join(f.errors, "\n"), `answers that the tool never asked for: "go"`)
}

// TestLeftover: a play whose script has an answer that was never asked for fails, also where the last
// turn failed as a whole, or the tool panicked before it could ask.
func TestLeftover(t *testing.T) {
	for name, start := range map[string]func(*kindTurn) (saga.Next, error){
		"panics":         func(*kindTurn) (saga.Next, error) { panic("oh") },
		"goes nowhere":   func(t *kindTurn) (saga.Next, error) { return t.Goto("nowhere") },
		"ends":           func(t *kindTurn) (saga.Next, error) { return t.Textf("done") },
		"ends with none": func(*kindTurn) (saga.Next, error) { return nil, nil },
	} {
		tool := saga.Machine[kindArgs, struct{}]{
			Info: saga.Info{Name: "t", Asks: []steps.Question{kindAsk}}, Start: start,
			Steps: saga.Steps[kindArgs, struct{}]{"asked": func(t *kindTurn) (saga.Next, error) { return t.Textf("done") }},
		}
		f := reported(t, func(t testing.TB) { sagatest.Play(t, tool, kindArgs{"7"}, accept("go", nil)) })
		assert.Contains(t, strings.Join(f.errors, "\n"), `answers that the tool never asked for: "go"`, name)
		f = reported(t, func(t testing.TB) {
			sagatest.Player{}.After().Performed("hold", nil, "x").Play(t, tool, kindArgs{"7"})
		})
		assert.Contains(t, strings.Join(f.errors, "\n"), "was given as performed", name)
	}
}
