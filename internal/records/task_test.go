package records

import (
	"encoding/hex"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/fields"
)

// frozen is the task whose record is in testdata, as an earlier program has written it. It has
// something in each of its fields.
func frozen() Task {
	at := func(n int64) time.Time { return time.UnixMicro(n * 1e15 / 7).UTC() }
	return Task{
		TaskIdentity: TaskIdentity{
			Target: Target{Name: "tool", Revision: 7}, ID: "text 2", Principal: "text 3", Account: "text 4", Saga: [16]byte{1, 2, 15: 16},
			Call: true, Request: []byte("bytes 35"), Note: []byte("bytes 36"), Digest: []byte("bytes 37"),
		},
		TaskRuns: TaskRuns{
			State: 18, Status: 21, Writes: 24, Marks: 27, Rest: at(10), Base: 33, Loose: true, Failures: 39, LastError: "text 14",
		},
		TaskTimes: TaskTimes{
			Created: at(15), Updated: at(16), Due: at(17), WakeAt: at(18), Keep: at(19), Seen: 60, Wanted: at(21),
			TTL: 22 * time.Second, Poll: 23 * time.Second, Retain: 24 * time.Second,
		},
		TaskSaga: TaskSaga{
			Position: []byte("bytes 38"), Questions: []byte("bytes 39"), Answers: []byte("bytes 40"), Asked: 123, Given: []byte("bytes 42"),
		},
		TaskNews: TaskNews{Message: "text 29", Progress: []byte("bytes 30"), Events: 93, Told: 96, Appended: 99, Size: 102},
		TaskEnding: TaskEnding{
			Cancelled: true, TooLate: true, Undo: []byte("bytes 28"), End: []byte("bytes 43"), Again: []byte("bytes 44"),
			Said: "text 45", Judged: true, Bad: true,
		},
		unknown: []byte{100, 3, 'n', 'e', 'w'},
	}
}

// Records of tasks that earlier programs have written are read, and those that this one writes have
// the same fields.
func TestFrozenTasks(t *testing.T) {
	text, err := os.ReadFile("testdata/task.hex")
	require.NoError(t, err)
	raw, err := hex.DecodeString(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	var found Task
	require.NoError(t, found.decode(raw))
	want := frozen()
	assert.Equal(t, want, found)
	all := func(b []byte) map[uint64]string {
		list := make(map[uint64]string)
		var err error
		for n, v := range fields.All(b, &err) {
			assert.NotContains(t, list, n)
			list[n] = string(v)
		}
		require.NoError(t, err)
		return list
	}
	again := want.encode(nil)
	assert.Equal(t, all(raw), all(again))
}

// No field of a task is forgotten: each is in the record that is frozen.
func TestEveryFieldOfTasksIsFrozen(t *testing.T) {
	full := reflect.ValueOf(frozen())
	for i := range full.NumField() {
		part := full.Field(i)
		if part.Kind() != reflect.Struct {
			continue
		}
		for j := range part.NumField() {
			assert.False(t, part.Field(j).IsZero(), "%s: the frozen record is to have it too", part.Type().Field(j).Name)
		}
	}
}
