package telemetry_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/store/intercept"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/telemetry"
)

// standing is what the gauge of sagas has of a mode and a status, with the metric's name left out.
func standing(m string, mode store.Mode, status string) []string {
	return sample(m, "mcpsaga_ledger_sagas", `mcpsaga_mode="`+string(mode)+`"`, `mcpsaga_status="`+status+`"`)
}

// fill writes n records that are alike.
func fill(t *testing.T, to ledger.Store, n int, of store.Record, lease time.Duration) {
	t.Helper()
	for range n {
		r := of
		r.Tool = "book"
		rand.Read(r.ID[:])
		require.NoError(t, to.Write(t.Context(), &r, store.Change{Items: []store.Item{{Kind: "k"}}, Lease: lease}))
	}
}

// watched is a Telemetry of servers with a ledger each, of which only metrics are read.
func watched(t *testing.T, servers ...server.Options) *replica {
	t.Helper()
	exported, err := telemetry.Start(t.Context(), telemetry.Options{Prometheus: true})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, exported.Shutdown(context.Background())) })
	for _, o := range servers {
		require.NoError(t, exported.Instrument(&o))
	}
	return &replica{t: t, exported: exported}
}

// Each mode is counted by itself: neither what sessions keep nor sagas of another mode hide any.
func TestManySagasHideNoOthers(t *testing.T) {
	memory := ledger.NewMemory(ledger.MemoryOptions{})
	defer memory.Close()
	for _, mode := range []store.Mode{store.ModeSession, store.ModeClient} {
		fill(t, memory, 2500, store.Record{Audience: "here", Mode: mode, Status: store.Waiting}, 0)
	}
	fill(t, memory, 10, store.Record{Audience: "here", Mode: store.ModeTask, Status: store.Waiting}, 0)
	m := watched(t, server.Options{Ledger: memory, Audience: "here"}).scrape()
	assert.Equal(t, []string{`mcpsaga_ledger_sagas{mcpsaga_mode="task",mcpsaga_status="waiting"} 10`}, standing(m, store.ModeTask, "waiting"))
	assert.Equal(t, []string{`mcpsaga_ledger_sagas{mcpsaga_mode="client",mcpsaga_status="waiting"} 2000`}, standing(m, store.ModeClient, "waiting"))
}

// Servers that one Telemetry instruments are counted together, and those of one ledger and audience once.
func TestServersOfOneProgram(t *testing.T) {
	memory := ledger.NewMemory(ledger.MemoryOptions{})
	defer memory.Close()
	for _, audience := range []string{"a", "b"} {
		fill(t, memory, 3, store.Record{Audience: audience, Mode: store.ModeClient, Status: store.Outstanding}, 0)
	}
	m := watched(t, server.Options{Ledger: memory, Audience: "a"}, server.Options{Ledger: memory, Audience: "b"}, server.Options{Ledger: memory, Audience: "a"},
		server.Options{Ledger: memory, Audience: "c"}).scrape()
	assert.Equal(t, []string{`mcpsaga_ledger_sagas{mcpsaga_mode="client",mcpsaga_status="outstanding"} 6`}, standing(m, store.ModeClient, "outstanding"))
}

// A server that is gone with its ledger leaves nothing to alarm about.
func TestLedgersThatAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone, stays := ledger.NewMemory(ledger.MemoryOptions{}), ledger.NewMemory(ledger.MemoryOptions{})
		defer stays.Close()
		r := watched(t, server.Options{Ledger: gone}, server.Options{Ledger: stays})
		require.NoError(t, gone.Close())
		assert.Contains(t, r.scrape(), "\nmcpsaga_ledger_up 1\n")
		time.Sleep(time.Minute)
		require.NoError(t, stays.Close())
		assert.NotContains(t, r.scrape(), "\nmcpsaga_ledger_up 0\n")
		time.Sleep(time.Minute)
		assert.NotContains(t, r.scrape(), "\nmcpsaga_ledger_up")
	})
}

// What saga ledger calls failing or given up is counted apart from undos that are under way or due.
func TestUndosThatFail(t *testing.T) {
	memory := ledger.NewMemory(ledger.MemoryOptions{})
	defer memory.Close()
	undoing := store.Record{Mode: store.ModeTask, Status: store.Undoing}
	fill(t, memory, 1, undoing, 0) // given up
	undoing.Wake = time.Now().Add(time.Hour)
	fill(t, memory, 2, undoing, 0)
	fill(t, memory, 4, undoing, time.Hour)
	undoing.Wake = time.Now().Add(-time.Second)
	fill(t, memory, 8, undoing, 0)
	m := watched(t, server.Options{Ledger: memory}).scrape()
	assert.Equal(t, []string{`mcpsaga_ledger_sagas{mcpsaga_mode="task",mcpsaga_status="failing"} 3`}, standing(m, store.ModeTask, "failing"))
	assert.Equal(t, []string{`mcpsaga_ledger_sagas{mcpsaga_mode="task",mcpsaga_status="undoing"} 12`}, standing(m, store.ModeTask, "undoing"))
}

// A ledger that hangs is seen by whoever reads the metrics, though nobody else calls it.
func TestLedgersThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := ledger.NewMemory(ledger.MemoryOptions{})
		defer memory.Close()
		hangs := false
		hanging := &intercept.Store{Store: memory, Around: func(ctx context.Context, _ intercept.Call, next func() error) error {
			if hangs {
				<-ctx.Done()
				return ctx.Err()
			}
			return next()
		}}
		r := watched(t, server.Options{Ledger: memory, Audience: "a"}, server.Options{Ledger: hanging, Audience: "b"})
		var seen []bool
		for _, hangs = range []bool{false, true, false} {
			seen = append(seen, strings.Contains(r.scrape(), "\nmcpsaga_ledger_up 1\n"))
			time.Sleep(time.Minute)
		}
		assert.Equal(t, []bool{true, false, true}, seen)
	})
}
