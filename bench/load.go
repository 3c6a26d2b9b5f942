package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// figures are what one round of load took.
type figures [kinds]float64

// The kinds of figures. CPU time, allocations and bytes are per turn.
const (
	cpu     = iota // µs
	rate           // turns per second
	latency        // ms that half of the operations took at most
	allocations
	allocated // bytes
	peak      // MB that the server held at most, so far
	token     // characters of the longest
	kinds
)

// operation is what the load does again and again, such as a saga of so many turns. It returns
// the length of the longest token.
type operation struct {
	turns int
	do    func(*fasthttp.HostClient) (token int)
}

// point is a row of a table: a server, the load that it gets, and what was measured.
type point struct {
	name, kind string // kind is its protocol
	operation
	round, connections int // turns in a round
	server             *child
	taken              []figures
}

func (m measurement) point(name, kind string, o operation, server *child) *point {
	return &point{name: name, kind: kind, operation: o, round: m.sagas, connections: m.connections, server: server}
}

// repeat takes about so many turns and returns what that took. It stops at the first
// error, and when ctx ends.
func (p *point) repeat(ctx context.Context, turns int) figures {
	before, n, start := p.used(), max(turns/p.turns, 1), time.Now()
	longest, took := p.load(ctx, n)
	elapsed, f := time.Since(start).Seconds(), p.used()
	for _, kind := range []int{cpu, allocations, allocated} {
		f[kind] = (f[kind] - before[kind]) / float64(n*p.turns)
	}
	f[rate], f[latency], f[token] = float64(n*p.turns)/elapsed, took, float64(longest)
	return f
}

func (p *point) used() (f figures) {
	u := p.server.usage("/")
	f[cpu], f[peak], f[allocations], f[allocated] = micros(u.CPU), float64(u.MaxRSS)/1e6, float64(u.Mallocs), float64(u.Bytes)
	return f
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// load does the operation n times, on all connections at once, and returns the figures token and latency.
func (p *point) load(ctx context.Context, n int) (longest int, took float64) {
	client := clientOf(p.server, p.connections)
	defer client.CloseIdleConnections()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	times, lengths := make([]float64, n), make([]int, n)
	var begun atomic.Int64
	var group sync.WaitGroup
	for range p.connections {
		group.Go(func() {
			err := try(func() {
				for i := int(begun.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(begun.Add(1)) - 1 {
					start := time.Now()
					lengths[i] = p.do(client)
					times[i] = micros(time.Since(start)) / 1000
				}
			})
			if err != nil {
				end(fmt.Errorf("%s: %w", p.name, err))
			}
		})
	}
	group.Wait()
	check(context.Cause(ctx))
	slices.Sort(times)
	return slices.Max(lengths), times[n/2]
}

func clientOf(c *child, connections int) *fasthttp.HostClient {
	return &fasthttp.HostClient{Addr: c.work, MaxConns: connections, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second}
}

// measure takes every point once in each round, so that what else the machine does
// disturbs all of them alike. None always follows the same one.
func (m measurement) measure(ctx context.Context, points []*point) {
	points = slices.Clone(points)
	for round := range m.rounds + 1 {
		for _, p := range points {
			// A server that has been waiting meanwhile is slow at first.
			p.repeat(ctx, p.round/12)
			if f := p.repeat(ctx, p.round); round > 0 { // the first warms up
				p.taken = append(p.taken, f)
			}
		}
		slices.Reverse(points)
	}
}

// median is the middle of a figure in all rounds.
func (p *point) median(kind int) float64 {
	_, middle, _ := p.quartiles(kind, nil)
	return middle
}

// beside says of each point that is followed by its base how the two compare.
func beside(points []*point) (text string) {
	for i, p := range points[1:] {
		if ours := points[i]; p.name == "base of "+ours.name {
			text += ours.ratio(cpu, "\n"+strings.TrimSpace(ours.name+" "+ours.kind)+": %.3f of the base's CPU time (quartiles %.3f–%.3f).\n", p)
		}
	}
	return text
}

// ratio words how a figure compares with another point's in the same round: median and quartiles.
func (p *point) ratio(kind int, format string, other *point) string {
	low, middle, high := p.quartiles(kind, other)
	return fmt.Sprintf(format, middle, low, high)
}

// quartiles are what a quarter, half and three quarters of the rounds do not exceed of a figure, or of its
// ratio to another point's in the same round.
func (p *point) quartiles(kind int, other *point) (low, middle, high float64) {
	var values []float64
	for i, f := range p.taken {
		values = append(values, f[kind])
		if other != nil {
			values[i] /= other.taken[i][kind]
		}
	}
	slices.Sort(values)
	n := len(values)
	return values[n/4], values[n/2], values[n*3/4]
}
