package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
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

func startChild(name string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(self, "child", name)}
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
		return nil, fmt.Errorf("the server %s did not start: %v", name, err)
	}
	c.work, c.control = addresses[0], addresses[1]
	return c, nil
}

func (c *child) stop() {
	c.stdin.Close()
	c.cmd.Wait()
}

func (c *child) usage(path string) (u usage, err error) {
	resp, err := http.Get("http://" + c.control + path)
	if err != nil {
		return u, err
	}
	defer resp.Body.Close()
	return u, json.NewDecoder(resp.Body).Decode(&u)
}

// figures are the result of one round of load.
type figures struct {
	sagas   int
	elapsed time.Duration
	used    usage // difference
	maxRSS  uint64
	token   int // characters of the longest
}

// load runs sagas from several connections at once and fails at the first wrong
// answer. It ends when all are done.
func load(c *child, w *work, sagas, connections int) (figures, error) {
	before, err := c.usage("/")
	if err != nil {
		return figures{}, err
	}
	client := &fasthttp.HostClient{Addr: c.work, MaxConns: connections, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	var next, longest atomic.Int64
	errs := make(chan error, connections)
	start := time.Now()
	var group sync.WaitGroup
	for range connections {
		group.Go(func() {
			for next.Add(1) <= int64(sagas) {
				n, err := oneSaga(client, w)
				if err != nil {
					errs <- err
					next.Store(int64(sagas))
					return
				}
				for old := longest.Load(); int64(n) > old && !longest.CompareAndSwap(old, int64(n)); old = longest.Load() {
				}
			}
		})
	}
	group.Wait()
	f := figures{sagas: sagas, elapsed: time.Since(start), token: int(longest.Load())}
	select {
	case err := <-errs:
		return f, err
	default:
	}
	after, err := c.usage("/")
	f.used = usage{CPU: after.CPU - before.CPU, Mallocs: after.Mallocs - before.Mallocs, Bytes: after.Bytes - before.Bytes}
	f.maxRSS = after.MaxRSS
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
		req.Reset()
		req.SetRequestURI("http://localhost/mcp")
		req.Header.SetMethod(http.MethodPost)
		req.Header.SetContentType("application/json")
		for k, v := range w.headers {
			req.Header.Set(k, v)
		}
		id := turn + 1
		req.SetBody(w.request(turn, id, token))
		if err := client.Do(req, resp); err != nil {
			return 0, err
		}
		if resp.StatusCode() != http.StatusOK {
			return 0, fmt.Errorf("turn %d of %s: status %d: %.300s", turn+1, w.name, resp.StatusCode(), resp.Body())
		}
		if token, err = w.check(turn, id, resp.Body()); err != nil {
			return 0, err
		}
		longest = max(longest, len(token)-2)
	}
	return longest, nil
}
