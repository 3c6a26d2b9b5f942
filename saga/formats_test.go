package saga_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
)

// Names in arguments may be long and lists may be, but their lengths must not be
// multiplied by looking at each item's format.
func TestFormatsBelowLongNamesAreCheckedInNoTime(t *testing.T) {
	type args struct {
		Times map[string][]*time.Time `json:"times"`
	}
	f := saga.Flow[args, string]{Info: saga.Info{Name: "x"}, Run: func(*saga.Run, args) (string, error) { return "fine", nil }}
	p := play(t, f)
	arguments := `{"times":{"` + strings.Repeat("k", 50_000) + `":[` + strings.Repeat("null,", 10_000) + `null]}}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out := p.start(arguments)
	runtime.ReadMemStats(&after)
	assert.Equal(t, "fine", text(t, out))
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(50<<20), "bytes for a request of %d", len(arguments))

	assert.Contains(t, text(t, p.start(`{"times":{"a":[null,"2026-01-01T00:00:00Z","never"]}}`)), `/times/a/2 must be a date and time`)
}
