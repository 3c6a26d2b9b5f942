package main

import (
	"cmp"
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
	turns, token int // how many, and the characters of the longest
	elapsed      time.Duration
	used         [2]usage // of the servers, and of a proxy; MaxRSS so far, the rest meanwhile
}

func (f figures) micros() float64    { return f.microsOf(0) }
func (f figures) rate() float64      { return float64(f.turns) / f.elapsed.Seconds() }
func (f figures) megabytes() float64 { return float64(f.used[0].MaxRSS) / 1e6 }

func (f figures) microsOf(i int) float64 {
	return float64(f.used[i].CPU.Nanoseconds()) / 1000 / float64(f.turns)
}

// operation is what the load does again and again: some turns of a saga. It returns
// the length of the longest token.
type operation struct {
	turns int
	do    func(*fasthttp.HostClient) (token int, err error)
}

// point is one place of a curve, or a contestant, and what was measured of it.
type point struct {
	name string
	operation
	round       int // turns
	connections int
	servers     []*child
	proxy       *child // before them, or nil
	taken       []figures
}

func (m measurement) point(name string, o operation, servers ...*child) *point {
	return &point{name: name, operation: o, round: m.sagas * turns, connections: m.connections, servers: servers}
}

// usage is what the servers have used together, and the proxy.
func (p *point) usage() (sum [2]usage, err error) {
	for _, c := range p.servers {
		u, err := c.usage("/")
		if err != nil {
			return sum, err
		}
		sum[0] = sum[0].plus(u, 1)
		sum[0].MaxRSS += u.MaxRSS
	}
	if p.proxy != nil {
		sum[1], err = p.proxy.usage("/")
	}
	return sum, err
}

// repeat takes about so many turns and returns what that took. It stops at the first
// error, and when ctx ends.
func (p *point) repeat(ctx context.Context, turns int) (f figures, err error) {
	before, err := p.usage()
	if err != nil {
		return f, err
	}
	client := clientOf(cmp.Or(p.proxy, p.servers[0]), p.connections)
	defer client.CloseIdleConnections()
	n, start := max(turns/p.turns, 1), time.Now()
	var next, longest atomic.Int64
	var group sync.WaitGroup
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	for range p.connections {
		group.Go(func() {
			for next.Add(1) <= int64(n) && ctx.Err() == nil {
				token, err := p.do(client)
				if err != nil {
					fail(fmt.Errorf("%s: %w", p.name, err))
				}
				longest.Store(max(longest.Load(), int64(token))) // they are all about as long
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return f, context.Cause(ctx)
	}
	f = figures{turns: n * p.turns, elapsed: time.Since(start), token: int(longest.Load())}
	f.used, err = p.usage()
	for i, b := range before {
		f.used[i] = f.used[i].plus(b, -1)
	}
	return f, err
}

func clientOf(c *child, connections int) *fasthttp.HostClient {
	return &fasthttp.HostClient{Addr: c.work, MaxConns: connections, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second}
}

// measure takes every point once in each round, so that what else the machine does
// disturbs all of them alike. Nobody always follows the same one.
func (m measurement) measure(ctx context.Context, points []*point) {
	points = slices.Clone(points)
	for round := range m.rounds + 1 {
		for _, p := range points {
			// A server that has been waiting meanwhile is slow at first.
			must(p.repeat(ctx, p.round/12))
			f := must(p.repeat(ctx, p.round))
			if round > 0 { // the first warms up
				p.taken = append(p.taken, f)
			}
		}
		slices.Reverse(points)
	}
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
func reach(server *child, d *dialect, tool string, rounds, size, n int) operation {
	client := clientOf(server, 1)
	defer client.CloseIdleConnections()
	t := newTalk(d, tool, fmt.Sprintf(`{"rounds":%d,"size":%d}`, rounds, size))
	for range n {
		check(t.send(client, 1, t.request(1), "go", false))
	}
	body := t.request(1)
	return operation{1, func(client *fasthttp.HostClient) (int, error) {
		same := *t
		err := same.send(client, 1, body, "", false)
		return len(same.token) - len(`""`), err
	}}
}
