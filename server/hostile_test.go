package server_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/hostile"
	"github.com/mcpsaga/mcpsaga/server"
)

// No request costs much for its size, whatever is in it: of no method, in no dialect.
// Costs are compared with what it takes to read as much JSON as usual, measured here
// and now, and so do not depend on the machine. The tool "strict" has a schema with
// the most expensive keywords; what an author demands of every element is the
// author's.
//
// Nor does any of them end as a fault of the server's, or raise an alarm.
func TestRequestsCostLittlePerByte(t *testing.T) {
	const (
		size = 12 << 10
		// times as much as usual; what is found is a half to a third of these
		mostCPU, mostCPUStrict = 60, 150
		mostMemory             = 60
		// requests are at least so large in this reckoning: each costs something
		least = 4 << 10
	)
	if raceEnabled {
		t.Skip("with the race detector other things cost more than usual")
	}
	r := newRig(t, server.Options{Tools: hostile.Definitions()})
	target, err := hostile.NewTarget(r.srv.Handler())
	require.NoError(t, err)
	base, err := hostile.Baseline(20)
	require.NoError(t, err)
	usual, usualMemory := base.PerByte()
	measured := 0
	for q := range target.Requests(size, nil) {
		measured++
		most := float64(mostCPU)
		if strings.Contains(q.Name, "strict.") {
			most = mostCPUStrict
		}
		var cpu, memory float64
		for _, times := range []int{1, 3, 10} { // somebody else may have been at work
			c, err := target.Measure(q, times)
			require.NoError(t, err)
			c.Size = max(c.Size, least)
			cpu, memory = c.PerByte()
			if cpu <= most*usual {
				break
			}
		}
		assert.LessOrEqual(t, cpu/usual, most, "time: %s", q.Name)
		assert.LessOrEqual(t, memory/usualMemory, float64(mostMemory), "memory: %s", q.Name)
		assert.NotContains(t, r.log.take(), "ERROR", q.Name)
	}
	assert.Greater(t, measured, 5000)
}

// What is far too large to be remembered is refused, and is no fault of the server's
// either.
func TestLargeRequestsAreNoFaultOfTheServer(t *testing.T) {
	if testing.Short() {
		t.Skip("sends requests of half a megabyte")
	}
	r := newRig(t, server.Options{Tools: hostile.Definitions()})
	target, err := hostile.NewTarget(r.srv.Handler())
	require.NoError(t, err)
	large := func(name string) bool {
		return strings.Contains(name, "ask.arguments.any, text") || strings.Contains(name, "form.content.text, text") || strings.Contains(name, "error.data, text")
	}
	for q := range target.Requests(500<<10, large) {
		_, _, err := target.Send(q)
		assert.NoError(t, err)
		assert.NotContains(t, r.log.take(), "ERROR", q.Name)
	}
}
