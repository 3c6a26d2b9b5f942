package auth_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/auth"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// asServer makes the test binary be a server for those who have tokens of the issuer that it names.
const asServer = "AUTH_TEST_AS_SERVER"

func TestMain(m *testing.M) {
	if issuer := os.Getenv(asServer); issuer != "" {
		if err := serveLoad(issuer); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// order is a tool that asks, so that its first turn seals a token.
var order = saga.Flow[struct{}, string]{
	Info: saga.Info{Name: "order", Asks: []steps.Question{sure}},
	Run: func(r *saga.Run, _ struct{}) (string, error) {
		_, err := saga.Ask(r, sure)
		return "ordered", err
	},
}

var sure = &steps.Form[struct {
	Sure bool `json:"sure"`
}]{ID: "sure", Message: "Sure?"}

// protected is a server for those who have a token of an issuer, or for all if it is nil.
func protected(methods []auth.Method, log io.Writer, key func(*http.Request) string) (http.Handler, error) {
	keys, err := codec.NewKeyset()
	if err != nil {
		return nil, err
	}
	o := server.Options{Tools: []saga.Definition{order}, Keys: keys, AllowedHosts: []string{"tools.example.com"}, Logger: slog.New(slog.NewTextHandler(log, nil)), CallerKey: key}
	if methods != nil {
		g, err := auth.New(auth.Options{Resource: resource, Methods: methods})
		if err != nil {
			return nil, err
		}
		if err := g.Secure(&o); err != nil {
			return nil, err
		}
	}
	s, err := server.New(o)
	if err != nil {
		return nil, err
	}
	return s.Handler(), nil
}

func serveLoad(issuer string) error {
	key, err := server.ForwardedKey("127.0.0.1")
	if err != nil {
		return err
	}
	mapping, limits := auth.Mapping{Audiences: []string{resource}}, auth.Checking{CallerKey: key}
	tokens, err := auth.NewJWT(auth.JWT{Issuer: issuer, KeysURL: issuer, Mapping: mapping, Checking: limits})
	if err != nil {
		return err
	}
	opaque, err := auth.NewIntrospection(auth.Introspection{Issuer: issuer, URL: issuer + "/ask", Mapping: mapping, Checking: limits})
	if err != nil {
		return err
	}
	log, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	h, err := protected([]auth.Method{tokens, opaque}, log, key)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return http.Serve(l, h)
}

// turnRequest is a call of order, as it goes over a connection.
func turnRequest(token, from string) []byte {
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"order","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`
	return fmt.Appendf(nil, "POST /mcp HTTP/1.1\r\nHost: tools.example.com\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMcp-Protocol-Version: 2026-07-28\r\n"+
		"Mcp-Method: tools/call\r\nMcp-Name: order\r\nX-Forwarded-For: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", from, token, len(body), body)
}

// requester sends requests on a connection, one after the other, and returns their statuses.
func requester(b *testing.B, addr string) func([]byte) int {
	conn, err := net.Dial("tcp", addr)
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	in := bufio.NewReader(conn)
	return func(request []byte) int {
		if _, err := conn.Write(request); err != nil {
			return 0
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return 0
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
}

// What a flood of 10 000 bad tokens a second costs a server, and those who use it: run it with -benchtime 1x. "From" is one address
// or, with "many", ten thousand; cores is the processor time of the server's process by the time that has passed.
func BenchmarkFlood(b *testing.B) {
	i := newIssuer(b)
	var asked atomic.Int64
	keys := i.Config.Handler
	i.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Path == "/ask" {
			_ = json.NewEncoder(w).Encode(claims{"active": false})
			return
		}
		keys.ServeHTTP(w, r)
	})
	bad := badTokens(i.sign(b, i.claims(nil), ""))
	for _, kind := range []string{"none", "signature", "key", "no key", "text"} {
		for _, from := range []string{"one", "many"} {
			b.Run(kind+"/"+from, func(b *testing.B) {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), asServer+"="+i.URL)
				cmd.Stderr = os.Stderr
				out, err := cmd.StdoutPipe()
				require.NoError(b, err)
				require.NoError(b, cmd.Start())
				b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
				line, err := bufio.NewReader(out).ReadString('\n')
				require.NoError(b, err)
				addr := strings.TrimSpace(line)
				good := requester(b, addr)
				known := turnRequest(i.sign(b, i.claims(nil), ""), "203.0.113.1")
				require.Equal(b, 200, good(known))
				fresh := requester(b, addr)
				const seconds, perSecond, workers = 4, 10_000, 8
				for b.Loop() {
					before, cpu, began := asked.Load(), processorTime(b, cmd.Process.Pid), time.Now()
					var all sync.WaitGroup
					var sent, freshSent, freshTaken atomic.Int64
					running := func() bool { return time.Since(began) < seconds*time.Second }
					if kind != "none" {
						for w := range workers {
							request := requester(b, addr)
							all.Go(func() {
								for n := 0; running(); n++ {
									address := "198.51.100.1"
									if from == "many" {
										address = fmt.Sprintf("198.51.%d.%d", n>>8&0xff, n&0xff)
									}
									if status := request(turnRequest(bad[kind](), address)); status != 401 && status != 503 {
										b.Errorf("status %d", status)
										return
									}
									sent.Add(1)
									time.Sleep(time.Until(began.Add(time.Duration(n*workers+w) * time.Second / perSecond)))
								}
							})
						}
					}
					all.Go(func() { // whose tokens are not remembered
						for n := 0; running(); n++ {
							token := i.sign(b, i.claims(claims{"n": n}), "")
							freshSent.Add(1)
							if fresh(turnRequest(token, "203.0.113.2")) == 200 {
								freshTaken.Add(1)
							}
							time.Sleep(50 * time.Millisecond)
						}
					})
					var took []time.Duration
					for running() {
						start := time.Now()
						if good(known) != 200 {
							b.Error("who is known is refused")
							break
						}
						took = append(took, time.Since(start))
						time.Sleep(5 * time.Millisecond)
					}
					all.Wait()
					slices.Sort(took)
					b.ReportMetric((processorTime(b, cmd.Process.Pid)-cpu).Seconds()/time.Since(began).Seconds(), "cores")
					b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
					b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
					b.ReportMetric(float64(sent.Load())/seconds, "bad/s")
					b.ReportMetric(float64(asked.Load()-before), "asked")
					b.ReportMetric(100*float64(freshTaken.Load())/float64(freshSent.Load()), "%fresh")
				}
			})
		}
	}
}

