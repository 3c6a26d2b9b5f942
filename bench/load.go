package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// figures are the result of one round of load.
type figures struct {
	turns   int
	elapsed time.Duration
	used    usage // MaxRSS so far, the rest meanwhile
	token   int   // characters of the longest
}

func (f figures) micros() float64 { return float64(f.used.CPU.Nanoseconds()) / 1000 / float64(f.turns) }

func (f figures) rate() float64 { return float64(f.turns) / f.elapsed.Seconds() }

// operation is what the load does again and again: some turns of a saga. It returns
// the length of the longest token.
type operation struct {
	turns int
	do    func(*fasthttp.HostClient) (token int, err error)
}

// repeat does something n times, from so many connections at once, and returns what
// that took of the servers, of which the first is the one called. It stops at the
// first error, and when ctx ends.
func repeat(ctx context.Context, n, connections int, o operation, all ...*child) (figures, error) {
	before, err := usageOf(all)
	if err != nil {
		return figures{}, err
	}
	client := clientOf(all[0], connections)
	defer client.CloseIdleConnections()
	var next, longest atomic.Int64
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	start := time.Now()
	var group sync.WaitGroup
	for range connections {
		group.Go(func() {
			for next.Add(1) <= int64(n) && ctx.Err() == nil {
				token, err := o.do(client)
				if err != nil {
					fail(err)
				}
				for old := longest.Load(); int64(token) > old && !longest.CompareAndSwap(old, int64(token)); old = longest.Load() {
				}
			}
		})
	}
	group.Wait()
	result := figures{turns: n * o.turns, elapsed: time.Since(start), token: int(longest.Load())}
	if ctx.Err() != nil {
		return result, context.Cause(ctx)
	}
	after, err := usageOf(all)
	result.used = usage{CPU: after.CPU - before.CPU, Mallocs: after.Mallocs - before.Mallocs, Bytes: after.Bytes - before.Bytes, MaxRSS: after.MaxRSS}
	return result, err
}

func clientOf(c *child, connections int) *fasthttp.HostClient {
	return &fasthttp.HostClient{Addr: c.work, MaxConns: connections, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second}
}

// usageOf adds up what servers have used.
func usageOf(all []*child) (sum usage, err error) {
	for _, c := range all {
		u, err := c.usage("/")
		if err != nil {
			return sum, err
		}
		sum = usage{CPU: sum.CPU + u.CPU, Mallocs: sum.Mallocs + u.Mallocs, Bytes: sum.Bytes + u.Bytes, MaxRSS: sum.MaxRSS + u.MaxRSS}
	}
	return sum, nil
}

// point is one place of a curve, or a contestant, and what was measured of it.
type point struct {
	name      string
	server    *child
	operation operation
	taken     []figures
}

// measure takes every point once in each round, so that what else the machine does
// disturbs all of them alike. Nobody always follows the same one.
func (m measurement) measure(ctx context.Context, turns int, points []*point) error {
	points = slices.Clone(points)
	for round := range m.rounds + 1 {
		for _, p := range points {
			n := max(turns/p.operation.turns, 1)
			// A server that has been waiting meanwhile is slow at first.
			_, err := repeat(ctx, max(n/12, 1), m.connections, p.operation, p.server)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			f, err := repeat(ctx, n, m.connections, p.operation, p.server)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			if round > 0 { // the first warms up
				p.taken = append(p.taken, f)
			}
		}
		slices.Reverse(points)
	}
	return nil
}

// whole is a whole saga of the proposal's tool.
func whole(d *dialect) operation {
	return operation{turns, func(client *fasthttp.HostClient) (longest int, err error) {
		t := deploy(d)
		for turn := range turns {
			if err := t.send(client, turn+1, t.request(turn+1), wanted[turn], turn == turns-1); err != nil {
				return 0, fmt.Errorf("turn %d: %w", turn+1, err)
			}
			longest = max(longest, len(t.token)-len(`""`))
		}
		return longest, nil
	}}
}

// send sends a request of the saga and takes the response. Any status but 200 is an
// error.
func (t *talk) send(client *fasthttp.HostClient, id int, body []byte, wanted string, last bool) error {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI("http://localhost/mcp")
	req.Header.SetMethod(http.MethodPost)
	req.Header.SetContentType("application/json")
	for k, v := range t.header {
		req.Header.Set(k, v)
	}
	req.SetBody(body)
	if err := client.Do(req, resp); err != nil {
		return err
	}
	if resp.StatusCode() != http.StatusOK {
		return fmt.Errorf("a wrong answer: status %d: %.300s", resp.StatusCode(), resp.Body())
	}
	return t.take(id, resp.Body(), wanted, last)
}

// reach brings a saga of the tools rounds and rounds_flow to the turn that answers
// its n-th question, and returns that turn, which can be taken again and again: a
// token without a ledger may be used any number of times.
func reach(server *child, d *dialect, tool string, rounds, size, n int) (operation, error) {
	client := clientOf(server, 1)
	defer client.CloseIdleConnections()
	t := newTalk(d, tool, fmt.Sprintf(`{"rounds":%d,"size":%d}`, rounds, size))
	for range n {
		if err := t.send(client, 1, t.request(1), "go", false); err != nil {
			return operation{}, err
		}
	}
	body := t.request(1)
	return operation{1, func(client *fasthttp.HostClient) (int, error) {
		same := *t
		return 0, same.send(client, 1, body, "", false)
	}}, nil
}
