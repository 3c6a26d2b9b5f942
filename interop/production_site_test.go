package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/buildtest"
	"github.com/mcpsaga/mcpsaga/internal/porttest"
)

// part is a process of a site. Its log is a file.
type part struct {
	name, log string
	cmd       *exec.Cmd
}

// site is three replicas of examples/trip/production with all that they have in production: the services of the trip,
// an authorization server, nginx and oauth2-proxy before them, PostgreSQL behind them, an OpenTelemetry Collector and Prometheus.
type site struct {
	*world
	t           *testing.T
	dir         string
	url, issuer string
	ledger      string
	replicas    []*part // all that there were
	addresses   []string
	metrics     []string // where Prometheus finds those of the replicas, and of one that is to come
	collector   string
	prometheus  string
}

// approver is who approves expensive trips.
const approver = "bo"

// buildProduction builds the programs of a site that are none of Debian's or npm's.
var buildProduction = sync.OnceValue(func() error {
	var flags []string
	if raceEnabled {
		flags = append(flags, "-race")
	}
	if err := buildtest.Program(filepath.Join(work, "production"), "../examples/trip/production", flags...); err != nil {
		return err
	}
	if err := buildtest.Program(filepath.Join(work, "oauth2-proxy"), "github.com/oauth2-proxy/oauth2-proxy/v7@v7.15.6"); err != nil {
		return err
	}
	build := exec.Command("go", "build", "-o", filepath.Join(work, "collector"), ".")
	build.Dir, build.Env = "testdata/collector", append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("the collector: %w: %s", err, out)
	}
	return nil
})

func newSite(t *testing.T) *site {
	require.NoError(t, buildProduction())
	s := &site{world: newWorld(t), t: t, dir: t.TempDir(), issuer: startAuthServer(t), ledger: ledgers["PostgreSQL"](t)}
	require.NoError(t, os.WriteFile(s.file("audit.key"), bytes.Repeat([]byte("k"), 32), 0o600))
	pages := porttest.Reserve(t)
	for range 3 {
		s.addresses, s.metrics = append(s.addresses, porttest.Reserve(t)), append(s.metrics, porttest.Reserve(t))
	}
	s.metrics = append(s.metrics, porttest.Reserve(t))
	s.startPrometheus() // it takes a while to begin
	nginx := proxies["nginx"]
	nginx.file = "nginx-sign-in.conf"
	s.url = "http://" + nginx.startBefore(t, needProgram(t, "nginx"), s.addresses, func(config string) string {
		require.Contains(t, config, "127.0.0.1:4180")
		return strings.ReplaceAll(config, "127.0.0.1:4180", pages)
	})
	s.startSignIn(pages)
	s.startCollector()
	for i := range s.addresses {
		s.startReplica(i)
	}
	require.Eventually(t, func() bool { return s.query("sum(up)")[""] == len(s.addresses) }, time.Minute, 50*time.Millisecond, "Prometheus does not look")
	return s
}

func (s *site) file(name string) string { return filepath.Join(s.dir, name) }

// start starts a process, which ends with the test.
func (s *site) start(name string, environment []string, program string, args ...string) *part {
	s.t.Helper()
	p := &part{name: name, log: s.file(name + ".log"), cmd: exec.Command(program, args...)}
	log, err := os.Create(p.log)
	require.NoError(s.t, err)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = log, log, append(os.Environ(), environment...)
	require.NoError(s.t, p.cmd.Start())
	require.NoError(s.t, log.Close())
	s.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		if said, _ := os.ReadFile(p.log); s.t.Failed() {
			s.t.Logf("%s: %s", name, said[max(0, len(said)-4000):])
		}
	})
	return p
}

// answers waits until something answers at a URL.
func (s *site) answers(url string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		response, err := http.Get(url)
		return err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusOK
	}, time.Minute, 20*time.Millisecond, url)
}

