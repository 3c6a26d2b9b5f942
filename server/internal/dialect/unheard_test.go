package dialect

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/internal/durable"
)

// A change that was written counts as new for those who subscribe until it, and not something else that this
// process has written, was read again. That holds for more changes than are told apart, too.
func TestWhatWasWrittenIsNewUntilItIsRead(t *testing.T) {
	h := &Hub{by: "this", ready: true, heard: make(map[Event]uint64)}
	number, read := uint64(0), uint64(0)
	write := func(list ...durable.Notice) []durable.Notice {
		for i := range list {
			number++
			list[i].N, list[i].By = number, h.by
		}
		h.wrote(list)
		return list
	}
	hear := func(list ...durable.Notice) {
		read = list[len(list)-1].N
		h.hear(list, read, false)
	}
	isNew := func(e Event) bool { return len(h.missed([]Event{e}, read)) > 0 }
	tools := Event{Method: ToolsChanged}
	other := write(durable.Notice{Kind: aboutSession, Of: sessionText(SessionID{1})})
	change := write(h.notice(tools))
	hear(other...)
	assert.True(t, isNew(tools), "only the notice of a session was read")
	hear(change...)
	assert.False(t, isNew(tools))

	var many []durable.Notice
	for i := range maxHeard + 1 {
		many = append(many, h.notice(Event{ResourceUpdated, fmt.Sprint("note:", i)}))
	}
	many = write(many...)
	hear(many[:maxHeard]...)
	assert.True(t, isNew(Event{ResourceUpdated, fmt.Sprint("note:", maxHeard)}), "it was not read yet")
	hear(many[maxHeard])
	assert.False(t, isNew(Event{ResourceUpdated, "note:unknown"}))
}
