package server_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/server"
)

// Callers who cannot be told apart share their tasks' places. One who takes all of them, with tasks
// that sleep, keeps the others out for two minutes at most, however much it sends; and neither what
// was begun before the rush ends for that, nor what is looked at.
func TestOneStrangerDoesNotTakeAllTasks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := ledger.NewMemory(ledger.MemoryOptions{})
		r := newRig(t, server.Options{Tools: taskTools(), Ledger: store})
		defer r.srv.Close()
		begin := func(millis int) response {
			return r.send(callTool("nap", object{"millis": millis}).with(withTasks))
		}
		const long = 55 * 60_000
		early := readTask(t, begin(long).Result).TaskID
		rush := func(n int) (refused int) {
			for range n {
				if begin(long).status == http.StatusTooManyRequests {
					refused++
				}
			}
			return refused
		}
		assert.InDelta(t, 10, rush(1010), 10)
		synctest.Wait()
		require.Equal(t, http.StatusTooManyRequests, begin(1).status, "all is taken, a moment ago")
		time.Sleep(2*time.Minute + time.Second)
		m := begin(long)
		require.Equal(t, 200, m.status, m.raw)
		mine := readTask(t, m.Result).TaskID
		refused := 0
		for range 12 { // it does not stop
			refused += rush(10)
			time.Sleep(time.Minute)
			assert.Equal(t, "working", r.task(mine).Status)
		}
		assert.Less(t, refused, 30)
		assert.Equal(t, 200, begin(1).status)
		assert.Equal(t, "working", r.task(early).Status)
	})
}
