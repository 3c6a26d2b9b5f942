package records

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// News is what replicas tell each other: the newest changes that clients may want to hear of,
// and the sessions of which the records have changed. It says only that there is something to
// look at, so who has missed something can look at everything instead. Not so the requests that
// clients have cancelled: a replica that has missed one does what nobody waits for.
type News struct {
	// Epoch is drawn at random when the record is made: numbers of others mean nothing.
	Epoch uint64 `json:"epoch"`
	// Last is the number of the newest item.
	Last     uint64 `json:"last"`
	Changes  Ring   `json:"changes"`
	Sessions Ring   `json:"sessions"`
	// Cancelled are requests that the replica does not know which was told so.
	Cancelled Ring `json:"cancelled,omitzero"`

	key string
	rev uint64
}

// Ring has the newest items of a kind, by number.
type Ring struct {
	// Floor is the number of the newest item that is not there any more, or never was, as
	// there were too many.
	Floor uint64     `json:"floor,omitzero"`
	Items []NewsItem `json:"items,omitzero"`
}

// NewsItem is one of the news.
type NewsItem struct {
	N    uint64 `json:"n"`
	By   string `json:"by"` // the process that has told it
	Kind uint8  `json:"kind,omitzero"`
	Of   string `json:"of,omitzero"` // valid UTF-8
}

// What the news have room for. Larger rings would be slower to write; what was pushed out is
// made up for by telling everybody of everything.
const (
	MaxNews      = 512
	MaxNewsBytes = 64 << 10
	// MaxCancelled bounds News.Cancelled, which is of interest for a moment only.
	MaxCancelled = 64
)

// Position is a number in an epoch of the news: all up to it have been told. The zero value is
// no position.
type Position struct {
	Epoch uint64 `json:"e,omitzero"`
	N     uint64 `json:"n,omitzero"`
}

// Position returns where the news end.
func (n *News) Position() Position { return Position{n.Epoch, n.Last} }

// NewsNames returns the names of the news: the one to write first, then others that replicas
// may write while keys are rotated.
func (b *Book) NewsNames() ([]string, error) { return b.often("news") }

// WatchNews yields the news with that name, beginning with the present ones, each time that
// they have changed. News that cannot be read here are others than all before.
func (b *Book) WatchNews(ctx context.Context, name string) iter.Seq2[*News, error] {
	return func(yield func(*News, error) bool) {
		for r, err := range b.store.Watch(ctx, name, 0) {
			if err != nil {
				yield(nil, unavailable(ctx, err))
				return
			}
			if !yield(b.newsOf(r), nil) {
				return
			}
		}
	}
}

func (b *Book) newsOf(r *ledger.Record) *News {
	n := &News{key: r.Key}
	if b.open(r.Key, r.Body, n) != nil {
		*n = News{key: r.Key, Epoch: rand.Uint64()}
	}
	n.rev = r.Rev
	return n
}

// newsTries is how often news are written that others are ahead of.
const newsTries = 20

// Telling is what a process has to tell.
type Telling struct {
	By                string
	Changes, Sessions []NewsItem // without numbers
	Cancelled         []NewsItem
	// ChangesLost and SessionsLost say that there was more than is listed.
	ChangesLost, SessionsLost bool
}

// Tell writes news. It begins with those known, or with nil, and returns what they are then.
func (b *Book) Tell(ctx context.Context, name string, known *News, t Telling) (*News, error) {
	for try := range newsTries {
		if known == nil || known.key != name {
			r, err := b.load(ctx, name)
			switch {
			case err != nil:
				return nil, err
			case r == nil:
				known = &News{Epoch: rand.Uint64(), key: name}
			default:
				known = b.newsOf(r)
			}
		}
		next := *known
		next.Last = next.Changes.add(next.Last, t.By, t.Changes, t.ChangesLost)
		next.Last = next.Sessions.add(next.Last, t.By, t.Sessions, t.SessionsLost)
		next.Last = next.Cancelled.add(next.Last, t.By, t.Cancelled, false)
		next.Cancelled.Items = next.Cancelled.Items[max(0, len(next.Cancelled.Items)-MaxCancelled):]
		body, err := b.seal(name, &next)
		if err != nil {
			return nil, err
		}
		r := &ledger.Record{Key: name, Rev: next.rev, Body: body} // kept for ever: there is one
		switch err = b.swap(ctx, r); {
		case err == nil:
			next.rev = r.Rev
			return &next, nil
		case !errors.Is(err, ErrConflict):
			return nil, err
		}
		known = nil
		if err := pause(ctx, try); err != nil {
			return nil, err
		}
	}
	return nil, ErrConflict
}

