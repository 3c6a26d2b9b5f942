package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/mcpsaga/mcpsaga/internal/longtests"
	"github.com/mcpsaga/mcpsaga/internal/porttest"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/server"
)

const documents = "../docs/telemetry/"

// rules are the alerts, as far as they are checked here.
type rules struct {
	Groups []struct {
		Rules []struct {
			Alert, Expr string
			Annotations map[string]string
		}
	}
}

func readRules(t *testing.T) (r rules) {
	raw, err := os.ReadFile(documents + "alerts.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(raw, &r))
	return r
}

// expressions are those of the dashboard and the alerts.
func expressions(t *testing.T) (list []string) {
	raw, err := os.ReadFile(documents + "dashboard.json")
	require.NoError(t, err)
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	require.NoError(t, json.Unmarshal(raw, &board))
	for _, p := range board.Panels {
		require.NotEmpty(t, p.Targets)
		for _, target := range p.Targets {
			list = append(list, strings.NewReplacer("$__rate_interval", "1m", "$job", ".*").Replace(target.Expr))
		}
	}
	for _, rule := range readRules(t).Groups[0].Rules {
		list = append(list, rule.Expr)
	}
	return list
}

// used is a server on which all has happened that is exported of.
func used(t *testing.T) *replica {
	store := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	r := newReplica(t, "r", server.Options{Keys: newKeys(t), Ledger: store})
	r.answer(r.call(nil), "yes", nil)
	r.answer(r.call(nil), "fail", nil)
	r.answer("no token", "yes", nil)
	return r
}

// The dashboard and the alerts are of metrics and labels that there are, and each alert says what to do, and where to read on.
func TestDashboardAndAlerts(t *testing.T) {
	m := used(t).scrape()
	labels := regexp.MustCompile(`\b(mcpsaga_(?:name|kind|reason|outcome|action|status|mode|undo|effect_name|ledger_operation)|mcp_method_name|error_type)\b`)
	names := regexp.MustCompile(`\b(mcpsaga|mcp_server|process|go)_[a-z_]+\b`)
	for _, expr := range expressions(t) {
		for _, name := range names.FindAllString(labels.ReplaceAllString(expr, ""), -1) {
			assert.Regexp(t, `(?m)^`+name+`[ {]`, m, expr)
		}
		for _, label := range labels.FindAllString(expr, -1) {
			assert.Contains(t, m, label+`="`, expr)
		}
	}
	const runbook = "https://github.com/mcpsaga/mcpsaga/blob/main/docs/operate.md#"
	page, err := os.ReadFile("../docs/operate.md")
	require.NoError(t, err)
	for _, rule := range readRules(t).Groups[0].Rules {
		entry, ok := strings.CutPrefix(rule.Annotations["runbook_url"], runbook)
		assert.True(t, ok && entry != "", rule.Alert)
		assert.Regexp(t, "(?im)^##+ "+strings.ReplaceAll(entry, "-", " ")+"$", string(page), rule.Alert)
		assert.NotEmpty(t, rule.Annotations["summary"], rule.Alert)
		assert.Greater(t, len(rule.Annotations["action"]), 50, rule.Alert)
	}
}

func needPrometheus(t *testing.T, program string) string {
	path, err := exec.LookPath(program)
	if err != nil {
		longtests.Missing(t, longtests.Debian, fmt.Sprintf("%v; .ci/debian installs it", err))
	}
	return path
}

// Prometheus' own tool finds nothing to complain of in the alerts and the metrics.
func TestPromtool(t *testing.T) {
	promtool := needPrometheus(t, "promtool")
	for _, args := range [][]string{{"check", "rules", documents + "alerts.yaml"}, {"test", "rules", "testdata/alerts_test.yaml"}, {"check", "metrics"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		if args[1] == "metrics" {
			cmd.Stdin = strings.NewReader(used(t).scrape())
		}
		out, err := cmd.CombinedOutput()
		assert.NoError(t, err, "%v: %s", args, out)
	}
}

// Prometheus reads the metrics, and answers what the dashboard and the alerts ask.
func TestPrometheusReads(t *testing.T) {
	program := needPrometheus(t, "prometheus")
	r := used(t)
	front := httptest.NewServer(r.exported.Handler())
	defer front.Close()
	dir, address := t.TempDir(), porttest.Reserve(t)
	rulesFile, err := filepath.Abs(documents + "alerts.yaml")
	require.NoError(t, err)
	config := fmt.Sprintf(`{global: {scrape_interval: 200ms, evaluation_interval: 200ms}, rule_files: [%q], scrape_configs: [{job_name: mcpsaga, metrics_path: /, static_configs: [{targets: [%q]}]}]}`,
		rulesFile, strings.TrimPrefix(front.URL, "http://"))
	require.NoError(t, os.WriteFile(dir+"/prometheus.yml", []byte(config), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	var log bytes.Buffer
	cmd := exec.CommandContext(ctx, program, "--config.file="+dir+"/prometheus.yml", "--storage.tsdb.path="+dir+"/data", "--web.listen-address="+address)
	cmd.Stderr = &log
	require.NoError(t, cmd.Start())
	defer func() { cancel(); _ = cmd.Wait() }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	query := func(expr string) jsontest.Value {
		response, err := client.PostForm("http://"+address+"/api/v1/query", url.Values{"query": {expr}})
		if err != nil {
			return jsontest.Parse("{}")
		}
		defer response.Body.Close()
		raw, _ := io.ReadAll(response.Body)
		return jsontest.Parse(raw)
	}
	require.Eventually(t, func() bool {
		return query(`sum(mcpsaga_turns_total{job="mcpsaga",mcpsaga_outcome="done"})`).Get("data.result.0.value.1").String() == "1"
	}, 30*time.Second, 100*time.Millisecond, "it has not come")
	assert.Equal(t, "1", query(`mcpsaga_turns_total{mcpsaga_outcome="refused"}`).Get("data.result.0.value.1").String())
	for _, expr := range expressions(t) {
		assert.Equal(t, "success", query(expr).Get("status").String(), expr)
	}
}
