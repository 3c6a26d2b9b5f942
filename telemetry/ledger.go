package telemetry

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
		t.meters.calls.Record(ctx, time.Since(began).Seconds(), t.meters.options.of(labels...))
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
	// countMost is how many sagas are counted of each mode and status; countPage records are read at once.
	countMost, countPage = 2000, 500
)

// standing is what a gauge counts.
type standing struct {
	mode   store.Mode
	status string
}

// failing is the status of sagas whose undo has failed, and is put off or given up, as "saga ledger" has it.
const failing = "failing"

// counter counts what a ledger looks after.
type counter struct {
	store, timed ledger.Store
	audience     string

	mu      sync.Mutex
	counted time.Time
	up      bool
	over    bool               // the store was closed, which is up as well: there is nothing to count
	last    map[standing]int64 // of the statuses that could be counted
}

// count has metrics say how many sagas the ledger looks after.
func (t *Telemetry) count(of, timed ledger.Store, audience string) {
	t.counting.Lock()
	defer t.counting.Unlock()
	if !slices.ContainsFunc(t.counters, func(c *counter) bool { return c.store == of && c.audience == audience }) {
		t.counters = append(t.counters, &counter{store: of, timed: timed, audience: audience})
	}
}

// observe has the counters read when metrics are.
func (t *Telemetry) observe(m metric.Meter) error {
	sagas, err := m.Int64ObservableGauge("mcpsaga.ledger.sagas", metric.WithUnit("{saga}"),
		metric.WithDescription(fmt.Sprintf("Sagas that the ledger looks after, of all servers, counted up to %d of each mode and status.", countMost)))
	if err != nil {
		return err
	}
	up, err := m.Int64ObservableGauge("mcpsaga.ledger.up", metric.WithDescription("1 if the ledger can be read and written, or else 0."))
	if err != nil {
		return err
	}
	_, err = m.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		t.counting.Lock()
		t.counters = slices.DeleteFunc(t.counters, (*counter).closed)
		list := slices.Clone(t.counters)
		t.counting.Unlock()
		if len(list) == 0 {
			return nil
		}
		all, allUp := make(map[standing]int64), int64(1)
		for _, c := range list {
			of, isUp := c.read(ctx)
			if !isUp {
				allUp = 0
			}
			for s, n := range of {
				all[s] += n
			}
		}
		for s, n := range all {
			o.ObserveInt64(sagas, n, metric.WithAttributes(keyMode.String(string(s.mode)), keyState.String(s.status)))
		}
		o.ObserveInt64(up, allUp)
		return nil
	}, sagas, up)
	return err
}

// read counts, unless that was done just now. What cannot be counted has no value: the calls that failed
// are measured as all are.
func (c *counter) read(ctx context.Context) (last map[standing]int64, up bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.counted.IsZero() && time.Since(c.counted) < countEvery {
		return c.last, c.up
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTime) // others read it as well
	defer cancel()
	c.last = make(map[standing]int64)
	_, err := c.timed.Check(ctx)
	c.over = errors.Is(err, store.ErrClosed)
	if c.up = err == nil || c.over; err == nil {
		c.countAll(ctx)
	}
	c.counted = time.Now()
	return c.last, c.up
}

// closed reports whether the store was closed, so that there is nothing more to count.
func (c *counter) closed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// countAll counts the sagas of each mode and status, as long as the ledger answers.
func (c *counter) countAll(ctx context.Context) {
	for _, status := range []store.Status{store.Undoing, store.Outstanding, store.Working, store.Sleeping, store.Waiting} {
		for _, mode := range []store.Mode{store.ModeClient, store.ModeTask, store.ModeCall} {
			n, putOff, err := c.of(ctx, mode, status)
			if err != nil {
				return
			}
			c.last[standing{mode, string(status)}] = n
			if status == store.Undoing {
				c.last[standing{mode, failing}] = putOff
			}
		}
	}
}

// of counts the sagas of a mode and a status, apart those to be undone that no server tries to undo before later.
func (c *counter) of(ctx context.Context, mode store.Mode, status store.Status) (n, putOff int64, err error) {
	filter := store.Filter{Audience: c.audience, Mode: mode, Statuses: []store.Status{status}}
	var after store.Cursor
	for {
		page, err := c.timed.List(ctx, filter, after, countPage)
		if err != nil {
			return 0, 0, err
		}
		for _, r := range page {
			if status == store.Undoing && !r.Until.After(r.Now) && (r.Wake.IsZero() || r.Wake.After(r.Now)) {
				putOff++
			} else {
				n++
			}
			after = store.Cursor{Created: r.Created, ID: r.ID}
		}
		if len(page) < countPage || n+putOff >= countMost {
			return n, putOff, nil
		}
	}
}
