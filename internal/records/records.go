// Package records keeps what a server remembers of sagas in a [ledger.Store]: typed records,
// sealed with the server's keys, under names that tell nothing.
//
// Make a [Book] with [New]. [Book.Saga] finds the record of a saga, [Book.Put] writes it unless
// somebody else has written it meanwhile, and [Book.Take] gives those to a worker whose time has
// come; [Book.List] shows operators what waits. The package knows what is in a record, but no
// code of tools and no protocol.
package records

import (
	"bytes"
	"context"
	"encoding"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// Errors of a [Book]. A context that has ended is reported as such; a record that is too
// large as [ledger.ErrTooLarge].
var (
	// ErrConflict: somebody else has changed the record. Load it again.
	ErrConflict = errors.New("records: the record has changed")
	// ErrUnavailable: the store cannot be reached or has failed, or the record cannot be
	// read here ([ErrUnreadable]). The same may succeed later, or on another replica.
	ErrUnavailable = errors.New("the ledger cannot be used at present")
	// ErrSlow is for [context.WithTimeoutCause]: the store has not answered in time.
	ErrSlow = fmt.Errorf("%w: it has not answered in time", ErrUnavailable)
	// ErrUnreadable: the record was sealed with a key that is not enabled here, was written
	// by a newer program, or was altered.
	ErrUnreadable = fmt.Errorf("%w: a record cannot be read here", ErrUnavailable)
	// ErrFull: the principal has as many records as it may have.
	ErrFull = errors.New("the caller has too many sagas that the server must remember")
)

// Book is the records of one audience in a store, readable with one keyset. It is safe for
// concurrent use.
type Book struct {
	store    ledger.Store
	keys     func() *codec.Keyset
	audience string
	names    names
	limit    int
	recent   recent
	opened   opened
	clock    clock
	rooms    sync.Pool // of *[]byte, to encode in
	reads    patience
	writes   patience
	identity atomic.Pointer[[]byte] // once it is known

	mu     sync.Mutex
	counts map[string]count // by owner
}

// DefaultLimit is how many records a principal may have, unless configured. Sagas that are
// over are not counted.
const DefaultLimit = 100_000

// New returns the records of an audience. keys returns the keyset in use. limit is how many
// records a principal may have; zero means [DefaultLimit], and less any number.
func New(store ledger.Store, keys func() *codec.Keyset, audience string, limit int) *Book {
	if limit == 0 {
		limit = DefaultLimit
	}
	return &Book{store: store, keys: keys, audience: audience, limit: limit, counts: make(map[string]count)}
}

// Store returns the store that the records are in.
func (b *Book) Store() ledger.Store { return b.store }

// What is sealed is a byte for the format, the binary form of a saga or the JSON of what is
// rarer, and padding as in tokens.
const (
	format      = 1
	paddingMark = 0x80
)

// maxRoom is how much memory is kept to encode in, in bytes.
const maxRoom = 64 << 10

// associated binds a body to its record.
func (b *Book) associated(key string) []byte {
	return b.bind("mcpsaga ledger 1", key)
}

// bind begins what a body is bound to.
func (b *Book) bind(purpose, key string) []byte {
	room := make([]byte, 0, len(purpose)+len(b.audience)+len(key)+24) // and what lengths and numbers take
	return appendParts(append(room, purpose...), b.audience, key)
}

// seal encodes and encrypts what a record says.
func (b *Book) seal(key string, v any) ([]byte, error) {
	return b.sealBytes(b.associated(key), func(plain []byte) ([]byte, error) {
		plain = append(plain, format)
		if a, ok := v.(encoding.BinaryAppender); ok {
			return a.AppendBinary(plain)
		}
		raw, err := jsonv2.Marshal(v)
		return append(plain, raw...), err
	})
}

// sealBytes pads and encrypts what write appends.
func (b *Book) sealBytes(associated []byte, write func([]byte) ([]byte, error)) ([]byte, error) {
	room, _ := b.rooms.Get().(*[]byte)
	if room == nil {
		room = new([]byte)
	}
	plain, err := write((*room)[:0])
	if err != nil {
		return nil, fmt.Errorf("records: encode: %w", err)
	}
	plain = append(plain, paddingMark)
	plain = append(plain, make([]byte, padded(len(plain))-len(plain))...)
	body, err := b.keys().Encrypt(plain, associated)
	clear(plain) // it must not linger
	if cap(plain) <= maxRoom {
		*room = plain
		b.rooms.Put(room)
	}
	if err != nil {
		return nil, fmt.Errorf("records: seal: %w", err)
	}
	if len(body) > ledger.MaxBody {
		return nil, ledger.ErrTooLarge
	}
	return body, nil
}

// open decrypts and decodes what a record says.
func (b *Book) open(key string, body []byte, v any) error {
	plain, err := b.keys().Decrypt(body, b.associated(key))
	if err != nil {
		return fmt.Errorf("%w: it was sealed with a key that is not enabled, or was altered", ErrUnreadable)
	}
	plain = bytes.TrimRight(plain, "\x00")
	if len(plain) < 2 || plain[0] != format || plain[len(plain)-1] != paddingMark {
		return fmt.Errorf("%w: a newer program wrote it", ErrUnreadable)
	}
	plain = plain[1 : len(plain)-1]
	if u, ok := v.(encoding.BinaryUnmarshaler); ok {
		err = u.UnmarshalBinary(plain)
	} else {
		err = jsonv2.Unmarshal(plain, v)
	}
	if err != nil {
		return fmt.Errorf("%w: it does not decode", ErrUnreadable)
	}
	return nil
}

// padded is the size to which n bytes are padded (PADMÉ), so that a size tells little.
func padded(n int) int {
	if n < 2 {
		return n
	}
	exponent := bits.Len(uint(n)) - 1
	drop := max(0, exponent-bits.Len(uint(exponent)))
	mask := 1<<drop - 1
	return (n + mask) &^ mask
}

// load returns a record of the store, or nil if there is none.
func (b *Book) load(ctx context.Context, key string) (*ledger.Record, error) {
	r, err := insist(ctx, &b.reads, func() (*ledger.Record, error) { return b.store.Load(ctx, key) })
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	return r, nil
}

// How often, and how soon, a swap is settled of which the store does not know whether it was
// made.
const (
	settleTries = 5
	settlePause = 20 * time.Millisecond
)

// swap writes a record and its items. If the store does not know whether it has done so, the same is sent
// again: the two differ in nothing and are for one revision, so that only one of them can be
// made, however late the other arrives. What is then found at the revision after is compared.
func (b *Book) swap(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
	sent := false // and of unknown outcome
	var last error
	for try := range settleTries {
		if try > 0 {
			select {
			case <-ctx.Done():
				return unavailable(ctx, last)
			case <-time.After(settlePause << try):
			}
		}
		_, err := insist(ctx, &b.writes, func() (any, error) {
			err := b.store.Swap(ctx, r, items...)
			sent = sent || errors.Is(err, ledger.ErrUnknown)
			return nil, err
		})
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ledger.ErrTooLarge):
			return ledger.ErrTooLarge
		case sent:
		case errors.Is(err, ledger.ErrConflict):
			return ErrConflict
		default:
			return unavailable(ctx, err)
		}
		last = err
		found, err := b.load(ctx, r.Key)
		switch {
		case err != nil:
			last = err
		case found != nil && bytes.Equal(found.Body, r.Body):
			r.Rev = found.Rev // or more: a worker may have taken it since
			return nil
		case (found == nil && r.Rev != 0) || (found != nil && found.Rev != r.Rev):
			return ErrConflict
		}
	}
	return unavailable(ctx, last)
}

