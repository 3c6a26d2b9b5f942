package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// usage is what a server process has used so far.
type usage struct {
	CPU     time.Duration // user and system
	Mallocs uint64
	Bytes   uint64
	MaxRSS  uint64 // bytes
	Heap    uint64 // live, after a collection
}

// serveChild runs a server until its standard input ends, which it does when the
// parent ends, however that comes. It prints the addresses of the server and of
// its usage. What comes after the name is the server's own: a file of keys, or for
// the proxy the servers behind it. (Builds of other commits are started in the same
// way, so this is not to change.)
func serveChild(args []string) error {
	if len(args) == 0 || servers[args[0]] == nil {
		return fmt.Errorf("there is no server %q", args)
	}
	h, err := servers[args[0]](args[1:])
	if err != nil {
		return err
	}
	var listeners [2]net.Listener
	for i := range listeners {
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return err
		}
	}
	fmt.Println(listeners[0].Addr(), listeners[1].Addr())
	go http.Serve(listeners[1], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/heap" {
			runtime.GC()
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		json.NewEncoder(w).Encode(usage{CPU: cpuTime(), Mallocs: m.Mallocs, Bytes: m.TotalAlloc, Heap: m.HeapAlloc, MaxRSS: peakMemory()})
	}))
	go http.Serve(listeners[0], h)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// peakMemory is the most memory that this process has held so far, on Linux.
// (Getrusage counts what its parent held when it started it.)
func peakMemory() uint64 {
	kib, _ := strconv.ParseUint(inFile("/proc/self/status", `VmHWM:\s*(\d+)`), 10, 64)
	return kib << 10
}

// inFile finds what an expression's group matches in a file, if there is one.
func inFile(name, expression string) string {
	text, _ := os.ReadFile(name)
	found := regexp.MustCompile(expression).FindSubmatch(text)
	if found == nil {
		return ""
	}
	return string(found[1])
}

// child is a server process.
type child struct {
	cmd           *exec.Cmd
	stdin         io.Closer
	work, control string
}

// childMark is set for processes that this program starts, so that its test can
// be such a process as well.
const childMark = "MCPSAGA_BENCH_CHILD"

// startChild starts a server of a program, or of this one. It ends when it is stopped,
// when this process ends, and when ctx does.
func startChild(ctx context.Context, program string, args ...string) (c *child, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c = &child{cmd: exec.CommandContext(ctx, cmp.Or(program, self), append([]string{"child"}, args...)...)}
	c.cmd.Env, c.cmd.Stderr = append(os.Environ(), childMark+"=1"), os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err == nil {
		c.stdin, err = c.cmd.StdinPipe()
	}
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if _, scanned := fmt.Sscan(line, &c.work, &c.control); errors.Join(err, scanned) != nil {
		err = fmt.Errorf("the server %s did not start: %w", args[0], errors.Join(err, scanned))
	} else if !onThisMachine(c.work) || !onThisMachine(c.control) {
		err = fmt.Errorf("the server %s listens at %q, which is not on this machine alone", args[0], strings.TrimSpace(line))
	}
	if err != nil {
		c.stop()
		return nil, err
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
