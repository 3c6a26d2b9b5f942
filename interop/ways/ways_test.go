package ways

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/longtests"
	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
)

// way is how a client has a tool run.
type way struct {
	name string
	// live takes one call to its end.
	live func(*life) (string, error)
	// task: the work is a worker's, which may be another process.
	task bool
	// session: the client agrees with a server, and may go on at another one.
	session bool
}

// ways are all nine, two of them in two variants.
var ways = []way{
	{name: "saga proposal", live: bySaga},
	{name: "multi round-trip", live: byRounds},
	{name: "handshake", live: byHandshake, task: true, session: true},
	{name: "tasks (SEP-2663)", live: byTask, task: true},
	{name: "tasks of 2025-11-25", live: byOlderTask, task: true, session: true},
	{name: "asynchronous (SEP-1391)", live: byOperation, task: true, session: true},
	{name: "resumable (SEP-975)", live: byResuming, task: true, session: true},
	{name: "resumable once it has taken long (SEP-975)", live: byResumingLater, task: true, session: true},
	{name: "parts (SEP-1003)", live: byParts},
	{name: "plain call of a task", live: byWaiting, task: true, session: true},
	{name: "plain call of a task, made again", live: byKey, task: true, session: true},
}

// nightly has every moment of every way tried.
const nightly = "SAGA_NIGHTLY"

func every() bool { return os.Getenv(nightly) == "1" }

// play takes a life to its end, which is the same whatever happens.
func (l *life) play() {
	l.t.Helper()
	text, err := l.way.live(l)
	require.NoError(l.t, err, "%v", l)
	assert.Equal(l.t, finished, text, "%v", l)
	assert.Equal(l.t, "all", l.service.state(l.order), "%v", l)
	l.service.mu.Lock()
	defer l.service.mu.Unlock()
	for key, e := range l.service.entries {
		assert.Zero(l.t, e.undone, "%v: %+v was undone", l, e)
		if !l.struck {
			assert.Equal(l.t, 1, e.calls, "%v: %s", l, key)
		}
	}
	assert.Len(l.t, l.service.entries, 3, "%v", l)
}

// victims are those that are killed in a way.
func (s setting) victims(w way) []string {
	list := []string{alone}
	if w.task {
		list = append(list, serving, working)
	}
	if w.session && !s.stdio {
		list = append(list, replica)
	}
	if !every() && (s.postgres || s.stdio || !longtests.Wanted()) { // where the difference is small
		return list[rand.N(len(list)):][:1]
	}
	return list
}

// TestNineWays takes the same tool through all ways, on each ledger and over each transport:
// undisturbed, and with kill -9 of who serves, of who works and of a replica, at a moment of each
// or, nightly, at all. Unless somebody asked, it is one ledger, one transport and one kill, and leases are shorter than those of users.
func TestNineWays(t *testing.T) {
	if testing.Short() {
		t.Skip("leases of processes that are dead have to end")
	}
	t.Parallel()
	for _, at := range []setting{{}, {postgres: true}, {stdio: true}, {postgres: true, stdio: true}} {
		if at.postgres && at.stdio && !every() {
			continue
		}
		t.Run(at.String(), func(t *testing.T) {
			if at != (setting{}) {
				longtests.OnlyIfWanted(t, "leases take long to end")
			}
			t.Parallel()
			if at.postgres {
				postgrestest.Shared(t) // or there is none, which is seen here
			}
			for _, w := range ways {
				t.Run(w.name, func(t *testing.T) {
					t.Parallel()
					for _, victim := range at.victims(w) {
						moments := calmly(t, w, at, victim)
						if !every() {
							moments = []string{moments[rand.N(len(moments))]}
						}
						for _, where := range moments {
							t.Run(victim+" "+where, func(t *testing.T) {
								t.Parallel()
								l := newLife(t, w, at, victim, where)
								l.play()
								require.True(t, l.struck, "%v: it has not happened", l)
								t.Logf("%v: ended after %v", l, time.Since(l.began).Round(time.Millisecond))
							})
						}
					}
				})
			}
		})
	}
}

// calmly takes a life to its end in which nothing is killed, and returns its moments.
func calmly(t *testing.T, w way, at setting, victim string) []string {
	t.Helper()
	l := newLife(t, w, at, victim, "")
	l.play()
	l.end()
	l.mu.Lock()
	defer l.mu.Unlock()
	t.Logf("%s: %d moments in %v: %q", victim, len(l.passed), time.Since(l.began).Round(time.Millisecond), l.passed)
	return slices.Clone(l.passed)
}
