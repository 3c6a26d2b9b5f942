package postgrestest

import (
	"sync"
	"testing"
)

// shared is the server that all tests of this process can use.
var shared struct {
	sync.Mutex
	server *Server
}

// Shared is as [Run], for tests that are content with databases and roles of their own, whose
// names no other test has: all of them get one server, which is started for the first. It
// runs until [Tests] stops it, so they must not stop it themselves.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		shared.server = create(t, "fsync=off", "max_connections=500")
	}
	s := *shared.server
	s.t = t
	return &s
}

// Tests are those of a package that uses [Shared]: its TestMain runs them instead of its
// *testing.M.
type Tests struct {
	*testing.M
}

// Run runs the tests, then stops their server.
func (m Tests) Run() int {
	defer func() {
		shared.Lock()
		defer shared.Unlock()
		if shared.server != nil {
			shared.server.remove()
			shared.server = nil
		}
	}()
	return m.M.Run()
}
