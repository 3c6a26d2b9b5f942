package durable_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A task whose question the server's own model does not answer in the time of a turn, or with more than can be
// kept, fails, and what it did is undone: the model is not asked again and again.
func TestAModelThatCannotAnswer(t *testing.T) {
	huge := &steps.SampleResult{Model: "m", Role: content.Assistant, Content: content.Blocks{content.Text{Text: strings.Repeat("x", store.MaxState)}}}
	for name, want := range map[string]struct {
		model func(context.Context) (*steps.SampleResult, error)
		says  string
	}{
		"it heeds its context":   {func(ctx context.Context) (*steps.SampleResult, error) { <-ctx.Done(); return nil, ctx.Err() }, "took too long"},
		"it ignores its context": {func(context.Context) (*steps.SampleResult, error) { time.Sleep(time.Hour); return nil, nil }, "took too long"},
		"it says too much":       {func(context.Context) (*steps.SampleResult, error) { return huge, nil }, "more to remember"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				d, asked := newDesk(), new(atomic.Int32) // what ignores its context has not ended
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
					c.Turns.Model = func(ctx context.Context, _ *steps.SampleRequest) (*steps.SampleResult, error) {
						asked.Add(1)
						return want.model(ctx)
					}
				}, tool)
				r.work(m)
				begun := call(m, "drafts", "")
				begun.Request.Client = steps.Features{}
				task := r.until(m, r.start(m, begun).ID, tasks.Failed)
				require.ErrorContains(t, task.Err, want.says)
				assert.EqualValues(t, 1, asked.Load())
				assert.Less(t, time.Since(task.Created), 2*time.Minute)
				left, keys := d.left("x")
				assert.Empty(t, left)
				assert.Len(t, keys, 1)
				time.Sleep(time.Hour) // until what hangs has returned
			})
		})
	}
}
