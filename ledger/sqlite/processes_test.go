package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

func init() {
	children["open"] = func(ctx context.Context, path, name string) error {
		fmt.Println("ready")
		untilEOF()
		return with(ctx, path, func(s store.Store) error { return put(ctx, s, name, 0) })
	}
	children["count"], children["write"], children["busy"] = childCount, childWrite, childBusy
	// echo writes a record for each line of its standard input, and the time at which that was acknowledged.
	children["echo"] = func(ctx context.Context, path, _ string) error {
		return with(ctx, path, func(s store.Store) error {
			r := sample(named("row"), 0)
			for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
				if err := s.Write(ctx, r, one); err != nil {
					return err
				}
				fmt.Println(time.Now().UnixNano())
			}
			return nil
		})
	}
	// hold locks the database until its standard input ends.
	children["hold"] = func(_ context.Context, path, _ string) error {
		db, err := sql.Open("sqlite", path)
		if err != nil {
			return err
		}
		defer db.Close()
		if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
			return err
		}
		fmt.Println("locked")
		untilEOF()
		return nil
	}
}

// childCount adds one to the state of the record "row", as often as it is told.
func childCount(ctx context.Context, path, times string) error {
	n, _ := strconv.Atoi(times)
	return with(ctx, path, func(s store.Store) error {
		for n > 0 {
			r, err := s.Load(ctx, named("row"))
			if err != nil {
				return err
			}
			count, _ := strconv.Atoi(string(r.State))
			r.State = strconv.AppendInt(nil, int64(count)+1, 10)
			if err = s.Write(ctx, r, one); err == nil {
				n--
			} else if !errors.Is(err, store.ErrConflict) {
				return err
			}
		}
		return nil
	})
}

// childWrite creates records by 16 goroutines until it is killed, and writes the name of each
// that is acknowledged.
func childWrite(ctx context.Context, path, life string) error {
	return with(ctx, path, func(s store.Store) error {
		var all sync.WaitGroup
		for w := range 16 {
			all.Go(func() {
				for i := 0; ; i++ {
					name := fmt.Sprintf("%s-%d-%d", life, w, i)
					if err := put(ctx, s, name, 1024); err != nil {
						panic(err)
					}
					_, _ = os.Stdout.WriteString(name + "\n")
				}
			})
		}
		all.Wait()
		return nil
	})
}

// childBusy writes without a break, from 4 goroutines, until its standard input ends, and says how often.
func childBusy(parent context.Context, path, name string) error {
	ctx, stop := context.WithCancel(parent)
	return with(ctx, path, func(s store.Store) error {
		var all sync.WaitGroup
		var mu sync.Mutex
		sum := 0
		fmt.Println("ready")
		for w := range 4 {
			all.Go(func() {
				r := sample(named(fmt.Sprint(name, w)), 0)
				for s.Write(ctx, r, one) == nil {
				}
				mu.Lock()
				defer mu.Unlock()
				sum += int(r.Head)
			})
		}
		untilEOF()
		stop()
		all.Wait()
		fmt.Println(sum)
		return nil
	})
}

// Three processes that replace one record lose nothing.
func TestProcessesReplaceOneRecord(t *testing.T) {
	path := somePath(t)
	s := opened(t, path)
	require.NoError(t, put(t.Context(), s, "row", 0))
	const each = 100
	var all []*child
	for range 3 {
		all = append(all, start(t, "count", path, strconv.Itoa(each)))
	}
	for _, c := range all {
		assert.NoError(t, c.Wait())
	}
	r, err := s.Load(t.Context(), named("row"))
	require.NoError(t, err)
	assert.Equal(t, strconv.Itoa(3*each), string(r.State))
	assert.EqualValues(t, 3*each+1, r.Head)
}

// What a process has acknowledged is there after it was killed.
func TestKilledWriterLosesNothing(t *testing.T) {
	path := somePath(t)
	acknowledged := 0
	for life := range 3 {
		c := start(t, "write", path, strconv.Itoa(life))
		var names []string
		for begin := time.Now(); time.Since(begin) < 100*time.Millisecond || len(names) < 30; {
			names = append(names, c.line())
		}
		require.NoError(t, c.Process.Kill())
		for { // what it had written before it died
			name, err := c.out.ReadString('\n')
			if err != nil {
				break
			}
			names = append(names, strings.TrimSuffix(name, "\n"))
		}
		_ = c.Wait()
		s := opened(t, path)
		for _, name := range names {
			assert.NoError(t, load(t.Context(), s, name), "%s was acknowledged", name)
		}
		require.NoError(t, s.Close())
		acknowledged += len(names)
	}
	t.Logf("acknowledged: %d", acknowledged)
}

