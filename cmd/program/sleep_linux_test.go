package program

import (
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// Whoever waits for a tool that sleeps sees until when; Ctrl-C keeps the call.
func TestAToolThatSleepsAtATerminal(t *testing.T) {
	t.Parallel()
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	s, err := server.New(server.Options{Keys: keys, Logger: slog.New(slog.DiscardHandler), Tools: []saga.Definition{
		saga.Flow[none, string]{Info: saga.Info{Name: "nap"}, Run: func(r *saga.Run, _ none) (string, error) {
			return "awake", r.Sleep(50 * time.Hour)
		}},
	}})
	require.NoError(t, err)
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	for _, protocol := range []string{"saga", "2026-07-28"} {
		t.Run(protocol, func(t *testing.T) {
			h := newHome(t)
			h.env = append(h.env, "TERM=xterm")
			cmd := h.command("call", "nap", "--server", web.URL, "--protocol", protocol)
			person := atTerminal(t, cmd)
			person.when("the tool waits until "+time.Now().Add(50*time.Hour).Format("2006-01-02 "), "\x03")
			assert.Equal(t, exitInterrupted, exitOf(t, cmd.Wait()), person.shown())
			assert.Contains(t, person.end(), "saga call --resume ")
		})
	}
}
