package ways

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// way is how a client has a tool run.
type way struct {
	name string
	// live takes one call to its end.
	live func(*life) (string, error)
	// task: the work is a worker's, which may be another process.
	task bool
	// loses: a call whose server dies is lost.
	loses bool
}

// ways are all nine.
var ways = []way{
	{name: "saga proposal", live: bySaga},
	{name: "multi round-trip", live: byRounds},
	{name: "handshake", live: byHandshake, loses: true},
	{name: "tasks (SEP-2663)", live: byTask, task: true},
	{name: "tasks of 2025-11-25", live: byOlderTask, task: true},
	{name: "asynchronous (SEP-1391)", live: byOperation, task: true},
	{name: "resumable (SEP-975)", live: byResuming, task: true},
	{name: "parts (SEP-1003)", live: byParts},
	{name: "plain call of a task", live: byWaiting, task: true},
}

// nightly has every moment of every way tried.
const nightly = "SAGA_NIGHTLY"

func every() bool { return os.Getenv(nightly) == "1" }

// undone is for how long what a call did that was lost may stand: until the question that it
// waited for is out of date, the minute by which clocks may differ, and a lease.
const undone = tokenTTL + time.Minute + 20*time.Second

// play takes a life to its end, and says what came of it.
func (l *life) play() (end string) {
	l.t.Helper()
	text, err := l.way.live(l)
	if errors.Is(err, errLost) && l.way.loses && l.struck {
		if every() {
			// Whoever finds what it did may also have gone on with what had been answered.
			time.Sleep(undone)
		}
		done := func() bool { s := l.service.state("1"); return s == "none" || s == "all" }
		require.Eventually(l.t, done, undone, 50*time.Millisecond, "%v: what a call did that was lost is undone, or all of it is done", l)
		end = "lost, " + l.service.state("1")
		l.order, l.began = "2", time.Now()
		text, err = l.way.live(l) // the client calls again
	}
	require.NoError(l.t, err, "%v", l)
	assert.Equal(l.t, finished, text, "%v", l)
	assert.Equal(l.t, "all", l.service.state(l.order), "%v", l)
	if end == "" {
		end = "ended"
	}
	l.service.mu.Lock()
	defer l.service.mu.Unlock()
	for key, e := range l.service.entries {
		if end == "ended" {
			assert.Zero(l.t, e.undone, "%v: %+v was undone", l, e)
		}
		if !l.struck {
			assert.Equal(l.t, 1, e.calls, "%v: %s", l, key)
		}
	}
	assert.LessOrEqual(l.t, len(l.service.entries), 6)
	return end
}

// TestNineWays takes the same tool through all ways: undisturbed, and with kill -9 of who serves
// and of who works, at a moment of each or, nightly, at all.
func TestNineWays(t *testing.T) {
	if testing.Short() {
		t.Skip("leases of processes that are dead have to end")
	}
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			test := func(victim string, moments []string) {
				if !every() {
					if w.loses { // what is done by then is undone, but only when the time for an answer is over
						moments = moments[:slices.Index(moments, "before /do reserve")+1]
					}
					moments = []string{moments[rand.N(len(moments))]}
				}
				for _, where := range moments {
					t.Run(victim+" "+where, func(t *testing.T) {
						t.Parallel()
						l := newLife(t, w, victim, where, "")
						end := l.play()
						require.True(t, l.struck, "%v: it has not happened", l)
						t.Logf("%v: %s after %v", l, end, time.Since(l.began).Round(time.Millisecond))
					})
				}
			}
			test(alone, calmly(t, w, alone))
			if w.task {
				moments := calmly(t, w, serving)
				test(serving, moments)
				test(working, moments)
			}
		})
	}
}

// calmly takes a life to its end in which nothing is killed, and returns its moments.
func calmly(t *testing.T, w way, victim string) []string {
	t.Helper()
	l := newLife(t, w, victim, "", "")
	require.Equal(t, "ended", l.play())
	l.mu.Lock()
	defer l.mu.Unlock()
	t.Logf("%s: %d moments in %v: %q", victim, len(l.passed), time.Since(l.began).Round(time.Millisecond), l.passed)
	return slices.Clone(l.passed)
}
