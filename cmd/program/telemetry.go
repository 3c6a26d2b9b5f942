package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/internal/buildinfo"
	"github.com/mcpsaga/mcpsaga/telemetry"
)

const (
	// lastExport is how long a server that has ended waits for the last export.
	lastExport = 5 * time.Second
	// metricsPath is where Prometheus looks by default, and metricsPort where exporters of OpenTelemetry listen.
	metricsPath, metricsPort = "/metrics", "9464"
)

// observe exports what the server of p does, as --metrics and the environment say, until stop is called.
func (p *program) observe(ctx context.Context, c *cli.Command) (stop func(), err error) {
	o := &p.server
	exported, err := telemetry.Start(ctx, telemetry.Options{
		Service: p.name, Version: cmp.Or(o.Version, buildinfo.Version()), Prometheus: c.String("metrics") != "", Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	log := o.Logger
	shutdown := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastExport)
		defer cancel()
		if err := exported.Shutdown(ctx); err != nil {
			log.Warn("what the server did last could not be exported", "error", err)
		}
	}
	if err := exported.Instrument(o); err != nil {
		shutdown()
		return nil, err
	}
	h := exported.Handler()
	if h == nil {
		return shutdown, nil
	}
	closeMetrics, err := serveMetrics(ctx, metricsAddress(c.String("metrics")), h, log)
	if err != nil {
		shutdown()
		return nil, fmt.Errorf("%w\nName another address for --metrics", err)
	}
	return func() { closeMetrics(); shutdown() }, nil
}

// metricsAddress is where metrics are served: of this machine unless a host is named.
func metricsAddress(flag string) string {
	if flag == "" {
		return net.JoinHostPort(cmp.Or(os.Getenv("OTEL_EXPORTER_PROMETHEUS_HOST"), "localhost"), cmp.Or(os.Getenv("OTEL_EXPORTER_PROMETHEUS_PORT"), metricsPort))
	}
	if !strings.Contains(flag, ":") {
		return net.JoinHostPort("127.0.0.1", flag)
	}
	if host, port, err := net.SplitHostPort(flag); err == nil && host == "" {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return flag
}

func serveMetrics(ctx context.Context, addr string, h http.Handler, log *slog.Logger) (stop func(), err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+metricsPath, h)
	s := &http.Server{
		Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 8 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are served no longer", "error", err)
		}
	}()
	log.Info("serving metrics", "address", "http://"+l.Addr().String()+metricsPath)
	return func() { _ = s.Close(); <-done }, nil
}
