package dialect

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store/intercept"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// Whoever is told of sessions that another replica has changed may hold what a new subscriber
// waits for: neither waits for the other.
func TestSubscribersComeWhileSessionsAreTouched(t *testing.T) {
	store := ledger.NewMemory(ledger.MemoryOptions{})
	defer store.Close()
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	var here, other Hub
	for _, h := range []*Hub{&here, &other} {
		sealer, err := tokens.New(keys, tokens.Options{})
		require.NoError(t, err)
		registry, err := engine.NewRegistry()
		require.NoError(t, err)
		core, err := durable.New(durable.Config{Turns: turns.New(turns.Config{Registry: registry, Codec: sealer}), Store: store})
		require.NoError(t, err)
		h.Share(core, slog.New(slog.DiscardHandler))
	}
	told, subscribed := make(chan []SessionID), make(chan struct{})
	here.OnTouched = func(ids []SessionID) {
		told <- ids
		<-subscribed
	}
	for _, h := range []*Hub{&here, &other} {
		go h.Work(t.Context())
	}
	other.Touch(SessionID{1})
	require.Equal(t, []SessionID{{1}}, <-told)
	go func() {
		here.Subscribe(true, false, false, nil).Close()
		close(subscribed)
	}()
	select {
	case <-subscribed:
	case <-time.After(time.Minute):
		assert.Fail(t, "the subscriber waits for who is told")
	}
}

// A subscriber that comes between the moment in which a change is written and the one in which it is read
// again hears of it.
func TestSubscribersHearOfWhatWasJustWritten(t *testing.T) {
	memory := ledger.NewMemory(ledger.MemoryOptions{})
	defer memory.Close()
	var slow atomic.Bool
	store := &intercept.Store{Store: memory, Around: func(ctx context.Context, c intercept.Call, next func() error) error {
		if c.Method == "Log" && slow.Load() {
			<-ctx.Done()
			return ctx.Err()
		}
		return next()
	}}
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	sealer, err := tokens.New(keys, tokens.Options{})
	require.NoError(t, err)
	registry, err := engine.NewRegistry()
	require.NoError(t, err)
	core, err := durable.New(durable.Config{Turns: turns.New(turns.Config{Registry: registry, Codec: sealer}), Store: store})
	require.NoError(t, err)
	var h Hub
	h.Share(core, slog.New(slog.DiscardHandler))
	go h.Work(t.Context())
	state := func(is func(h *Hub) bool) func() bool {
		return func() bool {
			h.sharing.Lock()
			defer h.sharing.Unlock()
			return is(&h)
		}
	}
	require.Eventually(t, state(func(h *Hub) bool { return h.ready }), time.Minute, time.Millisecond)
	slow.Store(true)
	h.Publish(Event{ResourceUpdated, "notes://a"})
	require.Eventually(t, state(func(h *Hub) bool { return len(h.waiting)+len(h.flying) == 0 }), time.Minute, time.Millisecond)
	sub := h.Subscribe(false, false, false, []string{"notes://a"})
	defer sub.Close()
	sub.CatchUpOn("notes://a", 0)
	_, heard := sub.Next()
	assert.True(t, heard)
}
