package postgres

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// channel is what processes notify one another on.
const channel = "mcpsaga_ledger"

const (
	// mostWords is how many words of 48 bytes a message has: PostgreSQL allows 7999 bytes.
	mostWords = 160
	// mostChanges is of how many changes others are notified at once. Where there are more, they are
	// notified that anything may have changed.
	mostChanges = 20_000
)

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
	if o.heads == nil {
		o.heads = map[store.ID]uint64{}
	}
	if len(o.heads) < mostChanges {
		o.heads[id] = max(o.heads[id], head)
	} else {
		o.heads[store.ID{}] = 0
	}
	poke(o.full)
}

// messages empties the outbox into as few messages as they fit into.
func (o *outbox) messages() (list []string) {
	o.mu.Lock()
	heads := o.heads
	o.heads = nil
	o.mu.Unlock()
	if _, any := heads[store.ID{}]; any {
		heads = map[store.ID]uint64{{}: 0} // which says it all
	}
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
	for {
		select {
		case <-d.outbox.full:
		case <-d.ctx.Done():
			d.send()
			return
		}
		pause := d.gather
		if d.send() != nil {
			d.outbox.add(store.ID{}, 0) // some may have been lost
			pause = d.look
		}
		select {
		case <-time.After(pause):
		case <-d.ctx.Done():
		}
	}
}

// send sends what is in the outbox.
func (d *database) send() error {
	messages := d.outbox.messages()
	if len(messages) == 0 {
		return nil
	}
	ctx, cancel := d.late(d.ctx)
	defer cancel()
	_, err := d.pool.Exec(ctx, `SELECT pg_notify($1::text, message) FROM unnest($2::text[]) AS message`, channel, messages)
	return err
}

// hear passes a message of another process on to those who listen.
func (d *database) hear(message string) {
	words := strings.Split(message, " ")
	if words[0] == d.outbox.self {
		return // they were called already
	}
	for _, word := range words[1:] {
		if raw, err := hex.DecodeString(word); err == nil && len(raw) == 24 { // else it is of a newer program
			d.call(store.ID(raw[:16]), binary.BigEndian.Uint64(raw[16:]))
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
