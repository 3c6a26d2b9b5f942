package turns_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// An outage of the ledger is one line of the log in ten seconds, however many requests wait for its end.
func TestOutagesAreLoggedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := &turns.Runner{Config: turns.Config{Log: slog.New(slog.NewTextHandler(&log, nil))}}
		for range 100 {
			_ = r.Report(t.Context(), "task", turns.ErrLedger)
			time.Sleep(250 * time.Millisecond)
		}
		assert.Equal(t, 3, strings.Count(log.String(), "level=ERROR"))
	})
}