// startReplica starts the i-th replica, or another in its place.
func (s *site) startReplica(i int) {
	s.t.Helper()
	name := fmt.Sprintf("replica-%d", len(s.replicas)+1)
	s.replicas = append(s.replicas, s.start(name, []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + s.collector, "OTEL_METRICS_EXPORTER=none", "OTEL_BSP_SCHEDULE_DELAY=100",
		"OTEL_RESOURCE_ATTRIBUTES=service.instance.id=" + name,
	}, filepath.Join(work, "production"), "serve", "--addr", s.addresses[i], "--audience", "production", "--keyset", s.keys, "--ledger", s.ledger,
		"--metrics", s.metrics[len(s.replicas)], "--audit", s.file(name+".audit"), "--audit-key", s.file("audit.key"),
		"--site", s.url, "--issuer", s.issuer, "--sign-in", "127.0.0.1", "--approver", approver,
		"--hotel", s.urls.Hotel, "--flight", s.urls.Flight, "--payment", s.urls.Payment))
	s.answers("http://" + s.addresses[i] + "/readyz")
}

// startSignIn starts oauth2-proxy, which is a client of the authorization server.
func (s *site) startSignIn(address string) {
	back := s.url + "/oauth2/callback"
	body, err := json.Marshal(map[string]any{"client_name": "pages", "redirect_uris": []string{back}, "grant_types": []string{"authorization_code"}, "response_types": []string{"code"}})
	require.NoError(s.t, err)
	response, err := http.Post(s.issuer+"/reg", "application/json", bytes.NewReader(body))
	require.NoError(s.t, err)
	defer response.Body.Close()
	var client struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	require.NoError(s.t, json.NewDecoder(response.Body).Decode(&client))
	s.start("oauth2-proxy", []string{"OAUTH2_PROXY_CLIENT_SECRET=" + client.Secret, "OAUTH2_PROXY_COOKIE_SECRET=" + strings.Repeat("c", 32)},
		filepath.Join(work, "oauth2-proxy"), "--http-address="+address, "--reverse-proxy", "--upstream=static://202", "--provider=oidc",
		"--oidc-issuer-url="+s.issuer, "--client-id="+client.ID, "--redirect-url="+back, "--scope=openid", "--code-challenge-method=S256",
		"--oidc-email-claim=sub", "--email-domain=*", "--set-xauthrequest", "--skip-provider-button", "--cookie-secure=false", "--trusted-proxy-ip=127.0.0.1")
	s.answers("http://" + address + "/ping")
}

func (s *site) startCollector() {
	s.collector = porttest.Reserve(s.t)
	config := fmt.Sprintf(`yaml:{receivers: {otlp: {protocols: {http: {endpoint: %q}}}}, exporters: {file: {path: %q, flush_interval: 100ms}},
		service: {pipelines: {traces: {receivers: [otlp], exporters: [file]}}, telemetry: {metrics: {level: none}}}}`, s.collector, s.file("spans.json"))
	s.start("collector", nil, filepath.Join(work, "collector"), "--config", config)
	require.Eventually(s.t, func() bool {
		response, err := http.Post("http://"+s.collector+"/v1/traces", "application/json", strings.NewReader("{}"))
		return err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusOK
	}, time.Minute, 20*time.Millisecond, "the collector takes nothing")
}

// scraped is how often Prometheus looks.
const scraped = 250 * time.Millisecond

func (s *site) startPrometheus() {
	s.prometheus = porttest.Reserve(s.t)
	targets, err := json.Marshal(s.metrics)
	require.NoError(s.t, err)
	config := fmt.Sprintf(`{global: {scrape_interval: %v}, scrape_configs: [{job_name: mcpsaga, static_configs: [{targets: %s}]}]}`, scraped, targets)
	require.NoError(s.t, os.WriteFile(s.file("prometheus.yml"), []byte(config), 0o600))
	s.start("prometheus", nil, needProgram(s.t, "prometheus"), "--config.file="+s.file("prometheus.yml"), "--storage.tsdb.path="+s.file("prometheus"), "--web.listen-address="+s.prometheus)
	s.answers("http://" + s.prometheus + "/-/ready")
}
