package records

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"sync"

	"github.com/mcpsaga/mcpsaga/codec"
)

// Target is what queues are for: a tool, prompt or resource, by the name that tokens have for
// it, in one revision.
type Target struct {
	Name     string `json:"name"`
	Revision uint32 `json:"revision"`
}

// appendParts appends each part with its length.
func appendParts(dst []byte, parts ...string) []byte {
	for _, part := range parts {
		dst = binary.AppendUvarint(dst, uint64(len(part)))
		dst = append(dst, part...)
	}
	return dst
}

func nameOf(sum []byte) string {
	var room [64]byte
	return string(base64.RawURLEncoding.AppendEncode(room[:0], sum))
}

// plainName is a name made of something that cannot be guessed.
func (b *Book) plainName(kind string, parts ...string) string {
	var room [256]byte
	sum := sha256.Sum256(appendParts(appendParts(room[:0], "mcpsaga record 1", kind, b.audience), parts...))
	return nameOf(sum[:])
}

// names are the keys of keyed hashes, for names made of what can be guessed.
type names struct {
	mu  sync.Mutex
	of  *codec.Keyset
	all []*nameKey // the one that names are made with first
	// made are names that were made with them of late, which cost more than to look them up.
	made map[string][]string
}

// nameKey is the key of keyed hashes.
type nameKey struct {
	key  []byte
	macs sync.Pool // of hash.Hash, as to make one costs as much as to use it
}

// name returns the name of a message.
func (k *nameKey) name(message []byte) string {
	h, _ := k.macs.Get().(hash.Hash)
	if h == nil {
		h = hmac.New(sha256.New, k.key)
	}
	defer k.macs.Put(h)
	h.Reset()
	h.Write(message)
	var room [sha256.Size]byte
	return nameOf(h.Sum(room[:0]))
}

// Bounds of names.made: how many there are, and how long what they are made of is. Clients choose
// some of it.
const (
	mostMade    = 1024
	longestMade = 512
)

// nameKeys returns a key for each key of the keyset. The first is that of the oldest that is
// enabled: every replica has it while keys are rotated, so all make the same names. Names are
// looked up under all keys, also under disabled ones, with which some may still be made.
func (b *Book) nameKeys() ([]*nameKey, error) {
	keys := b.keys()
	n := &b.names
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of == keys {
		return n.all, nil
	}
	var first, rest []*nameKey
	for _, info := range keys.Keys() {
		key, err := keys.Derive(info.ID, "names in a ledger")
		if err != nil {
			return nil, err
		}
		if first == nil && info.Enabled {
			first = []*nameKey{{key: key}}
		} else {
			rest = append(rest, &nameKey{key: key})
		}
	}
	n.of, n.all, n.made = keys, append(first, rest...), make(map[string][]string)
	return n.all, nil
}

// often is keyedNames for what is asked for again and again. The list is not to be changed.
func (b *Book) often(kind string, parts ...string) ([]string, error) {
	return b.oftenBy((*Book).keyedNames, kind, parts...)
}

// oftenBy is often for names that are made in this way.
func (b *Book) oftenBy(names func(*Book, string, ...string) ([]string, error), kind string, parts ...string) ([]string, error) {
	if _, err := b.nameKeys(); err != nil {
		return nil, err
	}
	var room [256]byte
	of := appendParts(appendParts(room[:0], kind), parts...)
	n := &b.names
	n.mu.Lock()
	list, made := n.made[string(of)], n.made
	n.mu.Unlock()
	if list != nil {
		return list, nil
	}
	list, err := names(b, kind, parts...)
	if err != nil || len(of) > longestMade {
		return list, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(made) >= mostMade {
		clear(made)
	}
	made[string(of)] = list
	return list, nil
}

// keyedNames returns the names of something: the one to make first, then others under which
// it may have been made.
func (b *Book) keyedNames(kind string, parts ...string) ([]string, error) {
	keys, err := b.nameKeys()
	if err != nil {
		return nil, err
	}
	return b.namesBy(keys, kind, parts...), nil
}

// namesBy returns the name of something by each of the keys.
func (b *Book) namesBy(keys []*nameKey, kind string, parts ...string) []string {
	message := appendParts(appendParts(make([]byte, 0, 128), kind, b.audience), parts...)
	list := make([]string, len(keys))
	for i, key := range keys {
		list[i] = key.name(message)
	}
	return list
}

// queues returns the names of the queue of a target.
func (b *Book) queues(t Target) ([]string, error) {
	return b.often("queue", t.Name, string(binary.BigEndian.AppendUint32(nil, t.Revision)))
}

// owner returns the name under which a principal's records are counted.
func (b *Book) owner(principal string) (string, error) {
	list, err := b.often("owner", principal)
	if err != nil {
		return "", err
	}
	return list[0], nil
}
