package postgres

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

const (
	// lookAlone is how often listeners look for themselves while the server does not notify.
	lookAlone = 500 * time.Millisecond
	// lookForServer is how often it is tried whether the server can be listened to
	// directly, after there was a pooler.
	lookForServer = time.Minute
)

// A hub has those in this process who listen.
type hub struct {
	notified atomic.Bool   // whether the server notifies of writes by other processes
	came     chan struct{} // gets something when a listener has come

	mu        sync.Mutex
	listeners map[*listener]bool
}

type listener struct{ changed func(store.ID, uint64) }

func (h *hub) init() { h.came, h.listeners = make(chan struct{}, 1), map[*listener]bool{} }

func (h *hub) add(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners[l] = true
	poke(h.came)
}

func (h *hub) remove(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.listeners, l)
}

func (h *hub) empty() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.listeners) == 0
}

// call calls all listeners.
func (h *hub) call(id store.ID, head uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		l.changed(id, head)
	}
}

// Listen implements [store.Store].
func (d *database) Listen(ctx context.Context, changed func(id store.ID, head uint64)) error {
	const what = "listen"
	if ctx.Err() != nil || d.ctx.Err() != nil {
		return d.failed(ctx, what, context.Canceled)
	}
	l := &listener{changed}
	d.hub.add(l)
	defer d.hub.remove(l)
	for {
		changed(store.ID{}, 0) // what is not notified of may have been missed
		pause := lookAlone
		if d.hub.notified.Load() {
			pause = d.look
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return d.failed(ctx, what, ctx.Err())
		case <-d.ctx.Done():
			return d.failed(ctx, what, context.Canceled)
		}
	}
}

// listen hears what other processes say while there are listeners, until the store is closed.
func (d *database) listen() {
	growing := backoff.NewExponentialBackOff()
	growing.InitialInterval, growing.MaxInterval = 50*time.Millisecond, 5*time.Second
	for {
		if d.hub.empty() {
			select {
			case <-d.hub.came:
				continue
			case <-d.ctx.Done():
				return
			}
		}
		heard, err := d.hearAll()
		d.hub.notified.Store(false)
		pause := growing.NextBackOff()
		switch {
		case err == nil: // there are no listeners any more
			growing.Reset()
			continue
		case errors.Is(err, errPooled):
			pause = lookForServer
		case heard:
			growing.Reset()
			pause = growing.NextBackOff()
		}
		d.hub.call(store.ID{}, 0)
		select {
		case <-time.After(pause):
		case <-d.ctx.Done():
			return
		}
	}
}

var errPooled = errors.New("postgres: a pooler is in between")

// hearAll listens on a connection of its own until there are no listeners any more, and reports whether
// it came to listening. Without listeners the connection stays for a while.
func (d *database) hearAll() (heard bool, err error) {
	connecting, cancel := context.WithTimeout(d.ctx, d.patience)
	defer cancel()
	config := d.pool.Config().ConnConfig
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(connecting, config)
	if err != nil {
		return false, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if shared, err := pooled(connecting, conn); err != nil {
		return false, err
	} else if shared {
		return false, errPooled
	}
	if _, err := conn.Exec(connecting, `SELECT set_config('application_name', $1::text, false)`, config.RuntimeParams["application_name"]+" (listening)"); err != nil {
		return false, err
	}
	if _, err := conn.Exec(connecting, "LISTEN "+channel); err != nil {
		return false, err
	}
	d.hub.notified.Store(true)
	d.hub.call(store.ID{}, 0) // for what was said before
	for {
		ctx, cancel := context.WithTimeout(d.ctx, d.quiet)
		message, err := conn.WaitForNotification(ctx)
		quiet := ctx.Err() != nil
		cancel()
		switch {
		case err == nil:
			d.hear(message.Payload)
		case d.ctx.Err() != nil || !quiet:
			return true, err
		case d.hub.empty():
			return true, nil
		default:
			// Is it quiet, or is the connection dead?
			ctx, cancel := context.WithTimeout(d.ctx, d.patience)
			err := conn.Ping(ctx)
			cancel()
			if err != nil {
				return true, err
			}
		}
	}
}
