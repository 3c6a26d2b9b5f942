package interop

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var keyID = regexp.MustCompile(`(?m)^([0-9a-f]{8}) `)

// keys runs a command about keys, and returns the ids that it lists.
func (s *fleet) keys(args ...string) (ids []string) {
	s.t.Helper()
	for _, found := range keyID.FindAllStringSubmatch(s.ok(append([]string{"keys"}, args...)...), -1) {
		ids = append(ids, found[1])
	}
	return ids
}

// lists waits until each server has so many keys, of which one is primary.
func (s *fleet) lists(n int, primary string) {
	s.t.Helper()
	for _, p := range s.servers {
		require.NoError(s.t, p.cmd.Process.Signal(syscall.SIGHUP)) // else it looks every five seconds
		p.eventually(func() bool {
			ready := p.get("/readyz")
			return strings.Count(ready, `"id"`) == n && strings.Contains(ready, `{"id":"`+primary+`","primary":true}`)
		}, "it does not have the keys")
	}
}

// Keys rotate in four stages without a call that is refused. One that is disabled too early is enabled again.
func TestRunbookRotation(t *testing.T) {
	t.Parallel()
	s := newFleet(t, ledgers["SQLite"](t))
	a, b := s.serve(), s.serve()
	early, late := s.call(a, "order"), s.call(a, "order")
	ids := s.keys("add")
	old, fresh := ids[0], ids[1]
	s.lists(2, old)
	s.keys("promote", fresh)
	s.lists(2, fresh)
	s.done(s.answer(b, early))
	between := s.call(b, "order")

	putBack := s.saved(late)
	s.keys("disable", old)
	s.lists(1, fresh)
	said, code := s.answer(a, late)
	assert.NotZero(t, code, "too early")
	assert.Contains(t, said, "not valid here, or no longer")
	a.says("token.reason=unknown_key")
	assert.Contains(t, s.ok("ledger"), "unreadable")
	s.keys("enable", old)
	s.lists(2, fresh)
	putBack()
	s.done(s.answer(b, late))

	s.keys("disable", old)
	s.lists(1, fresh)
	s.done(s.answer(a, between))
	s.keys("destroy", "--yes", old)
	assert.Equal(t, []string{fresh}, s.keys("list"))
	assert.Empty(t, s.waiting())
	assert.Zero(t, count(s.kinds(), "undone-book"))
}

// Nothing that a stolen key has sealed counts any more once it is disabled. What it did is undone by a worker, which takes no
// requests, with a copy of the keyset in which it is enabled.
func TestRunbookStolenKey(t *testing.T) {
	t.Parallel()
	s := newFleet(t, ledgers["SQLite"](t))
	a, b := s.serve("--workers", "0"), s.serve("--workers", "0")
	w := s.start("worker")
	s.servers = []*served{a, b}
	name := s.call(a, "order")
	s.ok("call", "parcel", "--detach", "--server", a.url)
	handle := s.handle()

	ids := s.keys("add")
	stolen, fresh := ids[0], ids[1]
	s.keys("promote", fresh)
	s.keys("disable", stolen)
	s.lists(1, fresh)
	for _, p := range []*served{a, b} {
		said, code := s.answer(p, name)
		assert.NotZero(t, code)
		assert.Contains(t, said, "not valid here, or no longer")
		p.says("token.reason=unknown_key")
	}
	delivered, err := http.Post(strings.TrimSuffix(a.url, "/mcp")+"/events/"+handle, "application/json", strings.NewReader(`{"ok":true}`))
	require.NoError(t, err)
	_ = delivered.Body.Close()
	assert.Equal(t, 503, delivered.StatusCode)
	list := s.waiting()
	require.Len(t, list, 2)
	for _, w := range list {
		assert.Equal(t, "unreadable", w.State)
	}
	require.Zero(t, count(s.kinds(), "undone-book"))

	raw, err := os.ReadFile(filepath.Join(s.dir, "keys.json"))
	require.NoError(t, err)
	lent := s.file("lent.json", string(raw))
	s.keys("enable", "--keyset", lent, stolen)
	w.kill() // it would look at what it cannot read, and keep that from others meanwhile
	s.start("worker", "--keyset", lent)
	for _, w := range s.waiting("--keyset", lent) {
		assert.Contains(t, s.ok("ledger", "undo", "--keyset", lent, w.Saga), "it is undone")
	}
	assert.Equal(t, 1, count(s.kinds(), "undone-book"))
	assert.Empty(t, s.waiting())
	s.keys("destroy", "--yes", stolen)
}

// handle is what the tool parcel has written down.
func (s *fleet) handle() string {
	var raw []byte
	s.servers[0].eventually(func() (found bool) {
		raw, _ = os.ReadFile(filepath.Join(s.books, "handle"))
		return len(raw) > 0
	}, "there is no handle")
	return string(raw)
}
