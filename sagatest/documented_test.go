package sagatest_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

// shop holds goods and takes money: what is paid or given back stays so.
type shop struct {
	mu         sync.Mutex
	held       map[saga.Key]bool // false: given back
	paid, void map[saga.Key]bool
}

func (s *shop) world() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := 0
	for _, is := range s.held {
		if is {
			held++
		}
	}
	return []int{held, len(s.paid)}
}

var errReleased = errors.New("was released")

// TestDocumentedPatterns: nothing is wrong with what the guide recommends: to hold and pay in one turn,
// with an Undo that tells whether it was paid, and to look first at what the turn then changes.
func TestDocumentedPatterns(t *testing.T) {
	define := func(change func(look *saga.Effect[string, int], s *shop)) func(testing.TB) sagatest.Subject {
		return func(testing.TB) sagatest.Subject {
			s := &shop{held: map[saga.Key]bool{}, paid: map[saga.Key]bool{}, void: map[saga.Key]bool{}}
			look := &saga.Effect[string, int]{
				Name: "look", ReadOnly: true,
				Do: func(context.Context, saga.Key, string) (int, error) { return s.world().([]int)[0], nil },
			}
			change(look, s)
			hold := &saga.Effect[string, bool]{
				Name: "hold",
				Do: func(_ context.Context, k saga.Key, _ string) (bool, error) {
					s.mu.Lock()
					defer s.mu.Unlock()
					if is, known := s.held[k]; known && !is {
						return false, saga.Refused(errReleased)
					}
					s.held[k] = true
					return true, nil
				},
				Undo: func(_ context.Context, p saga.Performed[string, bool]) error {
					s.mu.Lock()
					defer s.mu.Unlock()
					s.held[p.Key] = false
					return nil
				},
			}
			pay := &saga.Effect[string, bool]{
				Name: "pay", Irreversible: true,
				Do: func(_ context.Context, k saga.Key, _ string) (bool, error) {
					s.mu.Lock()
					defer s.mu.Unlock()
					held := false
					for _, is := range s.held {
						held = held || is
					}
					if s.void[k] || !held {
						return false, saga.Refused(errReleased)
					}
					s.paid[k] = true
					return true, nil
				},
				Undo: func(_ context.Context, p saga.Performed[string, bool]) error {
					s.mu.Lock()
					defer s.mu.Unlock()
					if s.paid[p.Key] {
						return saga.Final(errors.New("it is paid"))
					}
					s.void[p.Key] = true
					return nil
				},
			}
			info := saga.Info{Name: "buy", Asks: []steps.Question{kindAsk}, Effects: []saga.Declared{look, hold, pay}, Tasks: saga.Tasks{Mode: saga.TasksOptional}}
			return sagatest.Subject{World: s.world, Tool: saga.Flow[struct{}, string]{Info: info, Run: func(r *saga.Run, _ struct{}) (string, error) {
				if _, err := saga.Do(r, look, "before it asks"); err != nil {
					return "", err
				}
				if _, err := saga.Ask(r, kindAsk); err != nil {
					return "", err
				}
				if _, err := saga.Do(r, look, "once more"); err != nil {
					return "", err
				}
				if _, err := saga.Do(r, hold, "goods"); err != nil {
					return "", err
				}
				if _, err := saga.Do(r, pay, "money"); err != nil {
					return "", err
				}
				return "bought", nil
			}}}
		}
	}
	script := []answer{accept("go", map[string]any{"go": true})}
	sagatest.Sweep(t, sagatest.Case{New: define(func(*saga.Effect[string, int], *shop) {}), Script: script})
	sagatest.Sweep(t, sagatest.Case{New: func(t testing.TB) sagatest.Subject {
		subject := define(func(*saga.Effect[string, int], *shop) {})(t)
		subject.World = nil
		return subject
	}, Script: script, Skip: []string{"tasks"}})

	t.Run("one that does not only read", func(t *testing.T) {
		c := sagatest.Case{Script: script, New: define(func(look *saga.Effect[string, int], s *shop) {
			look.Do = func(_ context.Context, k saga.Key, _ string) (int, error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.held[k] = true
				return 1, nil
			}
		})}
		f := reported(t, func(t testing.TB) { sagatest.Sweep(t, c) })
		assert.Contains(t, strings.Join(f.errors, "\n"), "broken rule: an effect that is ReadOnly changes nothing")
		f = reported(t, func(t testing.TB) { c := c; sagatest.Play(t, c.New(t).Tool, nil, script...) })
		assert.Empty(t, f.errors, "a play shows nothing of the world")
	})
}

// TestReadOnlyHasNothingToUndo: what only reads has no Undo, and is no point of no return.
func TestReadOnlyHasNothingToUndo(t *testing.T) {
	for _, e := range []*saga.Effect[string, string]{
		{Name: "e", ReadOnly: true, Irreversible: true},
		{Name: "e", ReadOnly: true, Undo: func(context.Context, saga.Performed[string, string]) error { return nil }},
	} {
		e.Do = func(_ context.Context, _ saga.Key, in string) (string, error) { return in, nil }
		_, err := saga.Flow[struct{}, string]{
			Info: saga.Info{Name: "f", Effects: []saga.Declared{e}}, Run: func(*saga.Run, struct{}) (string, error) { return "", nil },
		}.Compile()
		assert.ErrorContains(t, err, `Effects[0] ("e") is ReadOnly, and so has nothing to undo`)
	}
}

// TestAskLink: a link is asked as the documentation of Ask says.
func TestAskLink(t *testing.T) {
	signIn := &steps.Link{ID: "sign-in", Message: "Please sign in.", URL: "https://example.com/"}
	flow := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "f", Asks: []steps.Question{signIn}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			if err := r.AskAll(signIn); err != nil {
				return "", err
			}
			if err := signIn.Answer(r); err != nil {
				return "", err
			}
			return "signed in", nil
		},
	}
	assert.Equal(t, "signed in", sagatest.Play(t, flow, nil, accept("sign-in", nil)).Text())
	assert.False(t, sagatest.Play(t, flow, nil, sagatest.Decline("sign-in")).Good())
}
