package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
)

var ledgerCurves = []curve{{"unused", unusedCurve, 0}, {"sqlite", sqliteCurve, batchCallers}, {"postgres", postgresCurve, batchCallers}, {"records", recordsCurve, batchCallers}, {"sessions", sessionsCurve, 0}}

// tempStore is a ledger in a file that is removed in the end.
func (m measurement) tempStore() string { return "sqlite:" + filepath.Join(m.tempDir(), "ledger.db") }

// unusedCurve is the cost of a turn of a tool that needs no ledger, on a server without one
// and on one with.
func unusedCurve(ctx context.Context, m measurement) string {
	var points []*point
	for _, d := range []*dialect{proposal, mrtr} {
		without, with := m.point("without", whole(d), startChild(ctx, "", "ledger", "")), m.point("with", whole(d), startChild(ctx, "", "ledger", m.tempStore()))
		without.kind, without.floor, with.kind, with.floor = d.name, without, d.name, without
		points = append(points, without, with)
	}
	for _, p := range points {
		p.round *= 4 // small differences need long rounds
	}
	return m.table(ctx, points, "ledger\tprotocol\tCPU/turn\t× without\tquartiles", func(p *point) string {
		return fmt.Sprintf("%s\t%s\t%.1fµs\t%s", p.name, p.kind, p.median(cpu), p.ratio(cpu, "%.3f\t%.3f–%.3f", p.floor))
	})
}

func sqliteCurve(ctx context.Context, m measurement) string {
	return singleUse(ctx, m, m.tempStore)
}

// postgresCurve is the same on a server of PostgreSQL that is started for it.
func postgresCurve(ctx context.Context, m measurement) string {
	server, missing := m.startPostgres()
	if server == nil {
		return table("not measured", missing)
	}
	databases := 0
	return singleUse(ctx, m, func() string {
		databases++
		name := "bench" + strconv.Itoa(databases)
		server.Exec("CREATE DATABASE " + name)
		return server.URL("postgres", name)
	})
}

// singleUse measures turns that are taken once: of a tool that only asks, which writes once in a turn, and of
// one that acts, which writes twice. Each has a store of its own.
func singleUse(ctx context.Context, m measurement, fresh func() string) string {
	var points []*point
	for _, tool := range []string{"once", "acting"} {
		taken := m.point("turns of "+tool, batch, startChild(ctx, "", "turns", fresh(), tool))
		taken.connections = 1 // one request has all callers at work
		points = append(points, taken, m.point("turns of "+tool+" over HTTP", untilEnd(tool), startChild(ctx, "", "ledger", fresh())))
	}
	return m.table(ctx, points, "what\tper second\tCPU each", func(p *point) string {
		return fmt.Sprintf("%s\t%.0f\t%.0fµs", p.name, p.median(rate), p.median(cpu))
	})
}

// recordsCurve has a server make more and more records, one for each saga, and looks at its
// memory, and at how long it takes another program to open the file.
func recordsCurve(ctx context.Context, m measurement) string {
	store := m.tempStore()
	p := m.point("records", recordEach, startChild(ctx, "", "ledger", store))
	return m.growing(ctx, p, "records\theap KB\tpeak MB\tfile MB\tto open it", func(n int, u usage) string {
		file, start := must(os.Stat(store[len("sqlite:"):])), time.Now()
		s := openStore(store)
		must(s.Check(ctx))
		took := time.Since(start)
		check(s.Close())
		return fmt.Sprintf("%d\t%.0f\t%.0f\t%.0f\t%.1f ms", n, float64(u.Heap)/1e3, float64(u.MaxRSS)/1e6, float64(file.Size())/1e6, micros(took)/1e3)
	})
}

// asking is a saga of a tool that asks batchChain times, and rounds what its responses hold. Its first
// turn only asks, and the ledger has nothing to do with it.
func asking(tool string) *talk { return newTalk(mrtr, tool, fmt.Sprintf(`{"rounds":%d}`, batchChain)) }

var rounds = append(slices.Repeat([]string{"go"}, batchChain), "All rounds are done.")

// untilEnd is such a saga over HTTP. Its first turn is not counted.
func untilEnd(tool string) operation {
	return operation{batchChain, func(client *fasthttp.HostClient) int { return asking(tool).all(over(client), rounds...) }}
}

// recordEach begins a saga and takes the turn that makes its record. They are those of many users,
// as one may not have so many.
var recordEach = operation{1, func(client *fasthttp.HostClient) int {
	t := newTalk(mrtr, "once", `{"rounds":2}`)
	t.header[userHeader] = strconv.Itoa(rand.IntN(100))
	for turn := range 2 {
		t.take(turn, over(client)(t.header, t.request(turn)), "go", false)
	}
	return 0
}}

// batch is what a request to the server turns has done.
var batch = operation{batchCallers * batchEach * batchChain, func(client *fasthttp.HostClient) int {
	status, body, err := client.Get(nil, "http://localhost/")
	if check(err); status != fasthttp.StatusOK {
		fail("status %d: %.300s", status, body)
	}
	return 0
}}

// startPostgres starts a server of PostgreSQL that is stopped in the end, or says why there is none.
func (m measurement) startPostgres() (server *postgrestest.Server, missing string) {
	defer func() {
		if s, skipped := recover().(skip); skipped {
			missing = string(s)
		}
	}()
	return postgrestest.Run(outsider{m: m}), ""
}

// outsider stands in for a test, for package postgrestest.
type outsider struct {
	testing.TB
	m measurement
}

type skip string

func (o outsider) Helper()                           {}
func (o outsider) Cleanup(f func())                  { o.m.cleanup(f) }
func (o outsider) Skipf(format string, args ...any)  { panic(skip(fmt.Sprintf(format, args...))) }
func (o outsider) Errorf(format string, args ...any) { fail(format, args...) }
func (o outsider) Fatalf(format string, args ...any) { o.Errorf(format, args...) }
func (o outsider) FailNow()                          {}
