package interop

//lint:file-ignore SA1019 Sampling is deprecated since 2026-07-28, and in use.

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/longtests"
	"github.com/mcpsaga/mcpsaga/internal/porttest"
	"github.com/mcpsaga/mcpsaga/steps"
)

// needProgram finds a program that Debian packages, or skips the test.
func needProgram(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if sbin := "/usr/sbin/" + name; err != nil { // is not in everybody's PATH
		if _, e := os.Stat(sbin); e == nil {
			path, err = sbin, nil
		}
	}
	needs(t, longtests.Debian, ".ci/debian", err)
	return path
}

// publicHost is the name that clients use in docs/proxies.
const publicHost = "tools.example.com"

// replica is a `saga serve`, behind a hop that counts what the proxy sends there.
type replica struct {
	cmd *exec.Cmd
	hop *httptest.Server

	mu    sync.Mutex
	hosts map[string]int // requests for MCP, by Host
}

// startReplica starts the command as the guide says.
func startReplica(t *testing.T, keyset string) *replica {
	t.Helper()
	cmd := exec.Command(filepath.Join(work, "saga"), "serve", "--addr", "127.0.0.1:0", "--allow-host", publicHost, "--keyset", keyset)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	said := bufio.NewReader(stderr)
	var address []string
	for address == nil { // it says more than that
		line, err := said.ReadString('\n')
		require.NoError(t, err)
		address = regexp.MustCompile(`url=(http://\S+)/mcp`).FindStringSubmatch(line)
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	r := behind(t, address[1])
	r.cmd = cmd
	return r
}

// behind puts a hop before a server that is running.
func behind(t *testing.T, address string) *replica {
	t.Helper()
	target, err := url.Parse(address)
	require.NoError(t, err)
	r := &replica{hosts: map[string]int{}}
	forward := &httputil.ReverseProxy{
		FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite:      func(p *httputil.ProxyRequest) { p.SetURL(target); p.Out.Host = p.In.Host },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	r.hop = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/mcp" {
			r.mu.Lock()
			r.hosts[q.Host]++
			r.mu.Unlock()
		}
		// Read first: while Go's proxy sends a body, the server's answer closes it.
		body, err := io.ReadAll(q.Body)
		if err != nil {
			return
		}
		q.Body = io.NopCloser(bytes.NewReader(body))
		forward.ServeHTTP(w, q)
	}))
	t.Cleanup(r.stop)
	return r
}

// take returns the requests since the last call, by Host.
func (r *replica) take() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.hosts = map[string]int{} }()
	return r.hosts
}

func (r *replica) stop() {
	r.hop.CloseClientConnections()
	r.hop.Close()
}

// proxy is a program with one of the configurations in docs/proxies.
type proxy struct {
	file string
	// prepare puts the listener's address into the configuration, and what the
	// machine's own main configuration would have.
	prepare func(config, addr, dir string) string
	// command runs the program in the foreground.
	command func(config, dir string) []string
}

var proxies = map[string]proxy{
	"nginx": {"nginx.conf", func(config, addr, dir string) string {
		return "worker_processes 2; daemon off; pid " + dir + "/pid; error_log stderr;\nevents { worker_connections 4096; }\nhttp {\naccess_log off;\n" +
			"client_body_temp_path " + dir + "/a; proxy_temp_path " + dir + "/b; fastcgi_temp_path " + dir + "/c; uwsgi_temp_path " + dir + "/d; scgi_temp_path " + dir + "/e;\n" +
			strings.Replace(config, "listen 80;", "listen "+addr+";", 1) + "}\n"
	}, func(config, dir string) []string { return []string{"-p", dir, "-c", config} }},
	"haproxy": {"haproxy.cfg", func(config, addr, _ string) string {
		return strings.Replace(config, "bind :80", "bind "+addr, 1)
	}, func(config, _ string) []string { return []string{"-db", "-f", config} }},
	"caddy": {"Caddyfile", func(config, addr, _ string) string {
		_, port, _ := net.SplitHostPort(addr)
		return "{\n\tadmin off\n\tauto_https off\n}\n" + strings.Replace(config, publicHost+" {", "http://"+publicHost+":"+port+" {\n\tbind 127.0.0.1", 1)
	}, func(config, _ string) []string { return []string{"run", "--adapter", "caddyfile", "--config", config} }},
}

