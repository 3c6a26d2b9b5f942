package sqlite_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
)

// Three processes that swap one record lose nothing.
func TestProcessesSwapOneRecord(t *testing.T) {
	t.Parallel()
	path := somePath(t)
	s := opened(t, path)
	require.NoError(t, s.Swap(t.Context(), &ledger.Record{Key: "row", Body: []byte("0")}))
	const each = 100
	var all []*child
	for range 3 {
		all = append(all, start(t, "count", path, strconv.Itoa(each)))
	}
	for _, c := range all {
		assert.NoError(t, c.Wait())
	}
	r, err := s.Load(t.Context(), "row")
	require.NoError(t, err)
	assert.Equal(t, strconv.Itoa(3*each), string(r.Body))
	assert.EqualValues(t, 3*each+1, r.Rev)
}

// What a process has acknowledged is there after it was killed.
func TestKilledWriterLosesNothing(t *testing.T) {
	t.Parallel()
	path := somePath(t)
	acknowledged := 0
	for life := range 4 {
		c := start(t, "write", path, strconv.Itoa(life))
		var keys []string
		for begin := time.Now(); time.Since(begin) < 100*time.Millisecond || len(keys) < 30; {
			keys = append(keys, c.line())
		}
		require.NoError(t, c.Process.Kill())
		for { // what it had written before it died
			key, err := c.out.ReadString('\n')
			if err != nil {
				break
			}
			keys = append(keys, strings.TrimSuffix(key, "\n"))
		}
		_ = c.Wait()
		s := opened(t, path)
		for _, key := range keys {
			_, err := s.Load(t.Context(), key)
			assert.NoError(t, err, "%s was acknowledged", key)
		}
		require.NoError(t, s.Close())
		acknowledged += len(keys)
	}
	t.Logf("acknowledged: %d", acknowledged)
	assert.Greater(t, acknowledged, 100)
}

// A file that there is not yet is opened by ten processes at once.
func TestManyOpenANewFile(t *testing.T) {
	t.Parallel()
	path := somePath(t) + "/in/a/new/directory.db"
	var all []*child
	for i := range 10 {
		c := start(t, "open", path, strconv.Itoa(i))
		require.Equal(t, "ready", c.line())
		all = append(all, c)
	}
	for _, c := range all {
		require.NoError(t, c.in.Close())
	}
	for _, c := range all {
		assert.NoError(t, c.Wait())
	}
	s := opened(t, path)
	for i := range 10 {
		_, err := s.Load(t.Context(), strconv.Itoa(i))
		assert.NoError(t, err)
	}
}

// inTime repeats a measurement until it comes out as it must. How long something takes at least is
// for the code to say; what comes on top, as other programs compute meanwhile, differs from
// one time to the next.
func inTime(t *testing.T, what string, measure func() (good bool)) {
	t.Helper()
	for end := time.Now().Add(long); !measure(); {
		require.True(t, time.Now().Before(end), "not once within a minute: %s", what)
	}
}

