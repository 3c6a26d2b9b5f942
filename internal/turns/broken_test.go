package turns

import (
	"context"

	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// waiting returns the only saga that waits.
func waiting(t *testing.T, s *shared, r *replica) (one records.Waiting) {
	t.Helper()
	n := 0
	for w, err := range records.New(s.store, r.Codec.Keyset, "here", 0).List(t.Context()) {
		require.NoError(t, err)
		one, n = w, n+1
	}
	require.Equal(t, 1, n)
	return one
}

// What is kept of an error is text, wherever it is cut off.
func TestClip(t *testing.T) {
	for _, text := range []string{"short", strings.Repeat("ä", 1500), "x" + strings.Repeat("€", 1500), strings.Repeat("\xff", 3000), "\xffshort"} {
		assert.True(t, utf8.ValidString(clip(text)))
		assert.LessOrEqual(t, len(clip(text)), 2003)
	}
	assert.Equal(t, "short", clip("short"))
}

// Bytes that are no text, from whomever, neither stop a turn nor the undoing of it.
func TestWhatIsNotUTF8(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := sharedTrip(t)
		a := s.replica()
		first := a.begin(t, `{"to":"Rome"}`)
		fail := steps.Answer{StepID: "pay", Error: &steps.ClientError{Code: 1, Message: "no\xff"}}
		second, err := a.resume(first.Token, say("where", true))
		require.NoError(t, err)
		end, err := a.resume(second.Token, fail)
		require.NoError(t, err)
		again, err := a.resume(second.Token, fail)
		require.NoError(t, err)
		assert.Equal(t, told(t, end), told(t, again))
		assert.Empty(t, w.things())
	})
}

// If the position of a saga cannot be read, operators learn of it, and it is tried again
// later and later.
func TestSagasThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := newShared(t, w.trip(func(i *saga.Info) { i.ShortTokens = true }))
		seen := &seeing{Store: s.store}
		a := s.replica()
		a.line.Store = seen
		_, err := a.call(`{"to":"Rome","early":true}`)
		require.NoError(t, err)
		// What is kept apart is lost.
		gone := ""
		for _, r := range seen.all {
			if r.Queue == "" {
				gone = r.Key
			}
		}
		require.NotEmpty(t, gone)
		b := s.replica(seldom)
		b.line.Store = missing{s.store, gone}
		b.work(t)
		time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Hour)
		one := waiting(t, s, b)
		assert.Equal(t, records.Failing, one.State)
		assert.Contains(t, one.LastError, "not in the ledger any more")
		assert.Less(t, strings.Count(s.logged(), "cannot be undone"), 10)
		time.Sleep(20 * 24 * time.Hour)
		assert.Equal(t, records.GivenUp, waiting(t, s, b).State)
	})
}

// missing is a store in which a record is not.
type missing struct {
	ledger.Store
	key string
}

func (m missing) Load(ctx context.Context, key string) (*ledger.Record, error) {
	if key == m.key {
		return nil, ledger.ErrNotFound
	}
	return m.Store.Load(ctx, key)
}

// What a worker needs to undo is there as long as it tries, also where clients are not let
// undo what comes late.
func TestLargeStatesAreKeptForWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.unwilling = map[string]bool{"hold": true}
		s := newShared(t, w.trip(func(i *saga.Info) { i.ShortTokens = true }))
		a := s.replica(seldom, func(c *Config) { c.UndoGrace = -1 })
		_, err := a.call(`{"to":"Rome","early":true}`)
		require.NoError(t, err)
		time.Sleep(10 * 24 * time.Hour) // nobody runs
		_, err = s.store.Forget(t.Context(), 100)
		require.NoError(t, err)
		a.work(t)
		time.Sleep(tryFor / 2)
		w.mu.Lock()
		w.unwilling = nil
		w.mu.Unlock()
		time.Sleep(lastPause + time.Hour)
		assert.Empty(t, w.things(), "%s", s.logged())
	})
}

