package durable_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// holdsOf is a task of a revision that holds something and asks, and goes on from there in a step function.
func holdsOf(d *desk, revision uint32, step string) saga.Definition {
	effect := &saga.Effect[hold, string]{Name: "hold", Do: d.do, Undo: d.undo}
	return saga.Machine[none, none]{
		Info: saga.Info{Name: "holds", Revision: revision, Tasks: optional, Asks: []steps.Question{nameForm}, Effects: []saga.Declared{effect}},
		Start: func(t *turn) (saga.Next, error) {
			if _, err := saga.Do(t, effect, hold{Task: "x", What: "a"}); err != nil {
				return nil, err
			}
			return t.Ask(step, nameForm)
		},
		Steps: saga.Steps[none, none]{step: func(t *turn) (saga.Next, error) { return t.Textf("done") }},
	}
}

// An answer to a task whose code has gone ends it, with what it did undone. A server that is older than the
// task keeps the answer for one that is not.
func TestAnAnswerFindsThatTheCodeHasGone(t *testing.T) {
	for name, test := range map[string]struct {
		revision uint32
		step     string
		want     string
	}{
		"the revision":      {3, "more", "this version of the tool is no longer served"},
		"the step function": {2, "other", "the tool has changed since it began"},
		"an older server":   {1, "more", ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				d := newDesk()
				a, b := r.manager(nil, holdsOf(d, 2, "more")), r.manager(nil, holdsOf(d, test.revision, test.step))
				stop := r.work(a)
				task := r.until(a, r.start(a, call(a, "holds", "")).ID, tasks.InputRequired)
				stop()
				r.work(b)
				_, err := b.Answer(t.Context(), "p", task.ID, []steps.Answer{accept(task.Questions[0].ID, `{"name":"Ada"}`)})
				require.NoError(t, err)
				if test.want == "" {
					r.work(r.manager(nil, holdsOf(d, 2, "more")))
					r.until(b, task.ID, tasks.Completed)
					return
				}
				began := time.Now()
				task = r.until(b, task.ID, tasks.Completed)
				assert.Less(t, time.Since(began), time.Minute)
				require.True(t, task.Bad)
				assert.Equal(t, "The saga cannot go on: "+test.want+". Start again.\nUndone: hold.", task.End.Result.Content.Text())
				assert.Equal(t, []string{"hold"}, turns.UndoReport(task.End.Result).Undone)
				held, _ := d.left("x")
				assert.Empty(t, held)
			})
		})
	}
}
