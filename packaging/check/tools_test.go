package check

import (
	"os"
	"os/exec"
	"testing"
)

// need is the path of a program, without which the test is skipped, unless SAGA_REQUIRE_DEBIAN is set.
func need(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path
	case os.Getenv("SAGA_REQUIRE_DEBIAN") != "":
		t.Fatalf("%s is not installed: .ci/debian installs it", name)
	}
	t.Skipf("%s is not installed", name)
	return ""
}