// A file that there is not yet is opened by ten processes at once, which agree on its identity.
func TestManyOpenANewFile(t *testing.T) {
	path := somePath(t)
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
		assert.NoError(t, load(t.Context(), s, strconv.Itoa(i)))
	}
}

// Those who listen hear of the writes of another process within 50 ms: most of the time, as other programs may
// compute meanwhile. However many there are, they are not called for each.
func TestWritesOfAnotherProcessAreHeard(t *testing.T) {
	path := somePath(t)
	s := opened(t, path)
	c := start(t, "echo", path, "")
	write := func() time.Time {
		_, err := c.in.Write([]byte("now\n"))
		require.NoError(t, err)
		n, err := strconv.ParseInt(c.line(), 10, 64)
		require.NoError(t, err)
		return time.Unix(0, n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	heard, ended := make(chan time.Time, 1000), make(chan error)
	go func() {
		ended <- s.Listen(ctx, func(id store.ID, _ uint64) {
			assert.Zero(t, id)
			heard <- time.Now()
		})
	}()
	inTime(t, "most writes are heard of within 50 ms", func() bool {
		var delays []time.Duration
		for i := range 10 {
			time.Sleep(time.Duration(i)*5*time.Millisecond + 60*time.Millisecond)
			for len(heard) > 0 {
				<-heard
			}
			at := write()
			delays = append(delays, (<-heard).Sub(at))
		}
		t.Logf("heard after %v", delays)
		slices.Sort(delays)
		return delays[len(delays)*3/4] < 50*time.Millisecond
	})
	for len(heard) > 0 {
		<-heard
	}
	begin, writes := time.Now(), 0
	for ; time.Since(begin) < 200*time.Millisecond; writes++ {
		write()
	}
	calls := len(heard)
	t.Logf("%d calls for %d writes", calls, writes)
	assert.LessOrEqual(t, calls, int(time.Since(begin)/(45*time.Millisecond))+2)
	cancel()
	assert.ErrorIs(t, <-ended, context.Canceled)
}

// Another process that does not let go of the file costs time and loses nothing.
func TestLockedForLong(t *testing.T) {
	path := somePath(t)
	s := patientFor(t, path, 100*time.Millisecond)
	require.NoError(t, put(t.Context(), s, "k", 0))
	c := start(t, "hold", path, "")
	require.Equal(t, "locked", c.line())

	begin := time.Now()
	err := put(t.Context(), s, "new", 0)
	assert.ErrorContains(t, err, "another process has locked it")
	assert.NotErrorIs(t, err, store.ErrUnknown)
	assert.Less(t, time.Since(begin), 5*time.Second, "as long as a store waits by default")
	_, err = s.Check(t.Context())
	assert.Error(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = put(ctx, s, "new", 0) // whose context ends before it begins, unless the machine is very busy
	assert.Error(t, err)
	assert.NotErrorIs(t, err, store.ErrUnknown)
	assert.NoError(t, load(t.Context(), s, "k"), "reading goes on")
	assert.NoError(t, load(t.Context(), opened(t, path), "k"), "and so does opening")

	waiting, done := patientFor(t, path, time.Hour), make(chan error, 1)
	go func() { done <- put(t.Context(), waiting, "new", 0) }()
	time.Sleep(20 * time.Millisecond) // until it waits
	closing, closed := patientFor(t, path, time.Hour), make(chan error, 1)
	go func() { closed <- put(t.Context(), closing, "never", 0) }()
	time.Sleep(10 * time.Millisecond)
	require.NoError(t, closing.Close(), "it does not wait for who has locked the file")
	assert.ErrorIs(t, <-closed, store.ErrClosed)
	require.NoError(t, c.in.Close())
	require.NoError(t, <-done, "who waited long enough")
	require.NoError(t, put(t.Context(), s, "newer", 0), "who had given up, when it is free again")
	assert.ErrorIs(t, load(t.Context(), s, "never"), store.ErrNotFound)
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

// takeTurns has three processes write for a moment, and counts their writes. The machine is busy if
// a sleep of a millisecond takes three on average, or if none of the three comes to much.
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
