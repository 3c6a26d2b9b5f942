package records

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// What is remembered of what was written is what waits, and bounded in number and size.
func TestRecent(t *testing.T) {
	keys, err := codec.NewKeyset()
	if !assert.NoError(t, err) {
		return
	}
	store := ledger.NewMemory(ledger.MemoryOptions{})
	defer store.Close()
	b := New(store, func() *codec.Keyset { return keys }, "here", 0)
	id := func(n int) [16]byte { return [16]byte([]byte(fmt.Sprintf("%016d", n))) }
	put := func(e *Entry) *Entry {
		t.Helper()
		assert.NoError(t, b.Put(t.Context(), e))
		return e
	}
	e := put(b.Fresh("ann", id(0)))
	assert.Same(t, e, b.Recent("ann", id(0)))
	assert.Nil(t, b.Recent("bob", id(0)))
	for name, change := range map[string]func(*Entry){
		"claimed": func(e *Entry) { e.Claim = &Claim{} },
		"ended":   func(e *Entry) { e.Ended = true },
		"large":   func(e *Entry) { e.Token = string(make([]byte, recentBytes+1)) },
	} {
		changed := e.Clone()
		change(changed)
		put(changed)
		assert.Nil(t, b.Recent("ann", id(0)), name)
		again := changed.Clone()
		again.Claim, again.Ended, again.Token = nil, false, ""
		e = put(again)
		assert.Same(t, e, b.Recent("ann", id(0)), name)
	}
	for n := range 3 * recentMost {
		put(b.Fresh("ann", id(n+1)))
		if n < recentMost-1 {
			assert.NotNil(t, b.Recent("ann", id(0)))
		}
	}
	assert.Nil(t, b.Recent("ann", id(0)))
	assert.NotNil(t, b.Recent("ann", id(3*recentMost)))
	assert.LessOrEqual(t, len(b.recent.young)+len(b.recent.old), 2*recentMost)

	// One that is old is forgotten when it is claimed, too.
	e = b.Recent("ann", id(2*recentMost+1)).Clone()
	e.Claim = &Claim{}
	put(e)
	assert.Nil(t, b.Recent("ann", id(2*recentMost+1)))
}
