package postgres

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

const (
	// channel is what processes notify one another on.
	channel = "mcpsaga_ledger"
	// mostWords is how many words of 48 bytes a message has: PostgreSQL allows 7999 bytes.
	mostWords = 160
	// lookAlone is how often listeners look for themselves while the server does not notify.
	lookAlone = 500 * time.Millisecond
	// lookForServer is how often it is tried whether the server can be listened to
	// directly, after there was a pooler.
	lookForServer = time.Minute
)

// listener is a caller of Listen.
type listener struct{ changed func(store.ID, uint64) }

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

// call calls all listeners.
func (d *database) call(id store.ID, head uint64) {
	d.listening.Lock()
	defer d.listening.Unlock()
	for l := range d.listeners {
		l.changed(id, head)
	}
}

// changed calls those in this process who listen, and has others notified, of a write.
func (d *database) changed(id store.ID, head uint64) {
	d.call(id, head)
	d.outbox.add(id, head)
}

// An outbox gathers what other processes are to be notified of.
type outbox struct {
	self string        // the sender, which does not listen to itself
	full chan struct{} // has something when there is something to send

	mu    sync.Mutex
	heads map[store.ID]uint64 // with the zero ID if anything may have changed
}

func (o *outbox) add(id store.ID, head uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.heads[id] = max(o.heads[id], head)
	poke(o.full)
}

// messages empties the outbox into as few messages as they fit into.
func (o *outbox) messages() (list []string) {
	o.mu.Lock()
	heads := o.heads
	o.heads = map[store.ID]uint64{}
	o.mu.Unlock()
	words := make([]string, 0, len(heads))
	for id, head := range heads {
		words = append(words, hex.EncodeToString(binary.BigEndian.AppendUint64(id[:], head)))
	}
	for some := range slices.Chunk(words, mostWords) {
		list = append(list, o.self+" "+strings.Join(some, " "))
	}
	return list
}

// notify notifies other processes of changes until the store is closed, and then of the last.
func (d *database) notify() {
	for closed := false; !closed; {
		select {
		case <-d.outbox.full:
		case <-d.ctx.Done():
			closed = true
		}
		ctx, cancel := d.late(d.ctx)
		pause := d.gather
		if _, err := d.pool.Exec(ctx, `SELECT pg_notify($1::text, message) FROM unnest($2::text[]) AS message`, channel, d.outbox.messages()); err != nil {
			d.outbox.add(store.ID{}, 0) // some may have been lost
			pause = d.look
		}
		cancel()
		d.sleep(pause)
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
		err := d.hear()
		if d.notified.Swap(false) {
			growing.Reset()
			d.call(store.ID{}, 0)
		}
		pause := growing.NextBackOff()
		if errors.Is(err, errPooled) {
			pause = lookForServer
		}
		d.sleep(pause)
	}
}

var errPooled = errors.New("postgres: a pooler is in between")

// hear passes on what other processes say, on a connection of its own, until that fails.
func (d *database) hear() error {
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
		message, err := conn.WaitForNotification(d.ctx)
		if err != nil {
			return err
		}
		from, words, _ := strings.Cut(message.Payload, " ")
		for word := range strings.FieldsSeq(words) {
			raw, err := hex.DecodeString(word)
			if err == nil && len(raw) == 24 && from != d.outbox.self { // else listeners were called already
				d.call(store.ID(raw[:16]), binary.BigEndian.Uint64(raw[16:]))
			}
		}
	}
}

// sleep waits for a while, or until the store is closed.
func (d *database) sleep(pause time.Duration) {
	select {
	case <-time.After(pause):
	case <-d.ctx.Done():
	}
}

// poke leaves something in a channel that holds one thing.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
