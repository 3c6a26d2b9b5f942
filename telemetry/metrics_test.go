package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/mcpsaga/mcpsaga/internal/store/intercept"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/telemetry"
)

// What operators ask for is there to be scraped.
func TestMetrics(t *testing.T) {
	store := ledger.NewMemory(ledger.MemoryOptions{})
	defer store.Close()
	var later atomic.Int64
	r := newReplica(t, "r", server.Options{Keys: newKeys(t), Ledger: store, Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }})
	token := r.call(nil)
	later.Store(int64(2 * time.Minute))
	r.answer(token, "yes", nil)
	r.answer(r.call(nil), "fail", nil)
	r.answer(token+"x", "yes", nil)
	m := r.scrape()
	for _, want := range []struct {
		name   string
		labels []string
		value  string
	}{
		{"mcpsaga_turns_total", []string{`mcpsaga_name="order"`, `mcpsaga_kind="tool"`, `mcpsaga_action="call"`, `mcpsaga_outcome="suspended"`}, "2"},
		{"mcpsaga_turns_total", []string{`mcpsaga_outcome="done"`}, "1"},
		{"mcpsaga_turns_total", []string{`mcpsaga_outcome="failed"`}, "1"},
		{"mcpsaga_turns_total", []string{`mcpsaga_outcome="refused"`, `mcpsaga_reason="authentication"`}, "1"},
		{"mcpsaga_questions_total", []string{`mcpsaga_name="order"`}, "2"},
		{"mcpsaga_question_age_seconds_count", []string{`mcpsaga_name="order"`}, "2"},
		{"mcpsaga_question_age_seconds_bucket", []string{`le="60"`}, "1"},
		{"mcpsaga_question_age_seconds_bucket", []string{`le="300"`}, "2"},
		{"mcpsaga_token_size_bytes_count", []string{`mcpsaga_name="order"`}, "2"},
		{"mcpsaga_turn_duration_seconds_count", []string{`mcpsaga_name="order"`}, "5"},
		{"mcpsaga_effect_duration_seconds_count", []string{`mcpsaga_effect_name="place-order"`, `mcpsaga_undo="false"`}, "2"},
		{"mcpsaga_effect_duration_seconds_count", []string{`mcpsaga_effect_name="place-order"`, `mcpsaga_undo="true"`}, "1"},
		{"mcp_server_operation_duration_seconds_count", []string{`mcp_method_name="tools/call"`, `gen_ai_tool_name="order"`, `error_type="tool_error"`}, "1"},
		{"mcp_server_operation_duration_seconds_count", []string{`rpc_response_status_code="-32602"`}, "1"},
		{"mcpsaga_ledger_sagas", []string{`mcpsaga_mode="task"`, `mcpsaga_status="working"`}, "0"},
		{"mcpsaga_ledger_sagas", []string{`mcpsaga_mode="client"`, `mcpsaga_status="outstanding"`}, "0"},
	} {
		lines := sample(m, want.name, want.labels...)
		if assert.Len(t, lines, 1, "%s %v in\n%s", want.name, want.labels, m) {
			assert.True(t, strings.HasSuffix(lines[0], " "+want.value), "%s is not %s", lines[0], want.value)
		}
	}
	assert.NotEmpty(t, sample(m, "mcpsaga_ledger_duration_seconds_count", `mcpsaga_ledger_operation="Write"`))
}

// What is refused for a bound is counted by that.
func TestRefusalsAreCounted(t *testing.T) {
	r := newReplica(t, "r", server.Options{Keys: newKeys(t), CallerRate: server.Rate{Count: 1, Per: time.Hour}})
	r.call(nil)
	r.send("tools/call", "order", object{"name": "order"}, nil)
	r.send("tools/call", "order", object{"name": "order"}, nil)
	lines := sample(r.scrape(), "mcp_server_operation_duration_seconds_count", `mcp_method_name="tools/call"`, `error_type="rate"`, `rpc_response_status_code="-31503"`)
	require.Len(t, lines, 1)
	assert.True(t, strings.HasSuffix(lines[0], " 2"), lines[0])
}

// A ledger that fails is seen, and is what is counted.
func TestMetricsOfALedger(t *testing.T) {
	memory := ledger.NewMemory(ledger.MemoryOptions{})
	defer memory.Close()
	down, lists := true, 0
	failing := &intercept.Store{Store: memory, Around: func(_ context.Context, c intercept.Call, next func() error) error {
		if c.Method == "List" {
			if lists++; down {
				return errors.New("no route to the host of " + theSecret)
			}
		}
		return next()
	}}
	exported, err := telemetry.Start(t.Context(), telemetry.Options{Prometheus: true})
	require.NoError(t, err)
	o := server.Options{Ledger: failing}
	require.NoError(t, exported.Instrument(&o))
	r := &replica{t: t, exported: exported}
	r.scrape()
	m := r.scrape()
	assert.Empty(t, sample(m, "mcpsaga_ledger_sagas"))
	assert.Contains(t, m, "\nmcpsaga_ledger_up 1\n", "it could be written")
	assert.Len(t, sample(m, "mcpsaga_ledger_duration_seconds_count", `mcpsaga_ledger_operation="List"`, `error_type="unreachable"`), 1)
	assert.NotContains(t, m, theSecret)
	assert.Equal(t, 1, lists, "it was asked for each scrape")
	require.NoError(t, exported.Shutdown(t.Context()))
}

