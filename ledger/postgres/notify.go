package postgres

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"
)

// channel is what processes notify one another on.
const channel = "mcpsaga_ledger"

const (
	// mostPayload is how long a message may be; PostgreSQL allows 7999 bytes.
	mostPayload = 7900
	// mostTold is of how many changes others are told at once. They find the rest by
	// looking.
	mostTold = 20_000
)

// A teller gathers what other processes are to be told.
type teller struct {
	self string        // who tells, so that it does not listen to itself
	full chan struct{} // has something when there is something to tell

	mu     sync.Mutex
	keys   map[uint64]struct{}
	queues map[uint64]int64 // and when the first record is due, in microseconds
}

func (t *teller) init() { t.self, t.full = rand.Text()[:10], make(chan struct{}, 1) }

// add gathers a change of the record with the hash key and, unless at is zero, that it is
// due then.
func (t *teller) add(key, queue uint64, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.keys == nil {
		t.keys, t.queues = map[uint64]struct{}{}, map[uint64]int64{}
	}
	if len(t.keys) < mostTold {
		t.keys[key] = struct{}{}
	}
	if !at.IsZero() {
		if first, ok := t.queues[queue]; !ok || at.UnixMicro() < first {
			t.queues[queue] = at.UnixMicro()
		}
	}
	poke(t.full)
}

// messages empties the teller into as few messages as they fit into.
func (t *teller) messages() (list []string) {
	t.mu.Lock()
	keys, queues := t.keys, t.queues
	t.keys, t.queues = nil, nil
	t.mu.Unlock()
	var b strings.Builder
	put := func(word string) {
		if b.Len()+1+len(word) > mostPayload {
			list = append(list, b.String())
			b.Reset()
		}
		if b.Len() == 0 {
			b.WriteString(t.self)
		}
		b.WriteByte(' ')
		b.WriteString(word)
	}
	for key := range maps.Keys(keys) {
		put(short(key))
	}
	for queue, at := range queues {
		put(short(queue) + ":" + strconv.FormatInt(at, 36))
	}
	if b.Len() > 0 {
		list = append(list, b.String())
	}
	return list
}

// short writes a hash.
func short(h uint64) string {
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, h))
}

// announce tells other processes of changes until the store is closed. What fails here is
// not repeated: a process that is not told looks by itself.
func (s *store) announce() {
	for {
		select {
		case <-s.tell.full:
		case <-s.ctx.Done():
			return
		}
		ctx, cancel := s.bound(context.Background())
		for _, message := range s.tell.messages() {
			if _, err := s.pool.Exec(ctx, `SELECT pg_notify($1::text, $2::text)`, channel, message); err != nil {
				break
			}
		}
		cancel()
		select {
		case <-time.After(s.gather):
		case <-s.ctx.Done():
			return
		}
	}
}

// hear passes a message of another process on to those who wait.
func (s *store) hear(message string) {
	words := strings.Split(message, " ")
	if words[0] == s.tell.self {
		return // they have been told
	}
	for _, word := range words[1:] {
		name, at, queue := strings.Cut(word, ":")
		raw, err := base64.RawURLEncoding.DecodeString(name)
		if err != nil || len(raw) != 8 {
			continue // of a newer program, perhaps
		}
		h := binary.BigEndian.Uint64(raw)
		if !queue {
			s.hub.change(h)
		} else if micros, err := strconv.ParseInt(at, 36, 64); err == nil {
			s.hub.due(h, time.UnixMicro(micros))
		}
	}
}