// Who watches sees the changes of another process within 50 ms, and who takes soon: most of
// the time, as other programs may compute meanwhile.
func TestChangesOfAnotherProcessAreSeen(t *testing.T) {
	path := somePath(t)
	s := opened(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := start(t, "echo", path)
	seen := make(chan time.Time)
	go func() {
		defer close(seen)
		for _, err := range s.Watch(ctx, "row", 0) {
			if err != nil {
				return
			}
			seen <- time.Now()
		}
	}()
	ask := func(what string) time.Time {
		_, err := c.in.Write([]byte(what + "\n"))
		require.NoError(t, err)
		n, err := strconv.ParseInt(c.line(), 10, 64)
		require.NoError(t, err)
		return time.Unix(0, n)
	}
	inTime(t, "most changes are seen within 50 ms", func() bool {
		var delays []time.Duration
		for i := range 10 {
			time.Sleep(time.Duration(i) * 5 * time.Millisecond)
			at := ask("now")
			when, watched := <-seen
			require.True(t, watched, "the watch has ended")
			delays = append(delays, when.Sub(at))
		}
		t.Logf("seen after %v", delays)
		slices.Sort(delays)
		return delays[len(delays)*3/4] < 50*time.Millisecond
	})
	cancel()
	for range seen {
	}

	inTime(t, "most due records are taken within half a second", func() bool {
		var delays []time.Duration
		for range 3 {
			took := make(chan error)
			go func() {
				_, err := s.Take(t.Context(), ledger.Take{Queues: []string{"q"}, Limit: 1, Lease: time.Hour})
				took <- err
			}()
			time.Sleep(50 * time.Millisecond)
			at := ask("due")
			require.NoError(t, <-took)
			delays = append(delays, time.Since(at))
		}
		t.Logf("taken after %v", delays)
		slices.Sort(delays)
		return delays[1] < 500*time.Millisecond
	})
}

// Who waits for others that write shows it, for as long as it waits: until it is let in, or gives up.
func TestWhoWaitsShowsIt(t *testing.T) {
	t.Parallel()
	path := somePath(t)
	nobodyWaits := func() {
		t.Helper()
		inTime(t, "nobody waits any more", func() bool {
			sign := flock.New(path + "-wait")
			got, err := sign.TryLock()
			require.NoError(t, err)
			require.NoError(t, sign.Close())
			return got
		})
	}
	hasty, patient := patientFor(t, path, 100*time.Millisecond), patientFor(t, path, time.Hour)
	c := start(t, "hold", path)
	require.Equal(t, "locked", c.line())
	require.Error(t, hasty.Swap(t.Context(), &ledger.Record{Key: "k"}))
	nobodyWaits()
	done := make(chan error, 1)
	go func() { done <- patient.Swap(t.Context(), &ledger.Record{Key: "k"}) }()
	somebodyWaits(t, path)
	require.NoError(t, c.in.Close())
	require.NoError(t, <-done)
	nobodyWaits()
}

// Who has written leaves the file alone for a moment, if others wait.
func TestWhoWritesLetsOthersIn(t *testing.T) {
	t.Parallel()
	path := somePath(t)
	s, sign := opened(t, path), flock.New(path+"-wait")
	got, err := sign.TryRLock() // as one who waits
	require.NoError(t, err)
	require.True(t, got)
	defer sign.Close()
	const n = 50
	begin := time.Now()
	for range n { // each is a group of its own
		_, err := s.Now(t.Context())
		require.NoError(t, err)
	}
	assert.GreaterOrEqual(t, time.Since(begin), (n-1)*sqlite.TurnPause)
}

// Processes that write without a break share the file fairly, unless the machine has other
// things to do just then: who is to be let in must be given a processor in the moment that it is left.
func TestProcessesTakeTurns(t *testing.T) {
	path := somePath(t)
	require.NoError(t, opened(t, path).Close())
	// One quiet round tells nothing, as other programs get in the way even then: a quarter has to be fair.
	const judged, enough = 12, 3
	fair, quiet := 0, 0
	for round, end := 0, time.Now().Add(long); fair < enough && quiet < judged && time.Now().Before(end); round++ {
		least, most, busy := takeTurns(t, path, round)
		t.Logf("least %d, most %d, the machine is busy: %t", least, most, busy)
		switch {
		case least > most/2:
			fair++
			fallthrough
		case !busy:
			quiet++
		}
	}
	if fair < enough && quiet < judged {
		t.Skip("the machine was too busy with other things to tell")
	}
	assert.GreaterOrEqual(t, fair, enough, "of %d rounds: in the others one of them has half of another's turns", quiet)
}

// takeTurns has three processes write for a moment, and counts their changes. The machine is busy if
// one that sleeps for a millisecond sleeps for three on average, or if none of the three comes to much.
func takeTurns(t *testing.T, path string, round int) (least, most int, busy bool) {
	var all []*child
	for i := range 3 {
		c := start(t, "busy", path, fmt.Sprint(round, "-", i, "-"))
		require.Equal(t, "ready", c.line())
		all = append(all, c)
	}
	const writing = 400 * time.Millisecond
	slept := 0
	for begin := time.Now(); time.Since(begin) < writing; slept++ {
		time.Sleep(time.Millisecond)
	}
	busy = slept < int(writing/time.Millisecond)/3
	least = 1 << 30
	for _, c := range all {
		require.NoError(t, c.in.Close())
	}
	for _, c := range all {
		n, err := strconv.Atoi(c.line())
		require.NoError(t, err)
		least, most = min(least, n), max(most, n)
		assert.NoError(t, c.Wait())
	}
	const much = 1500 // a third of what one comes to on a machine that does nothing else
	return least, most, busy || most < much
}
