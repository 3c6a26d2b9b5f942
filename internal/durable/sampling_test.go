package durable_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A task whose question the server's own model does not answer in the time of a turn fails, and what it
// did is undone: it is not asked again and again.
func TestAModelThatIsTooSlow(t *testing.T) {
	for name, model := range map[string]func(context.Context) error{
		"it heeds its context":   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"it ignores its context": func(context.Context) error { time.Sleep(time.Hour); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				d := newDesk()
				effect := &saga.Effect[hold, string]{Name: "hold", Do: d.do, Undo: d.undo}
				draft := &steps.Sample{ID: "draft", Request: steps.SampleRequest{MaxTokens: 10, Messages: []steps.SampleMessage{steps.UserText("Write.")}}}
				tool := saga.Flow[none, string]{
					Info: saga.Info{Name: "drafts", Asks: []steps.Question{draft}, Effects: []saga.Declared{effect}, Tasks: saga.Tasks{Mode: saga.TasksOptional}},
					Run: func(r *saga.Run, _ none) (string, error) {
						if _, err := saga.Do(r, effect, hold{Task: "x", What: "a"}); err != nil {
							return "", err
						}
						_, err := saga.Ask(r, draft)
						return "drafted", err
					},
				}
				m := r.manager(func(c *durable.Config) {
					c.Turns.Timeout = time.Minute
					c.Turns.Model = func(ctx context.Context, _ *steps.SampleRequest) (*steps.SampleResult, error) { return nil, model(ctx) }
				}, tool)
				r.work(m)
				begun := call(m, "drafts", "")
				begun.Request.Client = steps.Features{}
				task := r.until(m, r.start(m, begun).ID, tasks.Failed)
				require.ErrorIs(t, task.Err, context.DeadlineExceeded)
				assert.Less(t, time.Since(task.Created), 2*time.Minute)
				left, keys := d.left("x")
				assert.Empty(t, left)
				assert.Len(t, keys, 1)
				time.Sleep(time.Hour) // until what hangs has returned
			})
		})
	}
}
