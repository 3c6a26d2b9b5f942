package interop

import (
	"regexp"
	"strings"
	"testing"

	"github.com/mcpsaga/mcpsaga/internal/longtests"
)

// always is what uses other people's programs also where nobody asked: one client, for a few seconds.
var always = regexp.MustCompile(`^TestClients/TypeScript_SDK_2(/|$)`)

// onlyIfWanted skips a test that takes long, as do all that use other people's programs, unless
// somebody asked for it.
func onlyIfWanted(t *testing.T, why string) {
	t.Helper()
	if !always.MatchString(t.Name()) {
		longtests.OnlyIfWanted(t, why)
	}
}

// needs is for a test of other people's programs. If one is missing, as err says, the test is
// skipped, or fails where the variable requires it.
func needs(t *testing.T, variable, installer string, err error) {
	t.Helper()
	onlyIfWanted(t, "uses other people's programs")
	if err != nil {
		longtests.Missing(t, variable, err.Error()+"; "+installer+" installs it")
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
