package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// However much is to be told, it is told in messages that PostgreSQL takes, and understood.
func TestMessages(t *testing.T) {
	var from, to store
	from.tell.init()
	to.tell.init()
	to.hub.init()
	const n = 3000
	var watchers, takers []*waiter
	for i := range n {
		name := fmt.Sprint(i)
		watchers = append(watchers, to.hub.watcher(name, 0, nil))
		taker := to.hub.taker([]string{name})
		taker.forgetNext()
		takers = append(takers, taker)
		from.tell.add(hash(name), hash(name), time.UnixMicro(1e15+2*int64(i)))
		from.tell.add(hash(name), hash(name), time.UnixMicro(1e15+int64(i)))
		from.tell.add(hash(name), hash(name), time.UnixMicro(1e15+2*int64(i)))
	}
	stranger := to.hub.watcher("stranger", 0, nil)
	messages := from.tell.messages()
	require.Less(t, len(messages), n/50)
	for _, m := range messages {
		require.LessOrEqual(t, len(m), 7999)
		from.hear(m) // it says so itself
		to.hear(m)
	}
	for i := range n {
		assert.Len(t, watchers[i].signal, 1)
		assert.Len(t, takers[i].signal, 1)
		next, known := takers[i].nextWake()
		assert.True(t, known)
		assert.EqualValues(t, 1e15+int64(i), next.UnixMicro())
	}
	assert.Empty(t, stranger.signal)
	assert.Empty(t, from.tell.messages(), "it is told once")
	for _, m := range []string{"", "x", "x y", "x AAAAAAAAAAA:", "x AAAAAAAAAAA:!!", "x :1 ::", "x AAAAAAAAAAAA"} {
		to.hear(m)
	}
	for _, w := range append(watchers, takers...) {
		to.hub.leave(w)
	}
	to.hub.leave(stranger)
	assert.False(t, to.hub.anybody())
	assert.Empty(t, to.hub.keys)
	assert.Empty(t, to.hub.queues)
}
