package dialect

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/internal/tasks"
)

// Servers of different versions change the same notes.
func TestNotesKeepWhatIsUnknown(t *testing.T) {
	drop := ChangeNote(func(n *Note) { n.Dropped = true })
	for old, want := range map[string]string{
		"":                               `{"dropped":true}`,
		`{"number":7,"later":{"a":[1]}}`: `{"number":7,"dropped":true,"later":{"a":[1]}}`,
		`{"token":"mine","keepAlive":0,"request":1,"call":"AQI="}`: `{"call":"AQI=","dropped":true,"token":"mine","request":1}`,
		`"of another kind"`: `"of another kind"`,
	} {
		assert.Equal(t, want, string(drop(json.RawMessage(old))))
	}
	assert.Equal(t, uint64(7), NoteOf(&tasks.Task{Note: json.RawMessage(`{"number":7,"later":1}`)}).Number)
	assert.Zero(t, NoteOf(&tasks.Task{}))
}
