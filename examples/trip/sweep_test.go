package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/trip/booking"
	"github.com/mcpsaga/mcpsaga/examples/trip/service"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
)

// What TestKill does with processes, the test kit does with turns: every way in
// which one can be cut off, lost, repeated, refused, cancelled or come too late,
// with the real services behind the tool.
func TestSweepTrip(t *testing.T) {
	if testing.Short() {
		t.Skip("opens a hundred databases")
	}
	t.Parallel()
	sagatest.Sweep(t, tripCase(booking.Rules{}))
}

// The same for a trip to which others agree, driven by its client.
func TestSweepTripWithOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("opens a hundred databases")
	}
	t.Parallel()
	c := tripCase(booking.Rules{Approver: "boss", Within: 10 * time.Minute, Callbacks: "http://127.0.0.1/events"})
	c.Script = append(c.Script, sagatest.Accept("approve", map[string]any{}), sagatest.Accept("agreed", map[string]any{"amount": 99000}))
	sagatest.Sweep(t, c)
}

// The length of the trip's token that docs/security.md shows.
func TestTokenOfATrip(t *testing.T) {
	c := tripCase(booking.Rules{})
	played := sagatest.Player{Now: c.Now}.Play(t, c.New(t).Tool, c.Args, c.Script...)
	document, err := os.ReadFile("../../docs/security.md")
	require.NoError(t, err)
	n := played.MaxToken()
	require.Greater(t, n, 1000)
	assert.Regexp(t, fmt.Sprintf(`(?m)^\| `+"`trip`"+`, with three holds recorded \| [\d ]+ \| %d %03d \|`, n/1000, n%1000), string(document))
}

func tripCase(rules booking.Rules) sagatest.Case {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	return sagatest.Case{
		Now:  now,
		Args: booking.Args{From: "Oslo", Account: "a-1"},
		Script: []sagatest.Answer{
			sagatest.Accept("journey", map[string]any{"city": "Rome", "arrival": "2026-12-24", "nights": 3, "travellers": 2}),
			sagatest.Accept("decision", map[string]any{"pay": "all"}),
		},
		New: func(t testing.TB) sagatest.Subject {
			services := map[string]*service.Service{}
			start := func(name string) string {
				o := tariffs[name]
				// In memory, as nobody is killed here: to disks they would write a thousand times.
				o.Database, o.Lifetime, o.Now = ":memory:", lifetime, func() time.Time { return now }
				s, err := service.Open(context.Background(), o)
				require.NoError(t, err)
				web := httptest.NewServer(s.Handler())
				t.Cleanup(func() {
					web.Close()
					assert.NoError(t, s.Close())
				})
				services[name] = s
				return web.URL
			}
			tool := booking.New(booking.Services{Hotel: start("hotel"), Flight: start("flight"), Payment: start("payment")}, rules)
			if flow, ok := tool.(saga.Flow[booking.Args, booking.Trip]); ok {
				flow.Info.Tasks = saga.Tasks{} // the kit's tasks have a clock of their own, which waits for connections
				tool = flow
			}
			return sagatest.Subject{
				Tool: tool,
				// Only what somebody has counts: released holds are as good as none.
				World: func() any {
					var taken []string
					for name, s := range services {
						holds, err := s.List(context.Background())
						assert.NoError(t, err)
						for _, h := range holds {
							if h.State == service.Held || h.State == service.Confirmed {
								taken = append(taken, fmt.Sprint(name, " ", h.State, " ", h.Units, " ", h.Kept))
							}
						}
					}
					slices.Sort(taken)
					return taken
				},
			}
		},
	}
}
