package interop

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/porttest"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// stayChild is the argument with which the test's binary is a server of the tool stay.
const stayChild = "serve-stay"

// serveStay serves it, with pages and forms. What it books is a file in a directory, by the key.
func serveStay(args []string) error {
	flags := flag.NewFlagSet("stay", flag.ContinueOnError)
	addr, keyFile, file := flags.String("addr", "", ""), flags.String("keys", "", ""), flags.String("ledger", "", "")
	dir, pages, known := flags.String("dir", "", ""), flags.String("pages", "", ""), flags.Bool("known", false, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	keys, err := keyset(*keyFile)
	if err != nil {
		return err
	}
	store, err := openLedger(*file)
	if err != nil {
		return err
	}
	o := server.Options{
		Tools: []saga.Definition{stay(func(key saga.Key, what string) error {
			return os.WriteFile(filepath.Join(*dir, "booked-"+string(key)), []byte(what), 0o600)
		})},
		Keys: keys, Ledger: store, Lease: 2 * time.Second, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Questions: server.Questions{PageURL: *pages, TrustedApps: []string{"host"}},
	}
	if *known {
		o.Authenticate = func(*http.Request) (saga.Caller, error) {
			return saga.Caller{Issuer: "i", Subject: "s"}, nil
		}
	}
	s, err := server.New(o)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s%s\n", l.Addr(), server.Endpoint)
	return s.Serve(context.Background(), l)
}

// inn is one or more servers of the tool stay, behind something that has the next one take each request.
type inn struct {
	*testing.T
	dir, url string
	all      []*process
	turn     atomic.Uint32
	// dies says at which steps all of them are killed.
	dies func(step string) bool
}

func newInn(t *testing.T, servers int, known bool, dies func(step string) bool) *inn {
	t.Helper()
	s := &inn{T: t, dir: t.TempDir(), dies: dies}
	front := httptest.NewServer(&httputil.ReverseProxy{
		FlushInterval: -1, Transport: s, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(p *httputil.ProxyRequest) { p.Out.URL.Scheme, p.Out.Host = "http", p.In.Host },
	})
	first := newProcess(t)
	for range servers {
		p := &process{t: t, addr: porttest.Reserve(t), root: first.root, keys: first.keys, args: []string{
			first.args[0], stayChild, "--keys", first.keys, "--ledger", filepath.Join(s.dir, "ledger.db"), "--dir", s.dir,
			"--pages", front.URL + "/ask", fmt.Sprintf("--known=%v", known),
		}}
		require.NoError(t, p.start())
		t.Cleanup(p.kill)
		s.all = append(s.all, p)
	}
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
	})
	s.url = front.URL + server.Endpoint
	return s
}

// fresh is a connection for each request: none is to a server that has died since.
var fresh = &http.Transport{DisableKeepAlives: true}

// RoundTrip has the next server take a request. If that refuses the connection, or dies before it answers what only reads,
// the next one takes it, as load balancers do.
func (s *inn) RoundTrip(r *http.Request) (*http.Response, error) {
	body := []byte{}
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		to := r.Clone(r.Context())
		to.Body, to.URL.Host = io.NopCloser(bytes.NewReader(body)), s.all[int(s.turn.Add(1))%len(s.all)].addr
		resp, err := fresh.RoundTrip(to)
		var refused *net.OpError
		again := err != nil && r.Method == http.MethodGet || errors.As(err, &refused) && refused.Op == "dial"
		if !again || r.Context().Err() != nil || time.Since(began) > 10*time.Second {
			return resp, err
		}
	}
}

// step is called between what a client and its user do. Every server may be killed then, and another one started.
func (s *inn) step(name string) {
	if !s.dies(name) {
		return
	}
	for _, p := range s.all {
		if err := p.restart(); err != nil {
			s.Error(err)
		}
	}
}

// booked checks that it was, once.
func (s *inn) booked() {
	s.Helper()
	list, err := filepath.Glob(filepath.Join(s.dir, "booked-*"))
	require.NoError(s, err)
	require.Len(s, list, 1)
	what, err := os.ReadFile(list[0])
	require.NoError(s, err)
	assert.Equal(s, strings.TrimPrefix(stayBooked, "booked "), string(what))
}
