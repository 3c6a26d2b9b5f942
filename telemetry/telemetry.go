// Package telemetry exports what a server of package server does: as traces and metrics of
// OpenTelemetry, for Prometheus to scrape, and by the ids of traces in its log.
//
// The usual variables switch it on (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SERVICE_NAME,
// OTEL_TRACES_SAMPLER; see [Start]). Requests are named as MCP's conventions have it; what is this
// project's own (turns, questions, effects, undos, the ledger) begins with "mcpsaga".
//
// Nothing that is exported has an argument, an answer, a token, a text of an error, an idempotency key
// or a caller in it. Labels of metrics are of sets that the server's own code bounds.
package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"

	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcpsaga/mcpsaga/server"
)

// scope is the name under which this package makes spans and metrics.
const scope = "github.com/mcpsaga/mcpsaga/telemetry"

// Options say what to export, besides the environment. The zero value is for use.
type Options struct {
	// Service and Version are what the server is called in traces and metrics, unless OTEL_SERVICE_NAME or
	// OTEL_RESOURCE_ATTRIBUTES say something else. Service is "mcpsaga" by default.
	Service, Version string
	// Prometheus has metrics kept for [Telemetry.Handler], whatever the environment says, and instead of exported by Meter.
	Prometheus bool
	// Tracer and Meter are of a program that has set OpenTelemetry up itself: where one of them is not nil
	// the environment's traces or metrics are left alone. They are not shut down.
	Tracer trace.TracerProvider
	Meter  metric.MeterProvider
	// Logger gets what cannot be exported. Default: [slog.Default].
	Logger *slog.Logger
	// Getenv reads the variables that say which exporters there are. Default: [os.Getenv]. The exporters
	// read theirs, such as where to send to and how to sample, from the environment itself.
	Getenv func(string) string
}

// Telemetry exports what servers do. It is safe for concurrent use.
type Telemetry struct {
	tracer   trace.Tracer // nil without traces
	meters   *meters      // nil without metrics
	handler  http.Handler // nil without Prometheus
	stop     []func(context.Context) error
	log      *slog.Logger
	counting sync.Mutex
	counters []*counter // of the ledgers of all servers that this instruments
}

// Start begins to export. The environment says what:
//
//   - traces by OTLP over HTTP, if OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set, or
//     OTEL_TRACES_EXPORTER is "otlp", and not if that is "none";
//   - metrics likewise, by OTEL_EXPORTER_OTLP_METRICS_ENDPOINT and OTEL_METRICS_EXPORTER, which may also be
//     "prometheus", or both with a comma between;
//   - nothing by OTLP if OTEL_SDK_DISABLED is "true".
//
// It fails if a variable asks for what there is not, such as gRPC. If nothing is asked for, the Telemetry does nothing,
// and costs nothing. It does not wait for who receives what is exported.
func Start(ctx context.Context, o Options) (*Telemetry, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	t := &Telemetry{log: o.Logger}
	if err := t.start(ctx, &o); err != nil {
		return nil, errors.Join(err, t.Shutdown(ctx))
	}
	return t, nil
}

func (t *Telemetry) start(ctx context.Context, o *Options) error {
	want, err := exporters(o)
	if err != nil {
		return err
	}
	res, err := resourceOf(ctx, o)
	if err != nil {
		return err
	}
	tracers, meterProvider := o.Tracer, o.Meter
	if want.traces {
		p, err := t.exportTraces(ctx, res)
		if err != nil {
			return err
		}
		tracers = p
	}
	var readers []sdkmetric.Option
	if want.prometheus {
		reader, err := t.keepForPrometheus()
		if err != nil {
			return err
		}
		readers = append(readers, reader)
	}
	if want.metrics {
		reader, err := t.exportMetrics(ctx)
		if err != nil {
			return err
		}
		readers = append(readers, reader)
	}
	if len(readers) > 0 {
		p := sdkmetric.NewMeterProvider(append(readers, sdkmetric.WithResource(res))...)
		t.stop = append(t.stop, p.Shutdown)
		meterProvider = p
	}
	if tracers != nil {
		t.tracer = tracers.Tracer(scope)
	}
	if meterProvider != nil {
		m := meterProvider.Meter(scope)
		t.meters, err = newMeters(m)
		err = errors.Join(err, t.observe(m))
	}
	return err
}

// Instrument has a server that is made of the options export what it does: call it when they are complete otherwise, before
// [server.New]. Its observer goes before those that are there, calls of the ledger are timed, and the log has the ids of traces.
// Whether the ledger can be used and how many sagas it looks after is found out at most every 30 seconds, when metrics are read.
func (t *Telemetry) Instrument(o *server.Options) error {
	if t.tracer == nil && t.meters == nil {
		return nil
	}
	o.Observers = append([]server.Observer{t.Observer()}, o.Observers...)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if t.tracer != nil {
		o.Logger = slog.New(LogHandler(o.Logger.Handler()))
	}
	if o.Ledger == nil || t.meters == nil {
		return nil
	}
	of := o.Ledger
	o.Ledger = t.timed(of)
	t.count(of, o.Ledger, o.Audience)
	return nil
}

// Handler serves the metrics to Prometheus. Who reaches it can read it: serve it where only
// Prometheus comes. It is nil without Prometheus.
func (t *Telemetry) Handler() http.Handler { return t.handler }

// Shutdown exports what has not been exported yet, until ctx ends, and ends the export. The server must have
// stopped before.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	var errs []error
	for _, stop := range t.stop {
		errs = append(errs, stop(ctx))
	}
	t.stop = nil
	return errors.Join(errs...)
}