// Whatever clients send, there are no more series than the server's own tools have.
func TestClientsMakeNoSeries(t *testing.T) {
	r := newReplica(t, "r", server.Options{Keys: newKeys(t)})
	hostile := func(i int) {
		name := fmt.Sprintf("made-up-%d", i)
		r.send("made/up"+name, "", object{}, nil)
		r.send("tools/call", name, object{"name": name}, nil)
		r.send("prompts/get", name, object{"name": name}, nil)
		r.send("resources/read", name, object{"uri": name}, nil)
		r.answer(name, "yes", object{"progressToken": name})
	}
	hostile(0)
	series := len(strings.Split(r.scrape(), "\n"))
	for i := range 50 {
		hostile(i)
	}
	m := r.scrape()
	assert.Len(t, strings.Split(m, "\n"), series)
	assert.NotContains(t, m, "made")
	assert.Len(t, sample(m, "mcp_server_operation_duration_seconds_count", `mcp_method_name="_OTHER"`), 1)
}

// Nothing that is exported has what only the caller and the tool may know.
func TestNothingSecretIsExported(t *testing.T) {
	in := newReceiver(t)
	keys := newKeys(t)
	store := ledger.NewMemory(ledger.MemoryOptions{})
	defer store.Close()
	a, b := newReplica(t, "a", server.Options{Keys: keys, Ledger: store}), newReplica(t, "b", server.Options{Keys: keys})
	for _, r := range []*replica{a, b} {
		token := r.call(object{"traceparent": clients, "baggage": "a=" + theSecret, "progressToken": theSecret})
		require.Contains(t, r.answer(token, theAnswer, nil).Raw, theSecret)
		r.answer(r.call(nil), "fail", nil)
		r.answer(token[:len(token)-4], theAnswer, nil)
		r.send("tools/cancelSaga", "", object{"sagaToken": r.call(nil)}, nil)
		r.send("tools/call", theArgument, object{"name": theArgument}, nil)
		r.send(theSecret, "", object{}, nil)
	}
	metrics := a.scrape() + b.scrape()
	tokens := append(a.tokens, b.tokens...)
	a.stop()
	b.stop()
	in.mu.Lock()
	defer in.mu.Unlock()
	require.NotEmpty(t, in.spans)
	require.Contains(t, in.raw.String(), "mcpsaga.turn order", "what came is not in the clear")
	require.Len(t, tokens, 6)
	for _, secret := range append(tokens, theArgument, theAnswer, theSecret, theSubject) {
		assert.NotContains(t, in.raw.String(), secret)
		assert.NotContains(t, metrics, secret)
	}
}

// What there is not is refused, with what there is.
func TestEnvironment(t *testing.T) {
	for name, test := range map[string]struct {
		env        map[string]string
		prometheus bool
		err        string
	}{
		"nothing":    {},
		"prometheus": {map[string]string{"OTEL_METRICS_EXPORTER": "none, prometheus"}, true, ""},
		"disabled":   {map[string]string{"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_SDK_DISABLED": "TRUE"}, false, ""},
		"gRPC":       {map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, false, "4318"},
		"unused":     {map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, false, ""},
		"mistyped":   {map[string]string{"OTEL_METRICS_EXPORTER": "promethesus"}, false, "there are otlp, none"},
		"mistaken":   {map[string]string{"OTEL_TRACES_EXPORTER": "prometheus"}, false, "metrics only"},
	} {
		t.Run(name, func(t *testing.T) {
			exported, err := telemetry.Start(t.Context(), telemetry.Options{Getenv: func(k string) string { return test.env[k] }})
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, test.prometheus, exported.Handler() != nil)
			o := server.Options{}
			require.NoError(t, exported.Instrument(&o))
			assert.Equal(t, test.prometheus, len(o.Observers) == 1)
			require.NoError(t, exported.Shutdown(t.Context()))
		})
	}
}

// A collector that is away is in the log, and holds nothing up.
func TestCollectorsThatAreAway(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "50")
	r := newReplica(t, "r", server.Options{Keys: newKeys(t)})
	assert.Equal(t, theSecret, r.answer(r.call(nil), "yes", nil).Get("result.content.0.text").String())
	r.stop()
	assert.Contains(t, r.log.String(), `"traces cannot be exported"`)
	assert.Contains(t, r.log.String(), `"metrics cannot be exported"`)
}

// A program that has set OpenTelemetry up itself is left alone by the environment.
func TestOwnProviders(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"prometheus": {"OTEL_METRICS_EXPORTER": "prometheus"},
		"gRPC":       {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
	} {
		t.Run(name, func(t *testing.T) {
			reader := sdkmetric.NewManualReader()
			exported, err := telemetry.Start(t.Context(), telemetry.Options{
				Meter: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), Tracer: sdktrace.NewTracerProvider(), Getenv: func(k string) string { return env[k] },
			})
			require.NoError(t, err)
			assert.Nil(t, exported.Handler())
			o := server.Options{Keys: newKeys(t), Tools: []saga.Definition{orderTool()}}
			require.NoError(t, exported.Instrument(&o))
			s, err := server.New(o)
			require.NoError(t, err)
			defer s.Close()
			post(t, s.Handler(), `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"order","arguments":{"what":"lunch"}}}`)
			var got metricdata.ResourceMetrics
			require.NoError(t, reader.Collect(t.Context(), &got))
			assert.NotEmpty(t, got.ScopeMetrics)
		})
	}
}
