// Package buildtest builds programs for tests that run them.
package buildtest

import (
	"fmt"
	"os/exec"
)

// Program builds the program of a package into a file, with these flags of go build. It is linked
// only if something has changed: go run keeps what it has linked, which go build does not, and to
// link a program takes seconds.
func Program(file, pkg string, flags ...string) error {
	args := []string{"build", "-o", file}
	if cp, err := exec.LookPath("cp"); err == nil {
		args = []string{"run", "-exec", cp} // what is run is: cp program file
	}
	args = append(append(args, flags...), pkg)
	if args[0] == "run" {
		args = append(args, file)
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go %q: %w: %s", args, err, out)
	}
	return nil
}
