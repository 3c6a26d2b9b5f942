// Package longtests has the rule by which tests are left out that together keep a machine busy
// for minutes: those that last long, and those with other people's programs. Everybody has the
// others; these are for who asks for them, as .ci/run and make interop do.
package longtests

import (
	"os"
	"testing"
)

// Variables of the environment by which somebody asks, set to 1. The first two also make it a
// failure that something is missing which the script named beside them installs.
const (
	Node    = "SAGA_REQUIRE_NODE"   // .ci/node
	Debian  = "SAGA_REQUIRE_DEBIAN" // .ci/debian
	Nightly = "SAGA_NIGHTLY"
)

// Wanted reports whether somebody asked.
func Wanted() bool {
	return os.Getenv(Node) == "1" || os.Getenv(Debian) == "1" || os.Getenv(Nightly) == "1"
}

// OnlyIfWanted skips a test unless somebody asked. Why says what it does that takes long.
func OnlyIfWanted(t testing.TB, why string) {
	t.Helper()
	if !Wanted() {
		t.Skipf("%s; %s=1 runs it", why, Debian)
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
