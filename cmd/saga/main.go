// Saga serves multi-step MCP tools, and calls them from a terminal.
//
//	saga serve                  serve the example tools at http://127.0.0.1:8080/mcp
//	saga call release_notes     call one of them, answering its questions here
//
// Run saga --help for everything else.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/self"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program, and returns its exit code.
func run(ctx context.Context, args []string, stdin, stdout, stderr *os.File) int {
	p := &program{stdin: stdin, stdout: stdout, stderr: stderr, self: "saga"}
	if len(args) > 0 {
		p.self = self.Command(args[0])
	}
	err := p.command().Run(ctx, args)
	if err != nil {
		report(stderr, err)
	}
	return exitCode(err)
}

// program is what the commands share: where they read and write.
type program struct {
	stdin, stdout, stderr *os.File
	// self is how the user runs this program, for advice that can be pasted.
	self string
}

// say writes a remark for the user. What goes to the standard output is for
// programs.
func (p *program) say(format string, args ...any) {
	fmt.Fprintf(p.stderr, format+"\n", args...)
}

// report prints an error. Parts of it may come from a server.
func report(w io.Writer, err error) {
	if text := plain.Text(err.Error()); text != "" {
		fmt.Fprintln(w, "saga: "+text)
	}
}
