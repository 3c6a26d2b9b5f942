package server_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// A PostgreSQL that crashes while answers come in, and is back after two seconds, costs nobody the answer,
// neither in sessions nor in turns.
func TestPostgresIsAwayForTwoSeconds(t *testing.T) {
	t.Parallel()
	db := postgrestest.Run(t, "fsync=off")
	store, err := postgres.Open(t.Context(), db.URL("postgres", "postgres"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	s := new(seats)
	r := newRig(t, server.Options{Tools: []saga.Definition{s.tool()}, Ledger: store})
	const each = 12
	var asked, all sync.WaitGroup
	down := make(chan struct{})
	asked.Add(2 * each)
	for i := range each {
		spread := time.Duration(i) * 150 * time.Millisecond
		all.Go(func() {
			c := r.connect("2025-11-25", everything)
			events := c.stream(toolCall(7, "seat", `{}`))
			c.reply(events.wait("elicitation/create").ID, accepted(`{"row":"7"}`))
			sure := events.wait("elicitation/create").ID
			asked.Done()
			<-down
			time.Sleep(spread)
			c.reply(sure, accepted(`{"sure":true}`))
			assert.Contains(t, events.wait("").data, "seat in 7")
		})
		all.Go(func() {
			_, body := inRounds(r, "", nil)
			_, body = inRounds(r, tokenOf(t, body), rowSeven)
			token := tokenOf(t, body)
			asked.Done()
			<-down
			time.Sleep(spread)
			_, body = inRounds(r, token, sevenSure)
			assert.Contains(t, body, "seat in 7")
		})
	}
	asked.Wait()
	close(down)
	db.Crash()
	time.Sleep(2 * time.Second)
	db.Up()
	all.Wait()
}
