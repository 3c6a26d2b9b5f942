package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collectmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/mcpsaga/mcpsaga/internal/leaktest"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
	"github.com/mcpsaga/mcpsaga/telemetry"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// What nobody but the caller and the tool may read.
const (
	theArgument = "argument-of-4711"
	theAnswer   = "answer-of-4712"
	theSecret   = "secret-of-4713"
	theSubject  = "subject-4714"
)

// orderTool asks twice, does something, and undoes it when it fails.
func orderTool() saga.Definition {
	type args struct {
		What string `json:"what"`
	}
	type sure struct {
		Sure string `json:"sure"`
	}
	ask := &steps.Form[sure]{ID: "sure", Message: "Shall I?"}
	place := &saga.Effect[string, string]{
		Name: "place-order",
		Do:   func(context.Context, saga.Key, string) (string, error) { return theSecret, nil },
		Undo: func(context.Context, saga.Performed[string, string]) error { return nil },
	}
	return saga.Flow[args, string]{
		Info: saga.Info{Name: "order", Asks: []steps.Question{ask}, Effects: []saga.Declared{place}, Tasks: saga.Tasks{Mode: saga.TasksOptional, Poll: 20 * time.Millisecond}},
		Run: func(r *saga.Run, a args) (string, error) {
			answer, err := saga.Ask(r, ask)
			if err != nil {
				return "", err
			}
			placed, err := saga.Do(r, place, a.What)
			if err == nil && answer.Sure == "fail" {
				err = errors.New(theSecret + theArgument)
			}
			return placed, err
		},
	}
}

// span is a span that was exported, with what exported it.
type span struct {
	*tracepb.Span
	service string
}

func (s span) String(key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return text(a.Value)
		}
	}
	return ""
}

func text(v *common.AnyValue) string {
	if s, ok := v.Value.(*common.AnyValue_StringValue); ok {
		return s.StringValue
	}
	raw, _ := protojson.Marshal(v)
	return string(raw)
}

// receiver takes what is exported by OTLP over HTTP.
type receiver struct {
	mu    sync.Mutex
	spans []span
	raw   bytes.Buffer // all that came
	names []string     // of metrics
}

func newReceiver(t *testing.T) *receiver {
	r := new(receiver)
	front := httptest.NewServer(r)
	t.Cleanup(front.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", front.URL)
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "3600000")
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raw.Write(body)
	switch q.URL.Path {
	case "/v1/traces":
		var m collect.ExportTraceServiceRequest
		if proto.Unmarshal(body, &m) != nil {
			http.Error(w, "no trace", http.StatusBadRequest)
			return
		}
		for _, of := range m.ResourceSpans {
			service := ""
			for _, a := range of.Resource.Attributes {
				if a.Key == "service.name" {
					service = text(a.Value)
				}
			}
			for _, in := range of.ScopeSpans {
				for _, s := range in.Spans {
					r.spans = append(r.spans, span{s, service})
				}
			}
		}
	case "/v1/metrics":
		var m collectmetrics.ExportMetricsServiceRequest
		if proto.Unmarshal(body, &m) != nil {
			http.Error(w, "no metrics", http.StatusBadRequest)
			return
		}
		for _, of := range m.ResourceMetrics {
			for _, in := range of.ScopeMetrics {
				for _, one := range in.Metrics {
					r.names = append(r.names, one.Name)
				}
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// named returns the spans of a name, in the order in which they began.
func (r *receiver) named(name string) (list []span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if s.Name == name {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b span) int { return int(int64(a.StartTimeUnixNano) - int64(b.StartTimeUnixNano)) })
	return list
}

// one demands that there is one span of a name.
func (r *receiver) one(t *testing.T, name string) span {
	t.Helper()
	list := r.named(name)
	require.Len(t, list, 1, name)
	return list[0]
}

// replica is a server that tells what it does.
type replica struct {
	t        *testing.T
	exported *telemetry.Telemetry
	url      string
	log      *bytes.Buffer
	stop     func()
	tokens   []string // that it has given out
}

func newKeys(t testing.TB) *codec.Keyset {
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	return keys
}

func newReplica(t *testing.T, name string, o server.Options) *replica {
	t.Helper()
	r := &replica{t: t, log: new(bytes.Buffer)}
	var err error
	r.exported, err = telemetry.Start(t.Context(), telemetry.Options{Service: name, Version: "1", Prometheus: true, Logger: slog.New(slog.NewJSONHandler(r.log, nil))})
	require.NoError(t, err)
	o.Tools = []saga.Definition{orderTool()}
	o.Logger = slog.New(slog.NewJSONHandler(r.log, nil))
	o.Authenticate = func(*http.Request) (saga.Caller, error) { return saga.Caller{Subject: theSubject}, nil }
	require.NoError(t, r.exported.Instrument(&o))
	s, err := server.New(o)
	require.NoError(t, err)
	front := httptest.NewServer(s.Handler())
	r.url = front.URL
	r.stop = sync.OnceFunc(func() {
		front.Close()
		s.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		assert.NoError(t, r.exported.Shutdown(ctx))
	})
	t.Cleanup(r.stop)
	return r
}

type object = map[string]any

// send sends a request of MCP 2026-07-28 and returns the response.
func (r *replica) send(method, name string, params object, meta object) jsontest.Value {
	r.t.Helper()
	all := object{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": object{"name": "test", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": object{"elicitation": object{}},
	}
	for k, v := range meta {
		all[k] = v
	}
	params["_meta"] = all
	body, err := json.Marshal(object{"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
	require.NoError(r.t, err)
	q, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url+"/mcp", bytes.NewReader(body))
	require.NoError(r.t, err)
	q.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Method": {method}, "Mcp-Protocol-Version": {"2026-07-28"},
	}
	if name != "" {
		q.Header.Set("Mcp-Name", name)
	}
	response, err := http.DefaultClient.Do(q)
	require.NoError(r.t, err)
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	require.NoError(r.t, err)
	v := jsontest.Parse(raw)
	if token := v.Get("result.requestState").String(); token != "" {
		r.tokens = append(r.tokens, token)
	}
	return v
}

// call begins an order, and answers goes on with it.
func (r *replica) call(meta object) (token string) {
	r.t.Helper()
	v := r.send("tools/call", "order", object{"name": "order", "arguments": object{"what": theArgument}}, meta)
	token = v.Get("result.requestState").String()
	require.NotEmpty(r.t, token, v.Raw)
	return token
}

func (r *replica) answer(token, sure string, meta object) jsontest.Value {
	r.t.Helper()
	return r.send("tools/call", "order", object{
		"name": "order", "arguments": object{"what": theArgument}, "requestState": token,
		"inputResponses": object{"sure": object{"action": "accept", "content": object{"sure": sure}}},
	}, meta)
}

// scrape reads the metrics as Prometheus does.
func (r *replica) scrape() string {
	w := httptest.NewRecorder()
	r.exported.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(r.t, http.StatusOK, w.Code)
	return w.Body.String()
}

// sample returns the lines of a metric that have all of the labels.
func sample(metrics, name string, labels ...string) (lines []string) {
	for line := range strings.Lines(metrics) {
		if !strings.HasPrefix(line, name+"{") {
			continue
		}
		if !slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(line, l) }) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}
