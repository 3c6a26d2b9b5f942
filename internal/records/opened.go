package records

import (
	"bytes"
	"sync"

	"github.com/mcpsaga/mcpsaga/codec"
)

const (
	// openedMost is how many records are remembered at least, and at most twice as many.
	openedMost = 128
	// openedBytes is how large they are at most.
	openedBytes = 8 << 10
)

// opened remembers what the records of tasks say that this process has read or written last: each
// question of a call has its record read several times, and to decrypt it is most of what that
// costs. A store is not trusted with it: what it returns must be, byte for byte, what was opened
// under that name before.
type opened struct {
	mu         sync.Mutex
	keys       *codec.Keyset // they were opened with; with other keys none is remembered
	young, old map[string]openedBody
}

type openedBody struct{ sealed, plain []byte }

// find returns what is sealed in the body of a record; nil if that is not known. It is not to be
// changed.
func (o *opened) find(keys *codec.Keyset, key string, sealed []byte) []byte {
	o.mu.Lock()
	if o.keys != keys {
		o.keys, o.young, o.old = keys, nil, nil
	}
	known, ok := o.young[key]
	if !ok {
		known = o.old[key]
	}
	o.mu.Unlock()
	if known.sealed == nil || !bytes.Equal(known.sealed, sealed) {
		return nil
	}
	return known.plain
}

// note remembers what is sealed in the body of a record. Nobody changes either any more.
func (o *opened) note(keys *codec.Keyset, key string, sealed, plain []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.keys != keys {
		return
	}
	delete(o.old, key)
	delete(o.young, key)
	if len(sealed) > openedBytes {
		return
	}
	if o.young == nil || len(o.young) >= openedMost {
		o.young, o.old = make(map[string]openedBody), o.young
	}
	o.young[key] = openedBody{sealed, plain}
}
