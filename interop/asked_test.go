package interop

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
)

// Variables by which somebody asks for all tests of this package. Each makes it a failure that
// something is missing which its script installs.
const (
	requireNode   = "SAGA_REQUIRE_NODE"  // .ci/node
	requireDebian = postgrestest.Require // .ci/debian
)

var askedFor = postgrestest.Asked() || os.Getenv(requireNode) == "1"

// always is what uses other people's programs also where nobody asked: one client, for a few seconds.
var always = regexp.MustCompile(`^TestClients/TypeScript_SDK_2(/|$)`)

// onlyIfAsked skips a test that takes long, as do all that use other people's programs, unless
// somebody asked for it: together they keep a machine busy for minutes.
func onlyIfAsked(t *testing.T, why string) {
	t.Helper()
	if !askedFor && !always.MatchString(t.Name()) {
		t.Skipf("%s; make interop runs it, and so does %s=1", why, requireNode)
	}
}

// needs is for a test of other people's programs. If one is missing, as err says, the test is
// skipped, or fails where the program is required.
func needs(t *testing.T, required, installer string, err error) {
	t.Helper()
	onlyIfAsked(t, "uses other people's programs")
	if err != nil && os.Getenv(required) == "1" {
		require.NoError(t, err, "%s is 1; %s installs what is missing", required, installer)
	}
	if err != nil {
		t.Skipf("%v; %s installs it", err, installer)
	}
}

// available skips the tests of a client that is one of those programs at once, rather than when
// there is a server for it.
func (c contender) available(t *testing.T) {
	t.Helper()
	if strings.HasPrefix(c.name, "TypeScript") {
		needNode(t)
	}
}
