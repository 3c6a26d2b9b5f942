package postgres

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
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
	// lookAlone is how often listeners look for themselves while the server does not notify. While it does, they would read
	// everything again and again for the process that dies between its write and the notification.
	lookAlone = 500 * time.Millisecond
)

func (d *database) Listen(ctx context.Context, changed func(id store.ID, head uint64)) error {
	const what = "listen"
	if err := cmp.Or(ctx.Err(), d.ctx.Err()); err != nil {
		return d.failed(ctx, what, err)
	}
	defer d.listeners.Add(changed)()
	poke(d.came)
	changed(store.ID{}, 0) // what was written before may have been missed
	for {
		select {
		case <-time.After(lookAlone):
			if !d.notified.Load() {
				changed(store.ID{}, 0)
			}
		case <-ctx.Done():
			return d.failed(ctx, what, ctx.Err())
		case <-d.ctx.Done():
			return d.failed(ctx, what, d.ctx.Err())
		}
	}
}

// changed calls those in this process who listen, and has others notified, of a write.
func (d *database) changed(id store.ID, head uint64) {
	d.listeners.Tell(id, head)
	d.gathering.Lock()
	defer d.gathering.Unlock()
	d.heads[id] = max(d.heads[id], head)
	poke(d.full)
}

// gathered returns messages about what has changed since it was last called, as few as it fits into.
func (d *database) gathered() (messages []string) {
	d.gathering.Lock()
	heads := d.heads
	d.heads = map[store.ID]uint64{}
	d.gathering.Unlock()
	words := make([]string, 0, len(heads))
	for id, head := range heads {
		words = append(words, hex.EncodeToString(binary.BigEndian.AppendUint64(id[:], head)))
	}
	for some := range slices.Chunk(words, mostWords) {
		messages = append(messages, d.self+" "+strings.Join(some, " "))
	}
	return messages
}

// notify notifies other processes of changes until the store is closed, and then of the last.
func (d *database) notify() {
	for closed := false; !closed; {
		select {
		case <-d.full:
		case <-d.ctx.Done():
			closed = true
		}
		ctx, cancel := d.late(d.ctx)
		pause := d.gather
		if _, err := d.pool.Exec(ctx, `SELECT pg_notify($1::text, message) FROM unnest($2::text[]) AS message`, channel, d.gathered()); err != nil {
			d.changed(store.ID{}, 0) // others may have missed some
			pause = time.Second
		}
		cancel()
		select {
		case <-time.After(pause):
		case <-d.ctx.Done():
		}
	}
}

// listen hears what other processes say, from the first listener on, unless there is a pooler.
func (d *database) listen() {
	select {
	case <-d.came:
	case <-d.ctx.Done():
	}
	growing := backoff.NewExponentialBackOff()
	growing.InitialInterval, growing.MaxInterval = 50*time.Millisecond, 5*time.Second
	for d.ctx.Err() == nil {
		if pooled := d.hear(); pooled {
			return
		}
		if d.notified.Swap(false) {
			growing.Reset()
			d.listeners.Tell(store.ID{}, 0)
		}
		select {
		case <-time.After(growing.NextBackOff()):
		case <-d.ctx.Done():
		}
	}
}

// hear passes on what other processes say, on a connection of its own, until that fails. It reports whether there
// is a pooler in between.
func (d *database) hear() (pooled bool) {
	connecting, cancel := context.WithTimeout(d.ctx, d.patience)
	defer cancel()
	config := d.pool.Config().ConnConfig
	config.DefaultQueryExecMode = unprepared
	config.RuntimeParams["application_name"] += " (listening)"
	conn, err := pgx.ConnectConfig(connecting, config)
	if err != nil {
		return false
	}
	defer func() {
		ctx, cancel := d.late(d.ctx)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if _, pid, err := seen(conn.QueryRow(connecting, look)); err != nil || pid != conn.PgConn().PID() {
		return err == nil
	}
	if _, err := conn.Exec(connecting, "LISTEN "+channel); err != nil {
		return false
	}
	d.notified.Store(true)
	d.listeners.Tell(store.ID{}, 0) // for what was said before
	for {
		message, err := conn.WaitForNotification(d.ctx)
		if err != nil {
			return false
		}
		from, words, _ := strings.Cut(message.Payload, " ")
		for word := range strings.FieldsSeq(words) {
			raw, err := hex.DecodeString(word)
			if err == nil && len(raw) == 24 && from != d.self { // else listeners were called already
				d.listeners.Tell(store.ID(raw[:16]), binary.BigEndian.Uint64(raw[16:]))
			}
		}
	}
}

// poke leaves something in a channel that holds one thing.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
