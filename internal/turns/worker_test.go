package turns

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Workers remove what nobody needs any more.
func TestWorkersForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := sharedTrip(t)
		a := s.replica()
		first := a.begin(t, `{"to":"Rome","early":true}`)
		_, err := a.cancel(first.Token)
		require.NoError(t, err)
		id := sagaOf(t, a, first.Token)
		time.Sleep(100 * 24 * time.Hour)
		e, err := a.records.Saga(t.Context(), "ann", id)
		require.NoError(t, err)
		require.True(t, e.Exists())
		stop := a.work(t)
		time.Sleep(2 * forgetTime)
		stop()
		e, err = a.records.Saga(t.Context(), "ann", id)
		require.NoError(t, err)
		assert.False(t, e.Exists())
	})
}

// out is a store of which nothing can be taken at times.
type out struct {
	ledger.Store
	down atomic.Bool
}

func (o *out) Take(ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
	within, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if o.down.Load() {
		return nil, errors.New("connection refused")
	}
	list, err := o.Store.Take(within, t)
	if within.Err() != nil {
		err = ctx.Err()
	}
	return list, err
}

// However long the ledger cannot be used, a worker is back within half a minute after it can.
func TestAWorkerAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := sharedTrip(t)
		store := &out{Store: s.store}
		a := s.replica(func(c *Config) { c.Ledger = store })
		a.begin(t, `{"to":"Rome","early":true}`)
		require.Len(t, w.things(), 1)
		store.down.Store(true)
		a.work(t)
		time.Sleep(tokens.DefaultTTL + time.Hour)
		assert.Len(t, w.things(), 1)
		store.down.Store(false)
		time.Sleep(longestOutage + time.Second)
		assert.Empty(t, w.things())
		assert.Contains(t, s.logged(), "the ledger can be used again")
	})
}

// Without a ledger, a cancel that finds that the lost turn did what is final leaves the saga where
// it was: the client goes on by sending the turn again, which does nothing twice.
func TestTheTurnOfACancelThatWasTooLateIsSentAgain(t *testing.T) {
	w := newWorld()
	where, more := &steps.Form[tripForm]{ID: "where", Message: "There?"}, &steps.Form[tripForm]{ID: "more", Message: "More?"}
	pay := w.effect("pay")
	pay.Irreversible = true
	pay.Undo = func(context.Context, saga.Performed[string, string]) error {
		return saga.Final(fmt.Errorf("it is paid"))
	}
	tool := saga.Flow[tripArgs, string]{
		Info: saga.Info{Name: "trip", Asks: []steps.Question{where, more}, Effects: []saga.Declared{pay}},
		Run: func(r *saga.Run, in tripArgs) (string, error) {
			if _, err := saga.Ask(r, where); err != nil {
				return "", err
			}
			if _, err := saga.Do(r, pay, in.To); err != nil {
				return "", err
			}
			_, err := saga.Ask(r, more)
			return "delivered", err
		},
	}
	r := newShared(t, tool).replica(func(c *Config) { c.Ledger = nil })
	first := r.begin(t, `{"to":"Rome"}`)
	_, err := r.resume(first.Token, say("where", true)) // and its response is lost
	require.NoError(t, err)
	end, err := r.cancel(first.Token, say("where", true))
	require.NoError(t, err)
	assert.Contains(t, end.Result.Content.Text(), "Not cancelled: it is too late.")
	assert.Equal(t, "pay", UndoReport(end.Result).Final)
	second, err := r.resume(first.Token, say("where", true))
	require.NoError(t, err)
	require.NotEmpty(t, second.Token)
	last, err := r.resume(second.Token, say("more", true))
	require.NoError(t, err)
	assert.Equal(t, "delivered", last.Result.Content.Text())
	assert.Equal(t, []string{"pay"}, w.things(), "once")
}
