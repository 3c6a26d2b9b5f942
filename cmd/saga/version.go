package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/server"
)

func (p *program) versionCommand() *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "say which version this is, and what it speaks",
		Description: `Prints the version of this program, what it was built from and with, the revisions of MCP
that it serves and calls, and the format of its tokens. A bug report should have it.`,
		Action: func(_ context.Context, c *cli.Command) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return failed(p.printVersion())
		},
	}
}

func (p *program) printVersion() error {
	table := tabwriter.NewWriter(p.stdout, 0, 4, 2, ' ', 0)
	row := func(name, value string) { fmt.Fprintf(table, "%s\t%s\n", name, value) }
	row("saga", version())
	if commit := commit(); commit != "" {
		row("commit", commit)
	}
	row("built with", fmt.Sprintf("%s for %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH))
	row("serves", "MCP "+strings.Join(server.Revisions(), ", ")+", and the saga proposal")
	row("calls", "tools over the saga proposal, prompts and resources over MCP "+client.Revision)
	row("tokens", "format "+tokens.Format)
	return table.Flush()
}

// version is that of the module this binary was built from.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
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