// processorTime is what a process has used so far.
func processorTime(b *testing.B, pid int) time.Duration {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Skip("reads what processes use from /proc: needs Linux")
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	var ticks int
	for _, field := range fields[11:13] { // utime, stime
		n, err := strconv.Atoi(field)
		require.NoError(b, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// What a turn costs with authorization, by a token that is remembered, and without: called in this process, and over HTTP on
// this machine. The two take turns, so that what else the machine does hits both alike; %more is by how much the former takes
// longer.
func BenchmarkTurnOfAKnownCaller(b *testing.B) {
	i := newIssuer(b)
	with, err := protected([]auth.Method{i.method(b, nil)}, io.Discard, nil)
	require.NoError(b, err)
	without, err := protected(nil, io.Discard, nil)
	require.NoError(b, err)
	raw := turnRequest(i.sign(b, i.claims(nil), ""), "203.0.113.1")
	called := func(h http.Handler) func() time.Duration {
		return func() time.Duration {
			r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
			require.NoError(b, err)
			r.RemoteAddr = "203.0.113.1:1"
			w := httptest.NewRecorder()
			start := time.Now()
			h.ServeHTTP(w, r)
			took := time.Since(start)
			if w.Code != 200 || !strings.Contains(w.Body.String(), "requestState") {
				b.Fatal(w.Body)
			}
			return took
		}
	}
	overHTTP := func(h http.Handler) func() time.Duration {
		web := httptest.NewServer(h)
		b.Cleanup(web.Close)
		request := requester(b, web.Listener.Addr().String())
		return func() time.Duration {
			start := time.Now()
			if status := request(raw); status != 200 {
				b.Fatal(status)
			}
			return time.Since(start)
		}
	}
	for name, turn := range map[string]func(http.Handler) func() time.Duration{"called": called, "over HTTP": overHTTP} {
		b.Run(name, func(b *testing.B) {
			turns := []func() time.Duration{turn(without), turn(with)}
			var took [2][]time.Duration
			for n := 0; b.Loop(); n++ {
				for k := range turns {
					k ^= n & 1 // which is first
					took[k] = append(took[k], turns[k]())
				}
			}
			var median [2]float64
			for k := range took {
				slices.Sort(took[k])
				median[k] = float64(took[k][len(took[k])/2].Nanoseconds())
			}
			b.ReportMetric(median[0], "without-ns")
			b.ReportMetric(median[1], "with-ns")
			b.ReportMetric(100*(median[1]/median[0]-1), "%more")
			if name == "called" {
				b.ReportMetric(testing.AllocsPerRun(200, func() { turns[1]() })-testing.AllocsPerRun(200, func() { turns[0]() }), "allocs-more")
			}
		})
	}
}
