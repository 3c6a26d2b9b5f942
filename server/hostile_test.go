package server_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/hostile"
	"github.com/mcpsaga/mcpsaga/server"
)

func TestRequestsCostLittlePerByte(t *testing.T) {
	r := newRig(t, server.Options{Tools: hostile.Definitions()})
	target, err := hostile.NewTarget(r.srv.Handler())
	require.NoError(t, err)
	base, err := hostile.Baseline(20)
	require.NoError(t, err)
	perByte, allocated := base.PerByte()
	t.Log(base, perByte, allocated)
	n := 0
	var all []hostile.Cost
	began := time.Now()
	for q := range target.Requests(32 << 10) {
		n++
		c, err := target.Measure(q, 1)
		assert.NoError(t, err)
		all = append(all, c)
		if l := r.log.take(); len(l) > 0 && slices.Contains([]string{}, l) {
			fmt.Println(l)
		}
	}
	t.Log(n, time.Since(began))
	slices.SortFunc(all, func(a, b hostile.Cost) int { x, _ := a.PerByte(); y, _ := b.PerByte(); return int(y - x) })
	for _, c := range all[:30] {
		a, b := c.PerByte()
		t.Logf("%8d %8.1f %8.1f %s", c.Size, a, b, c.Name)
	}
	slices.SortFunc(all, func(a, b hostile.Cost) int { _, x := a.PerByte(); _, y := b.PerByte(); return int(y - x) })
	for _, c := range all[:30] {
		a, b := c.PerByte()
		t.Logf("%8d %8.1f %8.1f %s", c.Size, a, b, c.Name)
	}
}
