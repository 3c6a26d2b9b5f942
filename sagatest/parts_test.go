package sagatest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A tool that gives its result in parts, with effects between them, does what it does once,
// whatever happens on the way and however often a token is used.
func TestParts(t *testing.T) {
	ask := &steps.Form[struct {
		Go bool `json:"go"`
	}]{ID: "go", Message: "Go?"}
	script := []answer{accept("go", map[string]any{"go": true})}
	made := func(t testing.TB) sagatest.Subject {
		held, undone := map[saga.Key]string{}, map[saga.Key]bool{}
		hold := &saga.Effect[string, string]{
			Name: "hold",
			Do: func(_ context.Context, k saga.Key, in string) (string, error) {
				if undone[k] {
					return "", saga.Refused(errors.New("it was undone"))
				}
				held[k] = in
				return in, nil
			},
			Undo: func(_ context.Context, p saga.Performed[string, string]) error {
				delete(held, p.Key)
				undone[p.Key] = true
				return nil
			},
		}
		info := saga.Info{Name: "parts", Asks: []steps.Question{ask}, Effects: []saga.Declared{hold}, Yields: true}
		tool := saga.Flow[struct{}, string]{Info: info, Run: func(r *saga.Run, _ struct{}) (string, error) {
			if err := r.Yield(content.Textf("one")); err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, ask); err != nil {
				return "", err
			}
			if _, err := saga.Do(r, hold, "a room"); err != nil {
				return "", err
			}
			if err := r.Yield(content.Textf("two")); err != nil {
				return "", err
			}
			if _, err := saga.Do(r, hold, "a seat"); err != nil {
				return "", err
			}
			return "three", nil
		}}
		return sagatest.Subject{Tool: tool, World: func() any {
			list := map[string]bool{}
			for _, what := range held {
				list[what] = true
			}
			return list
		}}
	}
	for name, resends := range map[string]bool{"carried": false, "resent": true} {
		t.Run(name, func(t *testing.T) {
			played := sagatest.Player{Parts: true, Resends: resends}.Play(t, made(t).Tool, nil, script...)
			assert.Equal(t, "three", played.Text())
			var parts []string
			for _, r := range played.Rounds {
				parts = append(parts, r.Part.Text())
			}
			assert.Equal(t, []string{"one", "", "two"}, parts)
		})
	}
	assert.Equal(t, "one\ntwo\nthree", sagatest.Play(t, made(t).Tool, nil, script...).Text())
	sagatest.Sweep(t, sagatest.Case{New: made, Parts: true, Script: script})
}
