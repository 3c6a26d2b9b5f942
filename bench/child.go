package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
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
// the proxy the servers behind it.
func serveChild(args []string) error {
	if len(args) == 0 {
		return errors.New("the server's name is missing")
	}
	build := servers[args[0]]
	if build == nil {
		return fmt.Errorf("there is no server %q", args[0])
	}
	h, err := build(args[1:])
	if err != nil {
		return err
	}
	work, err := net.Listen("tcp", loopback)
	if err != nil {
		return err
	}
	control, err := net.Listen("tcp", loopback)
	if err != nil {
		return err
	}
	fmt.Println(work.Addr(), control.Addr())
	go http.Serve(control, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(measure(r.URL.Path == "/heap"))
	}))
	go http.Serve(work, h)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// loopback is the only place where anything listens here.
const loopback = "127.0.0.1:0"

func measure(collect bool) usage {
	var u usage
	var m runtime.MemStats
	if collect {
		runtime.GC()
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	u.Mallocs, u.Bytes, u.Heap = m.Mallocs, m.TotalAlloc, m.HeapAlloc
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) == nil {
		u.CPU = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	u.MaxRSS = peakMemory()
	return u
}

// peakMemory is the most memory that this process has held so far. (Getrusage
// counts what its parent held when it started it.)
func peakMemory() uint64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0 // not on Linux
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	line, _, _ := strings.Cut(rest, "\n")
	kib, _ := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(line, "kB")), 10, 64)
	return kib << 10
}

// ask puts one request to a handler without a network.
func ask(h http.Handler, w *work, turn int, token []byte) ([]byte, error) {
	r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", bytes.NewReader(w.request(turn, 1, token)))
	r.Header.Set("Content-Type", "application/json")
	for k, v := range w.headers {
		r.Header.Set(k, v)
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	if rec.Code != http.StatusOK {
		return nil, errors.New(strings.TrimSpace(rec.Body.String()))
	}
	return rec.Body.Bytes(), nil
}
