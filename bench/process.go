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
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/cputime"
)

type usage struct {
	CPU            time.Duration // user and system
	Mallocs, Bytes uint64
	MaxRSS         uint64 // bytes
	Heap           uint64 // live, after a collection
}

// serveChild runs the server that the first argument names until its standard input ends, as it does
// when the parent ends or dies. It prints the addresses of the server and of its usage. Builds of
// other commits are started in the same way, so this must not change.
func serveChild(args []string) error {
	if len(args) == 0 || servers[args[0]] == nil {
		return fmt.Errorf("there is no server %q", args)
	}
	return try(func() {
		for _, handler := range []http.Handler{servers[args[0]](args[1:]), http.HandlerFunc(serveUsage)} {
			l := must(net.Listen("tcp", "127.0.0.1:0"))
			fmt.Print(l.Addr(), " ")
			go http.Serve(l, handler)
		}
		fmt.Println()
		must(io.Copy(io.Discard, os.Stdin))
	})
}

// serveUsage reports what this process has used. For the heap, garbage is collected first.
func serveUsage(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/heap" {
		runtime.GC()
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	// Getrusage would count what the parent held when it started this process.
	peak, _ := strconv.ParseUint(inFile("/proc/self/status", `VmHWM:\s*(\d+)`), 10, 64)
	json.NewEncoder(w).Encode(usage{CPU: cputime.Used(), Mallocs: m.Mallocs, Bytes: m.TotalAlloc, Heap: m.HeapAlloc, MaxRSS: peak << 10})
}

// inFile returns what the group of an expression matches in a file, or "".
func inFile(name, expression string) string {
	text, _ := os.ReadFile(name)
	found := append(regexp.MustCompile(expression).FindSubmatch(text), nil, nil)
	return string(found[1])
}

// child is a server process, by its addresses.
type child struct{ work, control string }

// childMark is set for processes that this program starts, by which its test becomes such a process.
const childMark = "MCPSAGA_BENCH_CHILD"

// startChild starts a server of a program, or of this one if that is empty. It ends when ctx does, and
// when this process ends.
func startChild(ctx context.Context, program string, args ...string) *child {
	cmd := exec.CommandContext(ctx, cmp.Or(program, must(os.Executable())), append([]string{"child"}, args...)...)
	cmd.Env, cmd.Stderr = append(os.Environ(), childMark+"=1"), os.Stderr
	out := must(cmd.StdoutPipe())
	must(cmd.StdinPipe())
	check(cmd.Start())
	c := new(child)
	line, err := bufio.NewReader(out).ReadString('\n')
	go cmd.Wait()
	if _, scanned := fmt.Sscan(line, &c.work, &c.control); errors.Join(err, scanned) != nil {
		fail("the server %s did not start: %w", args[0], errors.Join(err, scanned))
	}
	return c
}

func (c *child) usage(path string) (u usage) {
	client := http.Client{Timeout: time.Minute}
	resp := must(client.Get("http://" + c.control + path))
	defer resp.Body.Close()
	check(json.NewDecoder(resp.Body).Decode(&u))
	return u
}