// A claim whose request cannot be read is left alone: whoever can read it finds what was done.
func TestRequestsThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := sharedTrip(t)
		a := s.replica()
		first := a.begin(t, `{"to":"Rome"}`)
		id := sagaOf(t, a, first.Token)
		w.lose(t, a, first.Token, say("where", true))
		b := s.replica()
		e, err := b.records.Saga(t.Context(), "ann", id)
		require.NoError(t, err)
		kept := e.Claim.Request
		e.Claim.Request = []byte(`{"now":7}`)
		require.NoError(t, b.records.Put(t.Context(), e))
		time.Sleep(leaseTime)
		_, err = b.resume(first.Token, say("where", true))
		require.ErrorIs(t, err, ErrLedger)
		_, err = b.cancel(first.Token)
		require.ErrorIs(t, err, ErrLedger)
		b.work(t)
		time.Sleep(tokens.DefaultTTL + time.Hour)
		require.Len(t, w.things(), 1)
		e, err = b.records.Saga(t.Context(), "ann", id)
		require.NoError(t, err)
		require.NotNil(t, e.Claim)
		e.Claim.Request = kept
		require.NoError(t, b.records.Put(t.Context(), e))
		time.Sleep(24 * time.Hour)
		assert.Empty(t, w.things())
	})
}

// The first turn of a revision that is not served here is not run with other code: that would
// do other things, and not find what was done.
func TestLostFirstTurnOfAnotherRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := sharedTrip(t)
		a := s.replica()
		a.work(t)
		synctest.Wait() // until it has said what tools there are
		w.at = func(_ context.Context, _ string, after bool) error {
			if after {
				a.line.die()
			}
			return nil
		}
		_, err := a.call(`{"to":"Rome","early":true}`)
		require.Error(t, err)
		w.at = nil
		require.Len(t, w.calls, 1)

		next := w.trip(func(i *saga.Info) { i.Revision = 1 }).(saga.Flow[tripArgs, string])
		next.Oldest = 1
		s.tools = []saga.Definition{next}
		b := s.replica(seldom)
		b.work(t)
		time.Sleep(time.Hour)
		assert.Len(t, w.calls, 1, "%s", s.logged())
		one := waiting(t, s, b)
		assert.Equal(t, records.Failing, one.State)
		assert.Contains(t, one.LastError, "revision 0 of the tool is not served here")

		s.tools = append(s.tools, w.trip(nil))
		s.replica(seldom).work(t)
		time.Sleep(7 * 24 * time.Hour) // of the two it is chance who comes first
		assert.Empty(t, w.things())
	})
}

// A tool that demands single use is refused without a ledger, also in an older revision.
func TestSingleUseIsRequiredOfOldRevisions(t *testing.T) {
	w := newWorld()
	s := newShared(t, w.trip(func(i *saga.Info) { i.Revision = 1 }), w.trip(func(i *saga.Info) { i.SingleUse = saga.SingleUseRequired }))
	tools, err := engine.NewRegistry(s.tools...)
	require.NoError(t, err)
	_, err = New(Config{Registry: tools, Now: time.Now})
	var wrong *saga.DefinitionError
	require.ErrorAs(t, err, &wrong)
}

// garbled is a store whose list of tools was altered.
type garbled struct{ ledger.Store }

func (g garbled) Load(ctx context.Context, key string) (*ledger.Record, error) {
	r, err := g.Store.Load(ctx, key)
	if err == nil && r.Queue == "" {
		r.Body = []byte("altered")
	}
	return r, err
}

// A worker does what it can without the list of tools.
func TestListOfToolsThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := sharedTrip(t)
		stop := s.replica().work(t)
		synctest.Wait() // it has written the list
		stop()
		a := s.replica()
		a.line.Store = garbled{s.store}
		a.work(t)
		_, err := a.call(`{"to":"Rome","early":true}`)
		require.NoError(t, err)
		time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Second)
		assert.Empty(t, w.things())
		assert.Contains(t, s.logged(), "list of tools cannot be read")
	})
}