// start runs a proxy before replicas and returns its address. change may alter the
// configuration that is shown.
func (p proxy) start(t *testing.T, program string, replicas []*replica, change func(string) string) (addr string) {
	t.Helper()
	var hops []string
	for _, r := range replicas {
		hops = append(hops, r.hop.Listener.Addr().String())
	}
	return p.startBefore(t, program, hops, change)
}

// startBefore is start for replicas at these addresses.
func (p proxy) startBefore(t *testing.T, program string, replicas []string, change func(string) string) (addr string) {
	t.Helper()
	addr = porttest.Reserve(t)
	shown, err := os.ReadFile(filepath.Join("../docs/proxies", p.file))
	require.NoError(t, err)
	config := string(shown)
	if change != nil {
		config = change(config)
	}
	for i, r := range replicas {
		at := fmt.Sprintf("127.0.0.1:808%d", i+1)
		require.Contains(t, config, at)
		config = strings.ReplaceAll(config, at, r)
	}
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} { // workers of nginx are another user
		require.NoError(t, os.Chmod(d, 0o755))
	}
	file := filepath.Join(dir, p.file)
	prepared := p.prepare(config, addr, dir)
	require.Contains(t, prepared, strings.Split(addr, ":")[1])
	require.NoError(t, os.WriteFile(file, []byte(prepared), 0o644))
	cmd := exec.Command(program, p.command(file, dir)...)
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		end := syscall.SIGTERM
		if strings.Contains(program, "caddy") { // it waits for connections, and has no children
			end = syscall.SIGKILL
		}
		_ = cmd.Process.Signal(end)
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		return c.Close() == nil
	}, time.Minute, 20*time.Millisecond, "the proxy does not listen")
	return addr
}

// from is how a client with an address of its own reaches the proxy.
func from(t *testing.T, address, proxy string) *http.Transport {
	d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", proxy)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

const (
	publicURL = "http://" + publicHost + "/mcp"
	deployed  = "Deployment to production initiated successfully based on confirmation."
)

// callBySDK calls complex_tool several times in one connection of the Go SDK.
func callBySDK(t *testing.T, way http.RoundTripper, protocol string, calls int) (done int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"target": "production"}}, nil
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: "assistant", Model: model, Content: &mcp.TextContent{Text: "Yes."}}, nil
		},
	})
	session, err := c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: publicURL, HTTPClient: &http.Client{Transport: way}},
		&mcp.ClientSessionOptions{ProtocolVersion: protocol})
	if !assert.NoError(t, err) {
		return 0
	}
	defer func() { assert.NoError(t, session.Close()) }()
	assert.Equal(t, protocol, session.InitializeResult().ProtocolVersion)
	for range calls {
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "complex_tool", Arguments: map[string]any{"initial_arg": "value"}})
		if assert.NoError(t, err) && assert.Equal(t, deployed, result.Content[0].(*mcp.TextContent).Text) {
			done++
		}
	}
	return done
}

// callBySaga calls complex_tool by the saga proposal.
func callBySaga(t *testing.T, way http.RoundTripper) error {
	t.Helper()
	c := client.New(&client.HTTP{URL: publicURL, RoundTripper: way}, client.Options{})
	defer func() { assert.NoError(t, c.Close()) }()
	result, err := c.Call(t.Context(), "complex_tool", map[string]any{"initial_arg": "value"}, client.Handlers{
		Elicit: func(context.Context, *client.Request) (*client.ElicitResult, error) {
			return client.Accept(map[string]any{"target": "production"}), nil
		},
		Sample: func(context.Context, *client.Request) (*steps.SampleResult, error) {
			return client.Reply(model, "Yes."), nil
		},
	})
	if err == nil {
		assert.Equal(t, content.Text{Text: deployed}, result.Content[0])
	}
	return err
}

