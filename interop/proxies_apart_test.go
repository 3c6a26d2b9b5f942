package interop

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/porttest"
)

// mirror is a replica that answers with what it was sent, and with who sent it.
type mirror struct {
	addr string
	*http.Server
}

// start has it listen. Its Close is how it dies: connections break, and others are refused.
func (m *mirror) start() error {
	l, err := net.Listen("tcp", m.addr)
	if err != nil {
		return err
	}
	m.Server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		said := fmt.Sprintf("%s says %s", r.Header.Get("Authorization"), body)
		w.Header().Set("Content-Length", strconv.Itoa(len(said))) // so that what death cuts off is no whole response
		_, _ = io.WriteString(w, said)
	})}
	go func(s *http.Server) { _ = s.Serve(l) }(m.Server)
	return nil
}

// Many clients send at once, each request with a body of its own, while replicas die and come back. A
// request may fail then. None reaches a replica with the body of another, and none gets the
// response to another: behind authentication that would be a call under another's name.
func TestProxiesKeepRequestsApart(t *testing.T) {
	t.Parallel()
	for name, p := range proxies {
		for _, file := range []string{p.file, balancers[name].file} {
			p.file = file
			t.Run(file, func(t *testing.T) { apart(t, p, needProgram(t, name), sooner.Replace) })
		}
	}
	// What the configurations advise for newer versions of Caddy than Debian's.
	program := needProgram(t, "caddy")
	version, err := exec.Command(program, "version").Output()
	require.NoError(t, err)
	if regexp.MustCompile(`^v?2\.([0-9]|10)\.`).Match(version) {
		return
	}
	for _, file := range []string{"Caddyfile", "Caddyfile-any"} {
		p := proxies["caddy"]
		p.file = file
		t.Run(file+" with request_buffers", func(t *testing.T) {
			apart(t, p, program, func(config string) string {
				require.Contains(t, config, "# request_buffers")
				return strings.Replace(sooner.Replace(config), "# request_buffers", "request_buffers", 1)
			})
		})
	}
}

// sooner has a proxy find replicas again as fast as they come back here.
var sooner = strings.NewReplacer("fail_duration 10s", "fail_duration 20ms", "health_interval 5s", "health_interval 100ms", "health_interval 1s", "health_interval 100ms")

func apart(t *testing.T, p proxy, program string, change func(string) string) {
	t.Helper()
	var replicas []*mirror
	var addresses []string
	for range 3 {
		m := &mirror{addr: porttest.Reserve(t)}
		require.NoError(t, m.start())
		t.Cleanup(func() { _ = m.Close() })
		replicas, addresses = append(replicas, m), append(addresses, m.addr)
	}
	at := p.startBefore(t, program, addresses, change)

	var sent, passed, failed, mixed atomic.Int32
	var done atomic.Bool
	var senders sync.WaitGroup
	for i := range 64 {
		way := from(t, fmt.Sprintf("127.0.%d.1", i), at)
		senders.Go(func() {
			for n := 0; !done.Load(); n++ {
				who := fmt.Sprintf("Bearer %d", i)
				what := fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d of %d","method":"ping"}`, n, i) + strings.Repeat(" ", n%4*5000)
				var body io.Reader = strings.NewReader(what)
				if n%3 == 0 {
					body = io.MultiReader(body) // of a length that is not known before
				}
				req, err := http.NewRequest(http.MethodPost, publicURL, body)
				if !assert.NoError(t, err) {
					return
				}
				req.Header.Set("Authorization", who)
				if i%2 == 0 {
					req.Header.Set("MCP-Protocol-Version", "2026-07-28")
				}
				sent.Add(1)
				resp, err := way.RoundTrip(req)
				if err != nil {
					failed.Add(1)
					continue
				}
				got, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				switch {
				case err != nil || resp.StatusCode != http.StatusOK:
					failed.Add(1)
				case string(got) != who+" says "+what:
					if mixed.Add(1) <= 3 {
						t.Logf("%s sent %.60q and got %.60q", who, what, got)
					}
				default:
					passed.Add(1)
				}
			}
		})
	}
	deaths := 0
	for began := time.Now(); deaths < 12 || passed.Load() < 1000 && time.Since(began) < time.Minute; deaths++ {
		m := replicas[deaths%len(replicas)]
		time.Sleep(50 * time.Millisecond)
		_ = m.Close()
		time.Sleep(50 * time.Millisecond)
		require.Eventually(t, func() bool { return m.start() == nil }, 10*time.Second, 10*time.Millisecond,
			"a process that another test starts keeps its listener for a moment")
	}
	done.Store(true)
	senders.Wait()
	t.Logf("of %d requests %d passed and %d failed, while replicas died %d times", sent.Load(), passed.Load(), failed.Load(), deaths)
	assert.Zero(t, mixed.Load(), "responses to other requests, of %d", sent.Load())
	assert.GreaterOrEqual(t, passed.Load(), int32(1000))
}