// Sagas that cannot be read here are shown, and left to whoever can read them.
func TestSagasOfADisabledKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := sharedTrip(t)
		a := s.replica()
		_, err := a.call(`{"to":"Rome","early":true}`)
		require.NoError(t, err)
		next, id, err := s.keys.Add(codec.XAES256GCM)
		require.NoError(t, err)
		next, err = next.Promote(id)
		require.NoError(t, err)
		disabled, err := next.Disable(s.keys.Primary().ID)
		require.NoError(t, err)
		s.keys = disabled
		b := s.replica()
		stop := b.work(t)
		time.Sleep(tokens.DefaultTTL + time.Hour)
		one := waiting(t, s, b)
		assert.Equal(t, records.Unreadable, one.State)
		assert.Equal(t, "trip", one.Target.Name)
		assert.Contains(t, one.LastError, "a key that is not enabled")
		n := strings.Count(s.logged(), "sagas cannot be read")
		assert.Greater(t, n, 5)
		assert.Less(t, n, 15)
		require.Len(t, w.things(), 1)
		stop()

		s.keys = next
		s.replica().work(t)
		time.Sleep(time.Minute)
		assert.Empty(t, w.things())
	})
}

// A worker whose clock is behind that of the store leaves alone what is not due by its own.
func TestWorkerWhoseClockIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := sharedTrip(t)
		a := s.replica()
		a.Now = func() time.Time { return time.Now().Add(-10 * time.Minute) }
		_, err := s.replica().call(`{"to":"Rome","early":true}`)
		require.NoError(t, err)
		a.work(t)
		time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + 9*time.Minute)
		require.Len(t, w.things(), 1)
		time.Sleep(2 * time.Minute)
		assert.Empty(t, w.things())
	})
}

// A record that makes no sense neither stops a worker nor brings the server down.
func TestRecordsThatMakeNoSense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := sharedTrip(t)
		a := s.replica()
		first := a.begin(t, `{"to":"Rome","early":true}`)
		_, err := a.call(`{"to":"Oslo","early":true}`)
		require.NoError(t, err)
		e, err := a.records.Saga(t.Context(), "ann", sagaOf(t, a, first.Token))
		require.NoError(t, err)
		e.Ended, e.Token, e.Wake = true, "", time.Now()
		require.NoError(t, a.records.Put(t.Context(), e))
		a.work(t)
		time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Minute)
		assert.Len(t, w.things(), 1, "the other is undone")
		one := waiting(t, s, a)
		assert.Equal(t, records.Failing, one.State)
		assert.Contains(t, one.LastError, "no token")
		assert.Less(t, one.Attempts, 10)
	})
}

// What has ended well is not undone by an operator's mistake.
func TestUndoNowOfWhatHasEnded(t *testing.T) {
	_, s := sharedTrip(t)
	a := s.replica()
	first := a.begin(t, `{"to":"Rome"}`)
	second, err := a.resume(first.Token, say("where", true))
	require.NoError(t, err)
	_, err = a.resume(second.Token, say("pay", true))
	require.NoError(t, err)
	e, err := a.records.Saga(t.Context(), "ann", sagaOf(t, a, first.Token))
	require.NoError(t, err)
	require.ErrorIs(t, a.records.UndoNow(t.Context(), e.Key()), records.ErrNothingWaits)
}

// A panic below a worker ends its attempt, and not the server.
func TestWorkerThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := sharedTrip(t)
		a := s.replica()
		a.work(t)
		synctest.Wait()
		_, err := a.call(`{"to":"Rome","early":true}`)
		require.NoError(t, err)
		once := true
		a.line.on(func(_ int, op string) error {
			if op == "swap" && once {
				once = false
				panic("oops")
			}
			return nil
		})
		time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Second)
		assert.Equal(t, records.Failing, waiting(t, s, a).State)
		time.Sleep(2 * time.Minute)
		assert.Empty(t, w.things())
	})
}
