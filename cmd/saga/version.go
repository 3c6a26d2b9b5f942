package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/internal/buildinfo"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/server"
)

func (p *program) versionCommand() *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "say which version this is, and what it speaks",
		Description: `Prints the version of this program (of a clone, with the commit and whether it was changed),
what it was built with, the revisions of MCP that it serves and calls, and the format of its
tokens. A bug report should have it.`,
		Action: func(_ context.Context, c *cli.Command) error {
			if err := p.noArguments(c); err != nil {
				return err
			}
			return failed(p.printVersion())
		},
	}
}

func (p *program) printVersion() error {
	table := p.table()
	row := func(name, value string) { fmt.Fprintf(table, "%s\t%s\n", name, value) }
	row("saga", buildinfo.Version())
	row("built with", fmt.Sprintf("%s for %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH))
	row("serves", "MCP "+strings.Join(server.Revisions(), ", ")+", and the saga proposal")
	row("calls", "the saga proposal, MCP 2026-07-28 with tasks, and older revisions by the official Go SDK")
	row("tokens", "format "+tokens.Format)
	return table.Flush()
}
