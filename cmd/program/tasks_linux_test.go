package program

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whoever waits for a task sees how far it is. Ctrl-C stops the waiting, not the task.
func TestTaskAtATerminal(t *testing.T) {
	t.Parallel()
	for name, plain := range map[string]string{"a line that changes": "", "lines": "1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			h.env = append(h.env, "ACCESSIBLE="+plain, "TERM=xterm")
			s := newTasksServer(t)
			s.stays = true
			cmd := h.command("call", "travel", "--server", s.URL, "--save", "saved.json")
			person := atTerminal(t, cmd)
			person.when("working on the way", "\x03")
			assert.Equal(t, exitInterrupted, exitOf(t, cmd.Wait()), person.shown())
			assert.Contains(t, person.end(), "saga tasks watch saved.json")

			s.mu.Lock()
			s.stays = false
			s.mu.Unlock()
			cmd = h.command("tasks", "answer", "saved.json")
			person = atTerminal(t, cmd)
			if plain != "" {
				person.when("between 1 and 4", "1\n")
				person.when("where", "Oslo\n")
				person.when("Send this answer?", "y\n")
			} else {
				person.when("where", "Oslo\r")
				person.when("shift+tab", "y") // once that is what keys are for
			}
			require.NoError(t, cmd.Wait(), person.shown())
			assert.Contains(t, person.end(), "sent 1 answer")
			assert.Equal(t, "Went to Oslo.\n", h.ok("tasks", "result", "saved.json"))
		})
	}
}
