package bench

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func fail(format string, args ...any) { panic(fmt.Errorf(format, args...)) }

// connections is how many clients there are at once.
const connections = 8

// operation is what the load does again and again, such as a saga of so many turns. It returns
// the length of the longest token.
type operation struct {
	turns int
	do    func(*fasthttp.HostClient) (token int)
}

// load does an operation as often as b wants it, and reports what each turn has cost the server.
func load(b *testing.B, server *child, o operation) {
	client := clientOf(server)
	defer client.CloseIdleConnections()
	o.repeat(client, 1+b.N/12) // a server that has been waiting is slow at first
	before := server.usage("/")
	b.ResetTimer()
	times, longest := o.repeat(client, b.N)
	b.StopTimer()
	after, taken := server.usage("/"), float64(b.N*o.turns)
	b.ReportMetric(float64(after.CPU-before.CPU)/1000/taken, "cpu-µs/turn")
	b.ReportMetric(taken/b.Elapsed().Seconds(), "turns/s")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/taken, "server-allocs/turn")
	b.ReportMetric(float64(after.Bytes-before.Bytes)/taken, "server-B/turn")
	b.ReportMetric(float64(times[b.N/2])/1e6, "p50-ms")
	b.ReportMetric(float64(after.MaxRSS)/1e6, "peak-MB")
	if longest > 0 {
		b.ReportMetric(float64(longest), "token-chars")
	}
}

func clientOf(c *child) *fasthttp.HostClient {
	return &fasthttp.HostClient{Addr: c.work, MaxConns: connections, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second}
}

// repeat does the operation n times, on all connections at once. It returns the times that they took, from the shortest on,
// and the length of the longest token.
func (o operation) repeat(client *fasthttp.HostClient, n int) (times []time.Duration, longest int) {
	times = make([]time.Duration, n)
	lengths := make([]int, n)
	var begun atomic.Int64
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			for i := int(begun.Add(1)) - 1; i < n; i = int(begun.Add(1)) - 1 {
				start := time.Now()
				lengths[i] = o.do(client)
				times[i] = time.Since(start)
			}
		})
	}
	all.Wait()
	slices.Sort(times)
	return times, slices.Max(lengths)
}

// contestants are the servers whose turns are compared. The SDK does not speak the proposal.
var contestants = []struct {
	server string
	*dialect
}{
	{"go-sdk", mrtr}, {"mounted", mrtr}, {"mcpsaga", mrtr}, {"mcpsaga-flow", mrtr}, {"mcpsaga", proposal}, {"mcpsaga-flow", proposal},
}

// BenchmarkTurns is whole sagas of complex_tool.
func BenchmarkTurns(b *testing.B) {
	for _, c := range contestants {
		b.Run(c.server+"/"+c.name, func(b *testing.B) {
			load(b, startChild(b, c.server), whole(c.dialect))
		})
	}
}
