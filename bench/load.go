package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// child is a server process.
type child struct {
	cmd           *exec.Cmd
	stdin         io.Closer
	work, control string
}

// startChild starts a server. It ends when it is stopped, when this process ends,
// and when ctx does.
func startChild(ctx context.Context, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, self, append([]string{"child"}, args...)...)}
	c.cmd.Env = append(os.Environ(), childMark+"=1")
	c.cmd.Stderr = os.Stderr
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	addresses := strings.Fields(line)
	if err != nil || len(addresses) != 2 {
		c.stop()
		return nil, fmt.Errorf("the server %s did not start: %v", args[0], err)
	}
	c.work, c.control = addresses[0], addresses[1]
	for _, a := range addresses {
		if !onThisMachine(a) {
			c.stop()
			return nil, fmt.Errorf("the server %s listens at %q, which is not on this machine alone", args[0], a)
		}
	}
	return c, nil
}

// onThisMachine reports whether an address is on the loopback interface, where no
// other machine gets to.
func onThisMachine(address string) bool {
	at, err := netip.ParseAddrPort(address)
	return err == nil && at.Addr().IsLoopback()
}

func (c *child) stop() {
	c.stdin.Close()
	c.cmd.Wait()
}

func (c *child) usage(path string) (u usage, err error) {
	client := http.Client{Timeout: time.Minute}
	resp, err := client.Get("http://" + c.control + path)
	if err != nil {
		return u, err
	}
	defer resp.Body.Close()
	return u, json.NewDecoder(resp.Body).Decode(&u)
}

// figures are the result of one round of load.
type figures struct {
	turns   int
	elapsed time.Duration
	used    usage // difference
	maxRSS  uint64
	token   int // characters of the longest
}

func (f figures) cpuPerTurn() time.Duration { return f.used.CPU / time.Duration(max(f.turns, 1)) }

func (f figures) rate() float64 { return float64(f.turns) / f.elapsed.Seconds() }

// repeat calls f n times, from so many connections at once, and returns what that
// took of the servers, of which the first is the one called. It stops at the first
// error, and when ctx ends.
func repeat(ctx context.Context, n, connections int, f func(*fasthttp.HostClient) error, front *child, behind ...*child) (figures, error) {
	all := append([]*child{front}, behind...)
	before, err := usageOf(all)
	if err != nil {
		return figures{}, err
	}
	client := &fasthttp.HostClient{Addr: front.work, MaxConns: connections, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	var next atomic.Int64
	errs := make(chan error, connections)
	start := time.Now()
	var group sync.WaitGroup
	for range connections {
		group.Go(func() {
			for next.Add(1) <= int64(n) {
				err := context.Cause(ctx)
				if err == nil {
					err = f(client)
				}
				if err != nil {
					errs <- err
					next.Store(int64(n))
					return
				}
			}
		})
	}
	group.Wait()
	result := figures{turns: n, elapsed: time.Since(start)}
	select {
	case err := <-errs:
		return result, err
	default:
	}
	after, err := usageOf(all)
	result.used = usage{CPU: after.CPU - before.CPU, Mallocs: after.Mallocs - before.Mallocs, Bytes: after.Bytes - before.Bytes}
	result.maxRSS = after.MaxRSS
	return result, err
}

// usageOf adds up what servers have used.
func usageOf(all []*child) (sum usage, err error) {
	for _, c := range all {
		u, err := c.usage("/")
		if err != nil {
			return sum, err
		}
		sum.CPU += u.CPU
		sum.Mallocs += u.Mallocs
		sum.Bytes += u.Bytes
		sum.MaxRSS += u.MaxRSS
	}
	return sum, nil
}

// load runs whole sagas.
func load(ctx context.Context, w *work, sagas, connections int, front *child, behind ...*child) (figures, error) {
	var longest atomic.Int64
	f, err := repeat(ctx, sagas, connections, func(client *fasthttp.HostClient) error {
		n, err := oneSaga(client, w)
		for old := longest.Load(); int64(n) > old && !longest.CompareAndSwap(old, int64(n)); old = longest.Load() {
		}
		return err
	}, front, behind...)
	f.turns, f.token = f.turns*turns, int(longest.Load())
	return f, err
}

// oneSaga runs a saga from its call to its end and returns the length of its
// longest token.
func oneSaga(client *fasthttp.HostClient, w *work) (longest int, err error) {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	var token []byte
	for turn := range turns {
		id := turn + 1
		if err := post(client, req, resp, w.headers, w.request(turn, id, token)); err != nil {
			return 0, fmt.Errorf("turn %d of %s: %w", turn+1, w.name, err)
		}
		if token, err = w.check(turn, id, resp.Body()); err != nil {
			return 0, err
		}
		longest = max(longest, len(token)-2)
	}
	return longest, nil
}

// post sends a request. Any response but 200 is an error.
func post(client *fasthttp.HostClient, req *fasthttp.Request, resp *fasthttp.Response, headers map[string]string, body []byte) error {
	req.Reset()
	req.SetRequestURI("http://localhost/mcp")
	req.Header.SetMethod(http.MethodPost)
	req.Header.SetContentType("application/json")
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	req.SetBody(body)
	if err := client.Do(req, resp); err != nil {
		return err
	}
	if resp.StatusCode() != http.StatusOK {
		return fmt.Errorf("status %d: %.300s", resp.StatusCode(), resp.Body())
	}
	return nil
}
