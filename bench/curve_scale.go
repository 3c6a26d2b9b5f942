package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/mcpsaga/mcpsaga/codec"
)

// replicasCurve runs sagas whose every turn goes to the next of several processes
// that share nothing but the keys. CPU is that of the servers and of the proxy.
func replicasCurve(ctx context.Context, s settings) error {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	keys, err := codec.NewKeyset()
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "keys.json")
	if err := keys.WriteFile(file); err != nil {
		return err
	}
	out := s.out.table("replicas", "turns/s", "server CPU/turn", "proxy CPU/turn")
	for n := 1; n <= 4; n++ {
		var proxy []figures
		servers, err := s.several(func() (figures, error) {
			sum, front, err := replicated(ctx, s, file, n)
			proxy = append(proxy, front)
			return sum, err
		})
		if err != nil {
			return err
		}
		out.row("%d\t%.0f\t%.1fµs\t%.1fµs", n, median(servers, figures.rate),
			micros(median(servers, cpu)), micros(median(proxy, cpu)))
	}
	return out.flush()
}

// replicated returns what n servers behind a proxy have used, and the proxy.
func replicated(ctx context.Context, s settings, keys string, n int) (servers, proxy figures, err error) {
	var behind []*child
	args := []string{"proxy"}
	for range n {
		c, err := startChild(ctx, "mcpsaga", keys)
		if err != nil {
			return servers, proxy, err
		}
		defer c.stop()
		behind, args = append(behind, c), append(args, c.work)
	}
	front, err := startChild(ctx, args...)
	if err != nil {
		return servers, proxy, err
	}
	defer front.stop()
	if _, err := load(ctx, &sagaWork, max(s.sagas/10, 1), s.connections, front, behind...); err != nil {
		return servers, proxy, err
	}
	before, err := front.usage("/")
	if err != nil {
		return servers, proxy, err
	}
	all, err := load(ctx, &sagaWork, s.sagas, s.connections, front, behind...)
	if err != nil {
		return servers, proxy, err
	}
	after, err := front.usage("/")
	servers, proxy = all, all
	proxy.used.CPU = after.CPU - before.CPU
	servers.used.CPU -= proxy.used.CPU
	return servers, proxy, err
}

// heapCurve leaves more and more sagas suspended and looks at the server's heap,
// after a collection, and at the most memory that it ever held.
func heapCurve(ctx context.Context, s settings) error {
	server, err := startChild(ctx, "mcpsaga")
	if err != nil {
		return err
	}
	defer server.stop()
	first, err := reach(server, "saga", "rounds", 3, 0, 0)
	if err != nil {
		return err
	}
	// Pools and connections come into being with the first sagas.
	if _, err := repeat(ctx, 10_000, s.connections, first.once, server); err != nil {
		return err
	}
	start, err := server.usage("/heap")
	if err != nil {
		return err
	}
	out := s.out.table("suspended", "heap KB", "growth B", "peak MB")
	out.row("0\t%.0f\t0\t%.0f", float64(start.Heap)/1e3, float64(start.MaxRSS)/1e6)
	for done, next := 0, min(10_000, s.suspended); done < s.suspended; next = min(next*10, s.suspended) {
		if _, err := repeat(ctx, next-done, s.connections, first.once, server); err != nil {
			return err
		}
		done = next
		u, err := server.usage("/heap")
		if err != nil {
			return err
		}
		out.row("%d\t%.0f\t%d\t%.0f", done, float64(u.Heap)/1e3, int64(u.Heap)-int64(start.Heap), float64(u.MaxRSS)/1e6)
	}
	return out.flush()
}