// add puts items into the ring, and returns the number of the newest. What the same process
// has told before is not there twice; of another's it is, since nobody knows who has heard of
// which.
func (r *Ring) add(last uint64, by string, items []NewsItem, lost bool) uint64 {
	said := make(map[NewsItem]struct{}, len(items))
	for _, i := range items {
		said[NewsItem{By: by, Kind: i.Kind, Of: i.Of}] = struct{}{}
	}
	list := make([]NewsItem, 0, len(r.Items)+len(items))
	for _, i := range r.Items {
		if _, again := said[NewsItem{By: i.By, Kind: i.Kind, Of: i.Of}]; !again {
			list = append(list, i)
		}
	}
	for _, i := range items {
		last++
		list = append(list, NewsItem{N: last, By: by, Kind: i.Kind, Of: i.Of})
	}
	if lost {
		last++
		r.Floor = last
		list = nil
	}
	size := 0
	for _, i := range list {
		size += len(i.Of)
	}
	for len(list) > MaxNews || size > MaxNewsBytes {
		r.Floor = list[0].N
		size -= len(list[0].Of)
		list = list[1:]
	}
	r.Items = list
	return last
}

// After returns the items after a number, and whether there were more, which are lost.
func (r *Ring) After(n uint64) (items []NewsItem, lost bool) {
	i, _ := slices.BinarySearchFunc(r.Items, n, func(item NewsItem, n uint64) int {
		if item.N <= n {
			return -1
		}
		return 1
	})
	return r.Items[i:], r.Floor > n
}

// pause waits a little, at random, so that those who write the same record do not meet again.
func pause(ctx context.Context, try int) error {
	most := min(time.Millisecond<<min(try, 6), 50*time.Millisecond)
	select {
	case <-time.After(rand.N(most) + 1):
		return nil
	case <-ctx.Done():
		return unavailable(ctx, ctx.Err())
	}
}

// Positions are shown to clients as one encrypted block: how much changes on a server is
// nobody's business. A block that somebody has made up opens as a position in no epoch.

// ShowPosition returns a position as clients may see it: 26 letters and digits.
func (b *Book) ShowPosition(p Position) (string, error) {
	c, err := b.positionCipher()
	if err != nil {
		return "", err
	}
	var block [aes.BlockSize]byte
	binary.BigEndian.PutUint64(block[:], p.Epoch)
	binary.BigEndian.PutUint64(block[8:], p.N)
	c.Encrypt(block[:], block[:])
	return shownEncoding.EncodeToString(block[:]), nil
}

var shownEncoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// shownLength is that of a position as clients see it.
const shownLength = 26

// ReadPosition reads what [Book.ShowPosition] has returned, here or elsewhere. Anything else is
// no position, or one in no epoch.
func (b *Book) ReadPosition(shown string) (p Position) {
	if len(shown) != shownLength {
		return p
	}
	block, err := shownEncoding.DecodeString(shown)
	if err != nil {
		return p
	}
	c, err := b.positionCipher()
	if err != nil {
		return p
	}
	c.Decrypt(block, block)
	return Position{binary.BigEndian.Uint64(block), binary.BigEndian.Uint64(block[8:])}
}

// positionCipher encrypts positions under the oldest key that is enabled, as all replicas do.
func (b *Book) positionCipher() (cipher.Block, error) {
	keys, err := b.nameKeys()
	if err != nil {
		return nil, err
	}
	h := hmac.New(sha256.New, keys[0].key)
	h.Write(appendParts(nil, "shown position", b.audience))
	return aes.NewCipher(h.Sum(nil))
}
