package durable_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A server without workers begins tasks and takes their answers, and leaves the work to others.
func TestAServerWithoutWorkersWorksOnNoTask(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		turns := 0
		tool := saga.Machine[none, none]{
			Info:  saga.Info{Name: "ask", Tasks: optional, Asks: []steps.Question{nameForm}},
			Start: func(t *turn) (saga.Next, error) { turns++; return t.Ask("end", nameForm) },
			Steps: saga.Steps[none, none]{"end": func(t *turn) (saga.Next, error) { turns++; return t.Textf("done") }},
		}
		serves := r.manager(func(c *durable.Config) { c.Workers = -1 }, tool)
		r.work(serves)
		task := r.start(serves, call(serves, "ask", ""))
		time.Sleep(time.Hour)
		assert.Zero(t, turns)

		works := r.manager(nil, tool)
		stop := r.work(works)
		task = r.until(serves, task.ID, tasks.InputRequired)
		stop()
		_, err := serves.Answer(t.Context(), "p", task.ID, []steps.Answer{accept(task.Questions[0].ID, `{"name":"Ada"}`)})
		require.NoError(t, err)
		time.Sleep(time.Hour)
		assert.Equal(t, 1, turns)
		r.work(works)
		r.until(serves, task.ID, tasks.Completed)
	})
}
