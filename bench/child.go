package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
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
// its usage.
func serveChild(name string) error {
	make := servers[name]
	if make == nil {
		return fmt.Errorf("there is no server %q", name)
	}
	h, err := make()
	if err != nil {
		return err
	}
	work, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	control, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(work.Addr(), control.Addr())
	go http.Serve(control, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(measure(r.URL.Path == "/heap"))
	}))
	go http.Serve(work, h)
	_, err = new(bytes.Buffer).ReadFrom(os.Stdin)
	return err
}

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
		u.MaxRSS = uint64(r.Maxrss) << 10
	}
	return u
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
