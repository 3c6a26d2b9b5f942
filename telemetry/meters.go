package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/mcpsaga/mcpsaga/server"
)

// meters are what is measured.
type meters struct {
	requests, turn, waited, effects, calls metric.Float64Histogram
	turns, asked                           metric.Int64Counter
	token                                  metric.Int64Histogram
	options                                options
}

// Bounds of buckets. Those of requests are of MCP's conventions.
var (
	requestBounds = metric.WithExplicitBucketBoundaries(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
	turnBounds    = metric.WithExplicitBucketBoundaries(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60)
	callBounds    = metric.WithExplicitBucketBoundaries(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 10)
	waitedBounds  = metric.WithExplicitBucketBoundaries(1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 21600, 86400)
	tokenBounds   = metric.WithExplicitBucketBoundaries(256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
)

func newMeters(m metric.Meter) (*meters, error) {
	var errs []error
	seconds := func(name, what string, bounds metric.HistogramOption) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what), bounds)
		errs = append(errs, err)
		return h
	}
	counter := func(name, unit, what string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
		return c
	}
	token, err := m.Int64Histogram("mcpsaga.token.size", metric.WithUnit("By"), metric.WithDescription("Sizes of the tokens that clients were given."), tokenBounds)
	return &meters{
		requests: seconds("mcp.server.operation.duration", "How long requests took.", requestBounds),
		turn:     seconds("mcpsaga.turn.duration", "How long turns took.", turnBounds),
		waited:   seconds("mcpsaga.question.age", "How long clients had a token before they came back with answers.", waitedBounds),
		effects:  seconds("mcpsaga.effect.duration", "How long tries of effects, and of undoing them, took.", turnBounds),
		calls:    seconds("mcpsaga.ledger.duration", "How long calls of the ledger took.", callBounds),
		turns:    counter("mcpsaga.turns", "{turn}", "Turns by how they ended, and why."),
		asked:    counter("mcpsaga.questions", "{question}", "Questions that clients were asked."),
		token:    token,
		options:  options{made: make(map[[6]attribute.KeyValue]metric.MeasurementOption)},
	}, errors.Join(append(errs, err)...)
}

// turnTaken measures a turn that took so long.
func (m *meters) turnTaken(ctx context.Context, t *server.TurnInfo, took time.Duration) {
	kind, name := keyKind.String(t.Kind), keyName.String(t.Name)
	of := m.options.of(kind, name)
	m.turns.Add(ctx, 1, m.options.of(kind, name, keyAction.String(t.Action), keyOutcome.String(t.Outcome), keyReason.String(t.Reason)))
	m.turn.Record(ctx, took.Seconds(), of)
	if len(t.Answers) > 0 && t.Outcome != "refused" { // else anybody makes them up
		m.waited.Record(ctx, t.Waited.Seconds(), of)
	}
	if len(t.Asked) > 0 && t.Reason != "recorded" {
		m.asked.Add(ctx, int64(len(t.Asked)), of)
	}
	if t.TokenSize > 0 {
		m.token.Record(ctx, int64(t.TokenSize), of)
	}
}
