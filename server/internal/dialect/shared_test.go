package dialect

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
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
	here.OnTouched(func(ids []SessionID) {
		told <- ids
		<-subscribed
	})
	for _, h := range []*Hub{&here, &other} {
		go h.Work(t.Context())
	}
	other.Touch(SessionID{1})
	require.Equal(t, []SessionID{{1}}, <-told)
	go func() {
		here.Subscribe(NewInterest(true, false, false, nil)).Close()
		close(subscribed)
	}()
	select {
	case <-subscribed:
	case <-time.After(time.Minute):
		assert.Fail(t, "the subscriber waits for who is told")
	}
}