// The configurations that the guide shows do what it says: requests that stand by
// themselves go to any replica, sessions to their own, events are not held back, and
// the server reads the name that the client used.
func TestProxies(t *testing.T) {
	onlyIfWanted(t, "starts proxies")
	t.Parallel()
	require.NoError(t, buildSaga())
	keyset := filepath.Join(t.TempDir(), "keyset.json")
	_, err := codec.CreateKeysetFile(keyset)
	require.NoError(t, err)
	for name, p := range proxies {
		t.Run(name, func(t *testing.T) {
			program := needProgram(t, name)
			replicas := []*replica{startReplica(t, keyset), startReplica(t, keyset), startReplica(t, keyset)}
			addr := p.start(t, program, replicas, nil)
			// used checks under which name the requests came, and returns how many
			// replicas had some.
			used := func(t *testing.T) (n int) {
				t.Helper()
				for _, r := range replicas {
					hosts := r.take()
					if len(hosts) > 0 {
						n++
						assert.Equal(t, map[string]int{publicHost: hosts[publicHost]}, hosts)
					}
				}
				return n
			}
			t.Run("MCP 2026-07-28", func(t *testing.T) {
				assert.Equal(t, 12, callBySDK(t, from(t, "127.0.0.1", addr), "2026-07-28", 12))
				assert.Equal(t, 3, used(t), "any replica takes the next turn")
			})
			t.Run("a session", func(t *testing.T) {
				// Its questions come while the call waits: no event was held back.
				assert.Equal(t, 12, callBySDK(t, from(t, "127.0.0.1", addr), "2025-11-25", 12))
			})
			used(t)
			t.Run("sessions of many clients", func(t *testing.T) {
				var all sync.WaitGroup
				for i := range 24 {
					all.Go(func() {
						assert.Equal(t, 2, callBySDK(t, from(t, fmt.Sprintf("127.0.%d.1", i), addr), "2025-11-25", 2))
					})
				}
				all.Wait()
				assert.Equal(t, 3, used(t), "they are spread over the replicas")
			})
			t.Run("only MCP", func(t *testing.T) {
				resp, err := (&http.Client{Transport: from(t, "127.0.0.1", addr)}).Get("http://" + publicHost + "/readyz")
				require.NoError(t, err)
				assert.NoError(t, resp.Body.Close())
				assert.Equal(t, 404, resp.StatusCode)
			})
			t.Run("the saga proposal, and a replica that dies", func(t *testing.T) {
				require.NoError(t, callBySaga(t, from(t, "127.0.0.1", addr)))
				for _, r := range replicas {
					if len(r.take()) > 0 {
						r.stop()
						break
					}
				}
				// A proxy that was about to use a connection to the dead one answers with a 502;
				// whoever calls again gets through.
				var err error
				for range 3 {
					if err = callBySaga(t, from(t, "127.0.0.1", addr)); err == nil {
						break
					}
				}
				assert.NoError(t, err)
			})
		})
	}
	t.Run("nginx that sends the name of its upstream", func(t *testing.T) {
		program := needProgram(t, "nginx")
		r := startReplica(t, keyset)
		const line = "\t\tproxy_set_header Host $host;"
		addr := proxies["nginx"].start(t, program, []*replica{r, r, r}, func(config string) string {
			require.Contains(t, config, line)
			return strings.Replace(config, line, "", 1)
		})
		resp, err := (&http.Client{Transport: from(t, "127.0.0.1", addr)}).Post(publicURL, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.NoError(t, resp.Body.Close())
		assert.Equal(t, 403, resp.StatusCode)
		assert.Contains(t, string(body), `host not allowed: \"one_replica\" is no name of this server`)
	})
}

// A replica whose ledger does not answer says only after two seconds that it is ready. It goes on
// being used, or none would be: all of them have the same ledger.
func TestHAProxyWaitsUntilReplicasSayHowTheyAre(t *testing.T) {
	t.Parallel()
	program := needProgram(t, "haproxy")
	for _, file := range []string{"haproxy.cfg", "haproxy-any.cfg"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			said := make(chan struct{}, 100)
			var replicas []string
			for range 3 {
				s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					if r.URL.Path != "/readyz" {
						return
					}
					select {
					case <-r.Context().Done():
					case <-time.After(2 * time.Second):
						said <- struct{}{}
					}
				}))
				t.Cleanup(s.Close)
				replicas = append(replicas, s.Listener.Addr().String())
			}
			p := proxies["haproxy"]
			p.file = file
			at := p.startBefore(t, program, replicas, nil)
			for range 3 { // each has been asked, and let say so
				select {
				case <-said:
				case <-time.After(30 * time.Second):
					require.Fail(t, "the proxy does not wait for the answer")
				}
			}
			resp, err := http.Get("http://" + at + "/mcp")
			require.NoError(t, err)
			assert.NoError(t, resp.Body.Close())
			assert.Equal(t, http.StatusOK, resp.StatusCode)
		})
	}
}
