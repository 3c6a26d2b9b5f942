package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/audit"
	"github.com/mcpsaga/mcpsaga/server"
)

// pipe is a pipe whose reader stops until the channel is closed.
type pipe struct {
	stopped chan struct{}
	bytes.Buffer
}

func (p *pipe) Write(line []byte) (int, error) {
	<-p.stopped
	return p.Buffer.Write(line)
}

// A writer that blocks is an alarm, and holds up turns once, for a moment. What has waited for it is written in order when it
// continues, and what was too much is lost.
func TestAWriterThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var alarms bytes.Buffer
		w := &pipe{stopped: make(chan struct{})}
		log := audit.New(w, audit.Options{Logger: slog.New(slog.NewTextHandler(&alarms, nil))})
		turns := 0
		turn := func(reason string) (took time.Duration) {
			began := time.Now()
			turns++
			info := &server.TurnInfo{Turn: turns, Reason: reason}
			require.NoError(t, log.Hooks().Turn(t.Context(), info, func(context.Context) error { return nil }))
			return time.Since(began)
		}
		assert.Equal(t, 2*time.Second, turn(""))
		assert.Equal(t, 1, strings.Count(alarms.String(), "the audit cannot be written"), "at once")
		assert.Contains(t, alarms.String(), "waiting=1")
		for range 100 {
			assert.Zero(t, turn(""))
		}
		assert.Zero(t, turn(strings.Repeat("x", 9<<20)), "a line for which there is no room")
		for turns < 20_000 {
			turn("")
		}
		time.Sleep(time.Minute) //sagavet:ignore the clock of a bubble
		turn("")
		assert.Contains(t, alarms.String(), fmt.Sprintf("lost=%d waiting=16384", 20_000+1-16384))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorContains(t, log.Flush(ctx), "16384 lines are not written")

		close(w.stopped)
		require.NoError(t, log.Flush(t.Context()))
		synctest.Wait()
		assert.Zero(t, turn(""))
		var numbers []int
		for line := range strings.Lines(w.String()) {
			var r audit.Record
			require.NoError(t, json.Unmarshal([]byte(line), &r))
			numbers = append(numbers, r.Turn)
		}
		assert.Len(t, numbers, 16384+1)
		assert.IsIncreasing(t, numbers)
		assert.NotContains(t, numbers, 102, "the line for which there was no room")
		assert.Equal(t, turns, numbers[16384], "a turn waits for its line again")
	})
}
