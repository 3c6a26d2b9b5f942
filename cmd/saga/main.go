// Saga serves multi-step MCP tools, and calls them from a terminal.
//
//	saga serve                  serve the example tools at http://127.0.0.1:8080/mcp
//	saga call release_notes     call one of them, answering its questions here
//
// Run saga --help for everything else.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/mcpsaga/mcpsaga/cmd/program"
	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/examples/releasenotes"
	"github.com/mcpsaga/mcpsaga/examples/reporeport"
	"github.com/mcpsaga/mcpsaga/examples/searchhistory"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

func main() {
	repo, flags := ".", flag.NewFlagSet("saga", flag.ContinueOnError)
	flags.Func("repo", "the `DIR` that holds the git repositories that tools read (default: the one you are in)", func(dir string) error {
		repo = dir
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return fmt.Errorf("%s is not a directory", dir)
		}
		return nil
	})
	program.Main(program.Options{
		Server:  server.Options{Name: "saga"},
		Usage:   "serve and call MCP tools that ask questions on the way",
		Example: "release_notes",
		Flags:   flags,
		Setup: func(_ context.Context, o *server.Options) error {
			o.Tools = []saga.Definition{complextool.Tool, releasenotes.New(repo), reporeport.New(repo), searchhistory.New(repo)}
			return nil
		},
	})
}