// unavailable says that the store failed, or that nobody waits for it any more.
func unavailable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("ledger: %w", context.Cause(ctx))
	}
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// count is how many records an owner has, as far as it is known.
type count struct {
	n     int
	found int // when it was counted
	at    time.Time
}

// Counting is done anew after so long, for so many owners at most.
const (
	countFor  = 10 * time.Second
	countMost = 10_000
)

// room fails if an owner may have no more records. An owner at the limit is refused for some
// seconds more.
func (b *Book) room(ctx context.Context, owner string) error {
	if b.limit < 0 {
		return nil
	}
	_, err := b.countIn(ctx, owner, b.limit, func(count) bool { return false })
	return err
}

// countIn fails if an owner has as many records as limit, and counts one more otherwise. What other
// replicas have made or ended since it was counted last is not seen, so the limit may be exceeded
// a little. A count that is stale is made anew, as an old one is. It returns how many there are then.
func (b *Book) countIn(ctx context.Context, owner string, limit int, stale func(count) bool) (int, error) {
	b.mu.Lock()
	c, known := b.counts[owner]
	b.mu.Unlock()
	if !known || time.Since(c.at) > countFor || stale(c) {
		n, err := insist(ctx, &b.reads, func() (int, error) { return b.store.Count(ctx, owner, limit) })
		if err != nil {
			return 0, unavailable(ctx, err)
		}
		c = count{n: n, found: n, at: time.Now()}
	}
	full := c.n >= limit
	if !full {
		c.n++
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.counts) >= countMost {
		clear(b.counts)
	}
	b.counts[owner] = c
	if full {
		return c.n, ErrFull
	}
	return c.n, nil
}

// take takes records of the targets' queues, whose names queues returns.
func (b *Book) take(ctx context.Context, targets []Target, queues func(Target) ([]string, error), limit int, lease time.Duration) ([]*ledger.Record, error) {
	var all []string
	for _, t := range targets {
		names, err := queues(t)
		if err != nil {
			return nil, err
		}
		all = append(all, names...)
	}
	found, err := b.store.Take(ctx, ledger.Take{Queues: all, Limit: limit, Lease: lease})
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	return found, nil
}

// readable returns what can be read of the records.
func readable[E any](found []*ledger.Record, read func(*ledger.Record) (E, error)) (list []E) {
	for _, r := range found {
		if e, err := read(r); err == nil {
			list = append(list, e)
		}
	}
	return list
}

// Forget removes records that nobody needs any more, as many as there are, some at a time,
// and returns how many.
func (b *Book) Forget(ctx context.Context) (sum int, err error) {
	const batch = 1000
	for {
		n, err := b.store.Forget(ctx, batch)
		sum += n
		if err != nil {
			return sum, unavailable(ctx, err)
		}
		if n < batch {
			return sum, nil
		}
	}
}
