package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/valyala/fasthttp"
)

// askAll takes a saga of a tool that asks batchChain times. Its first turn only asks, and the
// ledger has nothing to do with it.
func askAll(tool string, turn func(t *talk, id int, wanted string, last bool) error) error {
	t := newTalk(mrtr, tool, fmt.Sprintf(`{"rounds":%d}`, batchChain))
	for id := range batchChain {
		if err := turn(t, id, "go", false); err != nil {
			return err
		}
	}
	return turn(t, batchChain, "All rounds are done.", true)
}

// overHTTP is such a saga over HTTP. Its first turn is not counted.
func overHTTP(tool string) operation {
	return operation{batchChain, func(client *fasthttp.HostClient) (longest int, err error) {
		return longest, askAll(tool, func(t *talk, id int, wanted string, last bool) error {
			err := t.send(client, id, t.request(id), wanted, last)
			longest = max(longest, t.tokenLength())
			return err
		})
	}}
}

// batch is what a request to the servers swaps and turns has done.
var batch = operation{batchCallers * batchEach * batchChain, func(client *fasthttp.HostClient) (int, error) {
	status, body, err := client.Get(nil, "http://localhost/")
	if err == nil && status != fasthttp.StatusOK {
		err = fmt.Errorf("status %d: %.300s", status, body)
	}
	return 0, err
}}

func ledgerCurve(ctx context.Context, m measurement) {
	dir := must(os.MkdirTemp("", "bench"))
	defer os.RemoveAll(dir)
	file := func(name string) string { return "sqlite:" + filepath.Join(dir, name) }
	raw := m.point("swaps", batch, startChild(ctx, "", "swaps", file("swaps")))
	once := m.point("turns that do not act", batch, startChild(ctx, "", "turns", file("once"), "once"))
	acting := m.point("turns that act", batch, startChild(ctx, "", "turns", file("acting"), "acting"))
	for _, p := range []*point{raw, once, acting} {
		p.connections, p.round = 1, 2*batch.turns
	}
	h := m.point("http", overHTTP("once"), startChild(ctx, "", "ledger", file("http")))
	h.connections = 16
	m.measure(ctx, []*point{once, raw, acting, h})
	t := newTable("x", "rate", "of raw", "quartiles", "CPU")
	for _, p := range []*point{raw, once, acting, h} {
		low, middle, high := against(p, raw, rate)
		t.row("%s\t%.0f\t%.2f\t%.2f-%.2f\t%.1f", p.name, p.median(rate), middle, low, high, p.median(cpu))
	}
	m.section("ledger", t)
}
