// Package longtests has the rule by which go test leaves out what together keeps a machine busy for
// minutes: tests that last long, and those with other people's programs. They are for who asks
// for them, by SAGA_LONG=1, as .ci/run does.
package longtests

import (
	"os"
	"slices"
	"testing"
)

// Environment variables that ask for long tests, set to 1.
const (
	Long    = "SAGA_LONG"           // with what is installed
	Node    = "SAGA_REQUIRE_NODE"   // it is a failure that something is missing which .ci/node installs
	Debian  = "SAGA_REQUIRE_DEBIAN" // the same of .ci/debian
	Nightly = "SAGA_NIGHTLY"        // everything with everything
)

// Wanted reports whether long tests were asked for.
func Wanted() bool {
	return slices.ContainsFunc([]string{Long, Node, Debian, Nightly}, func(v string) bool { return os.Getenv(v) == "1" })
}

// OnlyIfWanted skips a test unless it was asked for. Why says what it does that takes long.
func OnlyIfWanted(t testing.TB, why string) {
	t.Helper()
	if !Wanted() {
		t.Skipf("%s; %s=1 runs it", why, Long)
	}
}

// Missing skips a test without which something is missing, or fails it where the variable is 1.
func Missing(t testing.TB, variable, what string) {
	t.Helper()
	if os.Getenv(variable) == "1" {
		t.Fatalf("%s, and %s is 1", what, variable)
	}
	t.Skip(what)
}
