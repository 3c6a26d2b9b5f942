package sagatest_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

var allowed = &steps.Form[payment]{ID: "allowed", Message: "Up to what sum?", By: steps.By{"boss", "deputy"}, Within: time.Hour}

// newBudget returns a tool that others allow, and what it acts on.
func newBudget(mode saga.Tasks) sagatest.Subject {
	c := &counter{Reserved: map[saga.Key]string{}, Asked: map[saga.Key]string{}}
	reserve, tell := c.effect("reserve", c.Reserved), c.effect("tell", c.Asked)
	tool := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "buy", Asks: []steps.Question{sure, allowed}, Effects: []saga.Declared{reserve, tell}, Tasks: mode},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			if _, err := saga.Ask(r, sure); err != nil {
				return "", err
			}
			if _, err := saga.Do(r, reserve, "a chair"); err != nil {
				return "", err
			}
			page, err := saga.Page(r, allowed)
			if err != nil {
				return "", err
			}
			if _, err := saga.Do(r, tell, page); err != nil {
				return "", err
			}
			got, err := saga.Ask(r, allowed.With(steps.Message("Up to what sum, for a chair?")))
			if err != nil {
				return "", err
			}
			who, _ := allowed.AnsweredBy(r)
			return fmt.Sprintf("up to %d, says the %s", got.Amount, who), nil
		},
	}
	return sagatest.Subject{Tool: tool, World: func() any {
		c.mu.Lock()
		defer c.mu.Unlock()
		return []any{maps.Clone(c.Reserved), maps.Clone(c.Asked)}
	}}
}

// What others answer is played like what the client does: by one of them, by somebody else, too late, or not at all.
func TestPlayOfOthers(t *testing.T) {
	five, late := sagatest.Accept("allowed", payment{5}), "has not happened in time"
	for name, test := range map[string]struct {
		answer sagatest.Answer
		good   bool
		says   string
	}{
		"the first": {five, true, "up to 5, says the boss"}, "another": {five.By("deputy"), true, "says the deputy"}, "the wrong one": {five.By("eve"), false, late},
		"later": {five.Later(50 * time.Minute), true, "up to 5"}, "too late": {five.Later(2 * time.Hour), false, late}, "declined": {sagatest.Decline("allowed").By("deputy"), false, "declined"},
		"what is read": {sagatest.Func("allowed", func(a sagatest.Asked) sagatest.Answer {
			assert.Equal(t, "Up to what sum, for a chair?", a.Message())
			_, ok := a.Form().Field("amount")
			assert.True(t, ok)
			return five
		}), true, "up to 5"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, resends := range []bool{true, false} {
				played := sagatest.Player{Resends: resends}.Play(t, newBudget(saga.Tasks{}).Tool, nil, sagatest.Accept("sure", struct{}{}), test.answer)
				assert.Equal(t, test.good, played.Good())
				assert.Contains(t, played.Text(), test.says)
			}
		})
	}
}

func TestSweepOfOthers(t *testing.T) {
	for name, mode := range map[string]saga.TaskMode{"no tasks": saga.TasksForbidden, "tasks": saga.TasksOptional} {
		for by, fails := range map[string]bool{"": false, "eve": true} {
			answer := sagatest.Accept("allowed", payment{5}).By(by)
			t.Run(name+", by "+by, func(t *testing.T) {
				sagatest.Sweep(t, sagatest.Case{
					New:    func(testing.TB) sagatest.Subject { return newBudget(saga.Tasks{Mode: mode}) },
					Script: []sagatest.Answer{sagatest.Accept("sure", struct{}{}), answer},
					Fails:  fails,
				})
			})
		}
	}
}
