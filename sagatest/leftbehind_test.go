package sagatest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
)

// TestLeftBehind: a goroutine that a tool leaves behind is a failure of the case whose task has started
// it, whatever it waits for, and not the end of the test binary.
func TestLeftBehind(t *testing.T) {
	for name, wait := range map[string]func(){
		"for a channel": func() { <-make(chan bool) },
		"again and again": func() {
			for {
				time.Sleep(time.Hour)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			tool := saga.Flow[struct{}, string]{
				Info: saga.Info{Name: "leaves", Tasks: saga.Tasks{Mode: saga.TasksOptional}},
				Run: func(*saga.Run, struct{}) (string, error) {
					go wait()
					return "done", nil
				},
			}
			f := reported(t, func(t testing.TB) { sagatest.Sweep(t, sagatest.Case{Tool: tool, Skip: others}) })
			all := strings.Join(f.errors, "\n")
			assert.Contains(t, all, "broken rule: nothing goes on after a turn\n  scenario: as a task, with nothing going wrong")
			assert.Contains(t, all, "scenario: as a task, cancelled at write 1")
		})
	}
}
