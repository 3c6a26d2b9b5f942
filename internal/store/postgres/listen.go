package postgres

import (
	"cmp"
	"context"
	"errors"
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

// listener is a caller of Listen.
type listener struct{ changed func(store.ID, uint64) }

// call calls all listeners.
func (d *database) call(id store.ID, head uint64) {
	d.listening.Lock()
	defer d.listening.Unlock()
	for l := range d.listeners {
		l.changed(id, head)
	}
}

func (d *database) Listen(ctx context.Context, changed func(id store.ID, head uint64)) error {
	const what = "listen"
	if err := cmp.Or(ctx.Err(), d.ctx.Err()); err != nil {
		return d.failed(ctx, what, err)
	}
	l := &listener{changed}
	d.listening.Lock()
	d.listeners[l] = true
	d.listening.Unlock()
	poke(d.came)
	defer func() {
		d.listening.Lock()
		defer d.listening.Unlock()
		delete(d.listeners, l)
	}()
	for {
		changed(store.ID{}, 0) // what is not notified of may have been missed
		pause := lookAlone
		if d.notified.Load() {
			pause = d.look
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return d.failed(ctx, what, ctx.Err())
		case <-d.ctx.Done():
			return d.failed(ctx, what, d.ctx.Err())
		}
	}
}

// listen hears what other processes say, from the first listener on until the store is closed.
func (d *database) listen() {
	select {
	case <-d.came:
	case <-d.ctx.Done():
	}
	growing := backoff.NewExponentialBackOff()
	growing.InitialInterval, growing.MaxInterval = 50*time.Millisecond, 5*time.Second
	for d.ctx.Err() == nil {
		err := d.hearAll()
		if d.notified.Swap(false) {
			growing.Reset()
			d.call(store.ID{}, 0)
		}
		pause := growing.NextBackOff()
		if errors.Is(err, errPooled) {
			pause = lookForServer
		}
		select {
		case <-time.After(pause):
		case <-d.ctx.Done():
		}
	}
}

var errPooled = errors.New("postgres: a pooler is in between")

// hearAll listens on a connection of its own, until that fails.
func (d *database) hearAll() error {
	connecting, cancel := context.WithTimeout(d.ctx, d.patience)
	defer cancel()
	config := d.pool.Config().ConnConfig
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.RuntimeParams["application_name"] += " (listening)"
	conn, err := pgx.ConnectConfig(connecting, config)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), grace)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if _, pid, err := look(connecting, conn); err != nil || pid != conn.PgConn().PID() {
		return cmp.Or(err, errPooled)
	}
	if _, err := conn.Exec(connecting, "LISTEN "+channel); err != nil {
		return err
	}
	d.notified.Store(true)
	d.call(store.ID{}, 0) // for what was said before
	for {
		ctx, cancel := context.WithTimeout(d.ctx, d.quiet)
		message, err := conn.WaitForNotification(ctx)
		quiet := ctx.Err() != nil
		cancel()
		if err == nil {
			d.hear(message.Payload)
			continue
		}
		if !quiet {
			return err
		}
		// Is it quiet, or is the connection dead?
		ctx, cancel = context.WithTimeout(d.ctx, d.patience)
		err = conn.Ping(ctx)
		cancel()
		if err != nil {
			return err
		}
	}
}
