package telemetry_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/cputime"
	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/telemetry"
)

// ways are how much a server may tell.
var ways = []struct {
	name string
	env  map[string]string
	o    *telemetry.Options
	pass string
}{
	{name: "off"},
	{name: "nothing wanted", o: &telemetry.Options{}},
	{name: "observer", pass: "observer"},
	{name: "hooks", pass: "hooks"},
	{name: "metrics", o: &telemetry.Options{Prometheus: true}},
	{name: "metrics and 1 % of traces", o: &telemetry.Options{Prometheus: true}, env: map[string]string{
		"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.01",
	}},
	{name: "all traces", o: &telemetry.Options{Prometheus: true}, env: map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": "parentbased_always_on"}},
}

// handler returns a server that tells so much.
func handler(b testing.TB, keys *codec.Keyset, way int) (h http.Handler, end func()) {
	w := ways[way]
	o := server.Options{Keys: keys, Tools: []saga.Definition{orderTool()}, Logger: slog.New(slog.DiscardHandler)}
	if w.pass == "observer" {
		o.Observers = []server.Observer{{
			Request: func(ctx context.Context, _ *server.RequestInfo) (context.Context, func(error)) { return ctx, nil },
			Turn:    func(ctx context.Context, _ *server.TurnInfo) (context.Context, func(error)) { return ctx, nil },
			Effect:  func(ctx context.Context, _ *server.EffectInfo) (context.Context, func(error)) { return ctx, nil },
		}}
	}
	if w.pass == "hooks" {
		o.Hooks = []server.Hooks{{
			Request: func(ctx context.Context, _ *server.RequestInfo, next func(context.Context) error) error {
				return next(ctx)
			},
			Turn: func(ctx context.Context, _ *server.TurnInfo, next func(context.Context) error) error {
				return next(ctx)
			},
			Effect: func(ctx context.Context, _ *server.EffectInfo, next func(context.Context) error) error {
				return next(ctx)
			},
		}}
	}
	end = func() {}
	if w.o != nil {
		sink := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for k, v := range w.env {
			b.(interface{ Setenv(k, v string) }).Setenv(k, v)
		}
		b.(interface{ Setenv(k, v string) }).Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
		if w.env != nil {
			b.(interface{ Setenv(k, v string) }).Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", sink.URL)
		}
		exported, err := telemetry.Start(b.Context(), *w.o)
		require.NoError(b, err)
		require.NoError(b, exported.Instrument(&o))
		end = func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			require.NoError(b, exported.Shutdown(ctx))
			sink.Close()
		}
	}
	s, err := server.New(o)
	require.NoError(b, err)
	return s.Handler(), end
}

func post(b testing.TB, h http.Handler, message string) string {
	r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(message))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(b, http.StatusOK, w.Code)
	return w.Body.String()
}

// messages are the requests of a saga of two turns with an effect.
func messages(b testing.TB, h http.Handler) (call, resume string) {
	call = `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"order","arguments":{"what":"lunch"}}}`
	token, err := json.Marshal(jsontest.Get(post(b, h, call), "result.sagaToken").String())
	require.NoError(b, err)
	resume = `{"jsonrpc":"2.0","id":2,"method":"tools/resumeSaga","params":{"sagaToken":` + string(token) +
		`,"completedSteps":[{"stepId":"sure","result":{"action":"accept","content":{"sure":"yes"}}}]}}`
	require.Contains(b, post(b, h, resume), theSecret)
	return call, resume
}

// BenchmarkSaga is a saga of two turns and an effect, without a network.
func BenchmarkSaga(b *testing.B) {
	keys := newKeys(b)
	for i, w := range ways {
		b.Run(w.name, func(b *testing.B) {
			h, end := handler(b, keys, i)
			defer end()
			call, resume := messages(b, h)
			b.ReportAllocs()
			for b.Loop() {
				post(b, h, call)
				post(b, h, resume)
			}
		})
	}
}

// block is how many sagas come one after the other, so that caches are warm.
const block = 50

// BenchmarkRatios takes turns between the ways, so that what else a machine does falls on all alike, and reports how many
// times the CPU time of one that is off each takes: by the median of rounds, in which each
// does a block of sagas, without a network and over HTTP, that of the client included.
func BenchmarkRatios(b *testing.B) {
	for _, over := range []string{"in process", "HTTP"} {
		b.Run(over, func(b *testing.B) {
			keys := newKeys(b)
			run := make([]func(), len(ways))
			for i := range ways {
				h, end := handler(b, keys, i)
				defer end()
				call, resume := messages(b, h)
				run[i] = func() { post(b, h, call); post(b, h, resume) }
				if over == "HTTP" {
					front := httptest.NewServer(h)
					defer front.Close()
					run[i] = func() { postOver(b, front.URL, call); postOver(b, front.URL, resume) }
				}
			}
			took := make([][]time.Duration, len(ways))
			for b.Loop() {
				for _, i := range rand.Perm(len(ways)) {
					began := cputime.Used()
					for range block {
						run[i]()
					}
					took[i] = append(took[i], cputime.Used()-began)
				}
			}
			median := func(of func(round int) float64) float64 {
				all := make([]float64, len(took[0]))
				for round := range all {
					all[round] = of(round)
				}
				slices.Sort(all)
				return all[len(all)/2]
			}
			b.ReportMetric(0, "ns/op")
			for i, w := range ways {
				ratio := median(func(round int) float64 { return float64(took[i][round]) / float64(took[0][round]) })
				b.ReportMetric(ratio, strings.ReplaceAll(w.name, " ", "-"))
			}
			b.ReportMetric(median(func(round int) float64 { return took[0][round].Seconds() * 1e6 / block }), "µs-off")
		})
	}
}

func postOver(b testing.TB, url, message string) {
	response, err := http.Post(url+"/mcp", "application/json", strings.NewReader(message))
	require.NoError(b, err)
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(b, err)
	require.NoError(b, response.Body.Close())
}
