package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// wanted is what is to be exported.
type wanted struct{ traces, metrics, prometheus bool }

// exporters reads from the environment what is wanted of signals that the program has no provider for.
func exporters(o *Options) (w wanted, err error) {
	getenv := o.Getenv
	if getenv == nil {
		getenv = os.Getenv
	}
	w.prometheus = o.Prometheus
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return w, nil
	}
	for _, signal := range []struct {
		name string
		own  bool
		otlp *bool
	}{{"TRACES", o.Tracer != nil, &w.traces}, {"METRICS", o.Meter != nil, &w.metrics}} {
		if signal.own {
			continue
		}
		unnamed := "none"
		if getenv("OTEL_EXPORTER_OTLP_ENDPOINT")+getenv("OTEL_EXPORTER_OTLP_"+signal.name+"_ENDPOINT") != "" {
			unnamed = "otlp"
		}
		variable := "OTEL_" + signal.name + "_EXPORTER"
		for name := range strings.SplitSeq(cmp.Or(getenv(variable), unnamed), ",") {
			switch strings.TrimSpace(name) {
			case "otlp":
				*signal.otlp = true
			case "prometheus":
				w.prometheus = true
				if signal.name == "TRACES" {
					return w, fmt.Errorf("telemetry: %s is prometheus, which takes metrics only", variable)
				}
			case "none":
			default:
				return w, fmt.Errorf("telemetry: %s names %q; there are otlp, none, and for metrics prometheus", variable, name)
			}
		}
		variable = "OTEL_EXPORTER_OTLP_" + signal.name + "_PROTOCOL"
		protocol := cmp.Or(getenv(variable), getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf")
		if *signal.otlp && protocol != "http/protobuf" {
			return w, fmt.Errorf("telemetry: %s or OTEL_EXPORTER_OTLP_PROTOCOL is %q; only http/protobuf is spoken here (collectors take it at port 4318)", variable, protocol)
		}
	}
	return w, nil
}

// resourceOf says who exports. It has nothing of the command line, which may hold secrets.
func resourceOf(ctx context.Context, o *Options) (*resource.Resource, error) {
	attributes := []attribute.KeyValue{attribute.String("service.name", cmp.Or(o.Service, "mcpsaga"))}
	if o.Version != "" {
		attributes = append(attributes, attribute.String("service.version", o.Version))
	}
	res, err := resource.New(ctx, resource.WithAttributes(attributes...), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("telemetry: OTEL_RESOURCE_ATTRIBUTES cannot be read: %w", err)
	}
	return res, nil
}

// exportTraces exports by OTLP what the sampler of the environment chooses.
func (t *Telemetry) exportTraces(ctx context.Context, res *resource.Resource) (*sdktrace.TracerProvider, error) {
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("telemetry: traces cannot be exported: %w", err)
	}
	p := sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithBatcher(spanExporter{exporter, t.log}))
	t.stop = append(t.stop, p.Shutdown)
	return p, nil
}

func (t *Telemetry) exportMetrics(ctx context.Context) (sdkmetric.Option, error) {
	exporter, err := otlpmetrichttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("telemetry: metrics cannot be exported: %w", err)
	}
	return sdkmetric.WithReader(sdkmetric.NewPeriodicReader(metricExporter{exporter, t.log})), nil
}

func (t *Telemetry) keepForPrometheus() (sdkmetric.Option, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})) // in an empty registry
	reader, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("telemetry: metrics cannot be kept for Prometheus: %w", err)
	}
	t.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true, MaxRequestsInFlight: 4, ErrorLog: slog.NewLogLogger(t.log.Handler(), slog.LevelWarn),
	})
	return sdkmetric.WithReader(reader), nil
}

// spanExporter and metricExporter log what cannot be exported, which would else go to a handler
// that the whole process shares.
type spanExporter struct {
	sdktrace.SpanExporter
	log *slog.Logger
}

func (e spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.log.WarnContext(ctx, "traces cannot be exported", "spans", len(spans), "error", err)
	}
	return nil
}

type metricExporter struct {
	sdkmetric.Exporter
	log *slog.Logger
}

func (e metricExporter) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	if err := e.Exporter.Export(ctx, m); err != nil {
		e.log.WarnContext(ctx, "metrics cannot be exported", "error", err)
	}
	return nil
}
