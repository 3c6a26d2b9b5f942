package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
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
// when the parent ends or dies. It prints the addresses of the server and of its usage.
func serveChild(args []string) {
	for _, handler := range []http.Handler{servers[args[0]](args[1:]), http.HandlerFunc(serveUsage)} {
		l := must(net.Listen("tcp", "127.0.0.1:0"))
		fmt.Print(l.Addr(), " ")
		go http.Serve(l, handler)
	}
	fmt.Println()
	must(io.Copy(io.Discard, os.Stdin))
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
	var peak uint64
	status, _ := os.ReadFile("/proc/self/status")
	if _, line, found := strings.Cut(string(status), "VmHWM:"); found {
		_, _ = fmt.Sscan(line, &peak)
	}
	json.NewEncoder(w).Encode(usage{CPU: cputime.Used(), Mallocs: m.Mallocs, Bytes: m.TotalAlloc, Heap: m.HeapAlloc, MaxRSS: peak << 10})
}

// child is a server process, by its addresses.
type child struct{ work, control string }

// startChild starts a server, which ends with the test, and when this process ends.
func startChild(t testing.TB, args ...string) *child {
	cmd := exec.CommandContext(t.Context(), must(os.Executable()), append([]string{"child"}, args...)...)
	cmd.Stderr = os.Stderr
	out := must(cmd.StdoutPipe())
	must(cmd.StdinPipe())
	check(cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() })
	c := new(child)
	line := must(bufio.NewReader(out).ReadString('\n'))
	must(fmt.Sscan(line, &c.work, &c.control))
	return c
}

func (c *child) usage(path string) (u usage) {
	client := http.Client{Timeout: time.Minute}
	resp := must(client.Get("http://" + c.control + path))
	defer resp.Body.Close()
	check(json.NewDecoder(resp.Body).Decode(&u))
	return u
}
