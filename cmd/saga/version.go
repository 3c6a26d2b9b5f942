package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/internal/buildinfo"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/server"
)

// clientRevision is the revision of MCP over which package client gets prompts and
// resources.
const clientRevision = "2026-07-28"

func (p *program) versionCommand() *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "say which version this is, and what it speaks",
		Description: `Prints the version of this program, what it was built from and with, the revisions of MCP
that it serves and calls, and the format of its tokens. A bug report should have it.`,
		Action: func(_ context.Context, c *cli.Command) error {
			if err := p.noArguments(c); err != nil {
				return err
			}
			return failed(p.printVersion())
		},
	}
}

func (p *program) printVersion() error {
	table := tabwriter.NewWriter(p.stdout, 0, 4, 2, ' ', 0)
	row := func(name, value string) { fmt.Fprintf(table, "%s\t%s\n", name, value) }
	row("saga", buildinfo.Version())
	if commit := commit(); commit != "" {
		row("commit", commit)
	}
	row("built with", fmt.Sprintf("%s for %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH))
	row("serves", "MCP "+strings.Join(server.Revisions(), ", ")+", and the saga proposal")
	row("calls", "tools over the saga proposal, prompts and resources over MCP "+clientRevision)
	row("tokens", "format "+tokens.Format)
	return table.Flush()
}

// commit says which commit this binary was built from, if that is known.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	revision := settings["vcs.revision"]
	if revision == "" {
		return ""
	}
	if at := settings["vcs.time"]; at != "" {
		revision += " of " + at
	}
	if settings["vcs.modified"] == "true" {
		revision += ", with changes"
	}
	return revision
}
