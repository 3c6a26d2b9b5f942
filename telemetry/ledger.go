package telemetry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/store/intercept"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// timed is a ledger whose calls are measured.
func (t *Telemetry) timed(of ledger.Store) ledger.Store {
	return &intercept.Store{Store: of, Around: func(ctx context.Context, c intercept.Call, next func() error) error {
		if c.Method == "Listen" { // it lasts as long as the server
			return next()
		}
		began := time.Now()
		err := next()
		labels := []attribute.KeyValue{keyCall.String(c.Method)}
		if failed := ledgerError(ctx, err); failed != "" {
			labels = append(labels, keyError.String(failed))
		}
		t.meters.calls.Record(ctx, time.Since(began).Seconds(), option(labels...))
		return err
	}}
}

// ledgerError is a word for how a call of the ledger failed. Some of it is how servers find out what others did.
func ledgerError(ctx context.Context, err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, store.ErrNotFound):
		return "not_found"
	case errors.Is(err, store.ErrConflict):
		return "conflict"
	case errors.Is(err, store.ErrFull):
		return "full"
	case errors.Is(err, store.ErrUnknown):
		return "unknown"
	case errors.Is(err, store.ErrClosed):
		return "closed"
	case errors.Is(err, store.ErrTooLarge), errors.Is(err, store.ErrInvalid):
		return "invalid"
	case ctx.Err() != nil:
		return "context"
	}
	return "unreachable"
}

const (
	// countEvery is how old a count may be for the next who reads the metrics.
	countEvery = 30 * time.Second
	// countTime is how long the ledger may take to be counted.
	countTime = 2 * time.Second
	// countMost is how many sagas are counted of each status; countPage records are read at once.
	countMost, countPage = 2000, 500
)

// standing is which records a gauge counts.
type standing struct {
	mode   store.Mode
	status store.Status
}

// counter counts what a ledger looks after.
type counter struct {
	store    ledger.Store
	audience string

	mu      sync.Mutex
	counted time.Time
	last    map[standing]int64 // of the statuses that could be counted
}

// count has metrics say how many sagas the ledger looks after.
func (t *Telemetry) count(of ledger.Store, audience string) error {
	gauge, err := t.meter.Int64ObservableGauge("mcpsaga.ledger.sagas", metric.WithUnit("{saga}"),
		metric.WithDescription(fmt.Sprintf("Sagas that the ledger looks after, of all servers, counted up to %d of each state.", countMost)))
	if err != nil {
		return err
	}
	c := &counter{store: of, audience: audience}
	_, err = t.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		for s, n := range c.read(ctx) {
			o.ObserveInt64(gauge, n, metric.WithAttributes(keyMode.String(string(s.mode)), keyState.String(string(s.status))))
		}
		return nil
	}, gauge)
	return err
}

// read counts, unless that was done just now. What cannot be counted has no value: the calls that failed
// are measured as all are.
func (c *counter) read(ctx context.Context) map[standing]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.counted.IsZero() && time.Since(c.counted) < countEvery {
		return c.last
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTime) // others read it as well
	defer cancel()
	c.last = make(map[standing]int64)
	for _, status := range []store.Status{store.Undoing, store.Outstanding, store.Working, store.Sleeping, store.Waiting} {
		n, err := c.of(ctx, status)
		if err != nil {
			break // of a ledger that is away
		}
		for _, mode := range []store.Mode{store.ModeClient, store.ModeTask, store.ModeCall} {
			c.last[standing{mode, status}] = n[mode]
		}
	}
	c.counted = time.Now()
	return c.last
}

// of counts the sagas that have a status, by modes. What sessions keep waits as well, and is passed over.
func (c *counter) of(ctx context.Context, status store.Status) (map[store.Mode]int64, error) {
	n, sagas := make(map[store.Mode]int64), 0
	var after store.Cursor
	for {
		page, err := c.store.List(ctx, store.Filter{Audience: c.audience, Statuses: []store.Status{status}}, after, countPage)
		if err != nil {
			return nil, err
		}
		for _, r := range page {
			if after = (store.Cursor{Created: r.Created, ID: r.ID}); r.Mode == store.ModeSession || r.Mode == store.ModeNotices {
				continue
			}
			n[r.Mode]++
			if sagas++; sagas == countMost {
				return n, nil
			}
		}
		if len(page) < countPage {
			return n, nil
		}
	}
}
