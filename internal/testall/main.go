// Command testall runs the tests of all modules of this repository, and says at its end which were
// left out and how to have them. Arguments are flags of go test.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"

	"github.com/mcpsaga/mcpsaga/internal/longtests"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ok, err := run(ctx, os.Stdout, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testall:", err)
	}
	if err != nil || !ok {
		stop()
		os.Exit(1)
	}
}

// run runs the tests of the modules that are worked on here: one, or those of a go.work.
func run(ctx context.Context, out io.Writer, flags []string) (ok bool, err error) {
	modules, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return false, fmt.Errorf("go list -m: %w", err)
	}
	args := append([]string{"test", "-json"}, flags...)
	for dir := range bytes.Lines(modules) {
		args = append(args, filepath.Join(string(bytes.TrimSpace(dir)), "..."))
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it ends the tests
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	r := newReport(out)
	err = r.read(events)
	if failed := cmd.Wait(); err == nil && failed != nil && r.failed == 0 {
		err = fmt.Errorf("go test: %w", failed)
	}
	complete := r.close()
	if required := os.Getenv(longtests.Debian) == "1" || os.Getenv(longtests.Node) == "1"; required && !complete {
		return false, fmt.Errorf("nothing may be left out where %s or %s is 1", longtests.Debian, longtests.Node)
	}
	return err == nil && r.failed == 0, err
}
