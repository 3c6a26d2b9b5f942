package server_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// paying is the tool seat, whose seat is paid for at once: that is final.
func (s *seats) paying() saga.Flow[struct{}, string] {
	return s.toolWith(&saga.Effect[string, string]{Name: "pay", Do: s.hold, Irreversible: true})
}

const tooLate = "Not cancelled: it is too late"

// Who gives a call up that has done something final reads that it goes on: the model as often as it tries, and the user on
// the page and in the form. The call is answered as before.
func TestCancelsThatComeTooLate(t *testing.T) {
	for _, remembers := range []bool{false, true} {
		for name, caller := range callers(t, "seat") {
			t.Run(map[bool]string{true: "ledger, ", false: "no ledger, "}[remembers]+name, func(t *testing.T) {
				s, o := new(seats), server.Options{}
				if o.Tools = []saga.Definition{s.paying()}; remembers {
					o.Ledger = inMemory(t)
				}
				call := caller(newRig(t, o))
				token := func(r toolSaid) string { return tokenText.FindStringSubmatch(r.Content[0].Text)[1] }
				first := token(saidBy(t, call(object{})))
				second := token(saidBy(t, call(object{"resumeToken": first, "answers": object{"row": object{"row": "7"}}})))
				for range 2 {
					got := saidBy(t, call(object{"resumeToken": second, "answers": "cancel"}))
					assert.True(t, got.IsError)
					assert.Contains(t, got.Content[0].Text, tooLate)
				}
				if remembers {
					assert.NotContains(t, saidBy(t, call(object{"resumeToken": second})).Content[0].Text, tooLate, "it is a look")
					end := saidBy(t, call(object{"resumeToken": second, "answers": object{"sure": object{"sure": true}}}))
					assert.Equal(t, "seat in 7", end.Content[0].Text)
				}
				held, calls := s.now()
				assert.Equal(t, []int{1, 1}, []int{held, calls})
			})
		}
	}
}

func TestStopsThatComeTooLate(t *testing.T) {
	s := new(seats)
	r := newPagesRig(t, offering(s.paying()))
	first := r.waitsFor(callTool("seat", object{}).with(showsApps), "ann")
	shown := r.answer(first.URL, r.page(first.URL).form(t, "accept", "f0", "7"))
	shows(t, shown, "If it has done something that is final, it cannot be stopped any more.")
	late := r.answer(first.URL, shown.form(t, "stop"))
	shows(t, late, tooLate, "Sure?")
	assert.NotContains(t, late.body, `value="stop"`, "nothing is promised that is not kept")
	form := r.form(object{"resumeToken": first.ResumeToken}, func(q *request) { q.header.Set("User", "ann") })
	assert.Equal(t, "input_required", form.Status)
	assert.Contains(t, form.Note, tooLate)
	shows(t, r.answer(first.URL, late.form(t, "accept", "f0", "0")), "The tool has completed.")
}

func TestTasksThatAreCancelledTooLate(t *testing.T) {
	for name, begin := range askingTasks {
		t.Run(name, func(t *testing.T) {
			s := new(seats)
			task := begin(newPagesRig(t, offering(asTask(s.paying(), saga.TasksRequired))), "seat")
			task.message(`Question "row"`)
			task.call(object{"resumeToken": task.id, "answers": object{"row": object{"row": "7"}}})
			task.message(`Question "sure"`)
			task.cancel()
			task.message(tooLate)
			assert.Contains(t, task.message(`Question "sure"`), tooLate)
			task.call(object{"resumeToken": task.id, "answers": object{"sure": object{"sure": true}}})
			assert.Equal(t, "seat in 7", task.ended())
		})
	}
}

// A call that asks what no user can be asked, and cannot be undone any more, says so at once.
func TestConsentsAfterWhatIsFinal(t *testing.T) {
	s := new(seats)
	pay := &saga.Effect[string, string]{Name: "pay", Do: s.hold, Irreversible: true}
	tool := s.consenting()
	tool.Effects = []saga.Declared{pay}
	row, sure := tool.Asks[0].(*steps.Form[rowForm]), tool.Asks[1].(*steps.Form[sureForm])
	tool.Run = func(r *saga.Run, _ struct{}) (string, error) {
		where, err := saga.Ask(r, row)
		if err != nil {
			return "", err
		}
		if _, err := saga.Do(r, pay, where.Row); err != nil {
			return "", err
		}
		_, err = saga.Ask(r, sure)
		return "", err
	}
	r := newRig(t, server.Options{Ledger: inMemory(t), Tools: []saga.Definition{tool}})
	first := waitsOf(t, r.send(callTool("seat", nil)).Result)
	got := saidBy(t, r.send(relay("seat", first, object{"row": object{"row": "7"}})).Result)
	assert.True(t, got.IsError)
	assert.Contains(t, got.Content[0].Text, "It is too late to undo what it did")
}
