package tasks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/records"
)

// What a flow reports again, as it is played again, is not told to who waits for the call, however
// long that takes. A task shows what it has reported last.
func TestProgressOfCallsIncreases(t *testing.T) {
	for _, call := range []bool{true, false} {
		n := &notes{r: &run{call: call}, pace: pace{near: time.Hour, burst: 10, most: 100}}
		defer n.stop()
		record := new(records.Task)
		told := func(reports ...float64) (list []float64) {
			for _, done := range reports {
				n.Progress(engine.Progress{Done: done})
			}
			for _, e := range n.take(record).events {
				list = append(list, e.Progress.Done)
			}
			return list
		}
		assert.Equal(t, []float64{0, 1, 2}, told(0, 1, 2))
		if call {
			assert.Empty(t, told(0))
			assert.Equal(t, []float64{3}, told(1, 2, 3))
		} else {
			assert.Equal(t, []float64{0}, told(0))
			assert.Equal(t, []float64{1, 2, 3}, told(1, 2, 3))
		}
	}
}
