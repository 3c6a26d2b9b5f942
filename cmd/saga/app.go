package main

import (
	"context"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/internal/buildinfo"
)

// command returns the root of all commands.
func (p *program) command() *cli.Command {
	root := &cli.Command{
		Name:    "saga",
		Version: buildinfo.Version(),
		Usage:   "serve and call MCP tools that ask questions on the way",
		Description: `Start a server, then call one of its tools from another terminal:

   saga serve
   saga call release_notes

Every flag can be given as an environment variable, named in its help.

` + exitCodesHelp,
		EnableShellCompletion: true,
		ConfigureShellCompletionCommand: func(c *cli.Command) {
			c.Hidden = false
			c.Usage = "print a completion script for bash, zsh, fish or pwsh"
			c.Description = `Prints a script that completes commands and flags in a shell. For the present bash, which
needs the package bash-completion:
   source <(saga completion bash)`
		},
		Suggest:   true,
		Metadata:  map[string]any{selfKey: p.self},
		Reader:    p.stdin,
		Writer:    p.stdout,
		ErrWriter: p.stderr,
		// Errors are printed once, by run, which also picks the exit code.
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
		Action: func(_ context.Context, c *cli.Command) error {
			return mustBeCommand(c, cli.ShowRootCommandHelp)
		},
		Commands: []*cli.Command{
			p.serveCommand(),
			p.stdioCommand(),
			p.callCommand(),
			p.getCommand(),
			p.readCommand(),
			p.cancelCommand(),
			p.callsCommand(),
			p.toolsCommand(),
			p.promptsCommand(),
			p.resourcesCommand(),
			p.keysCommand(),
			p.tokenCommand(),
			p.versionCommand(),
		},
	}
	answerUsageErrors(root)
	return root
}

// answerUsageErrors has the mistakes found by the parser reported like all others,
// instead of with pages of help.
func answerUsageErrors(c *cli.Command) {
	c.OnUsageError = func(_ context.Context, c *cli.Command, err error, _ bool) error { return usage(c, "%v", err) }
	c.DisableSliceFlagSeparator = true // commas belong to the values
	if c.Action == nil {
		c.Action = func(_ context.Context, c *cli.Command) error { return mustBeCommand(c, cli.ShowSubcommandHelp) }
	}
	for _, sub := range c.Commands {
		answerUsageErrors(sub)
	}
}

// mustBeCommand is what a command does that has only others below it: it refuses what is
// none of them, and else shows its help.
func mustBeCommand(c *cli.Command, help func(*cli.Command) error) error {
	if c.Args().Present() {
		return usage(c, "there is no command %q", c.Args().First())
	}
	return help(c)
}

// env is the environment variable of a flag: SAGA_TOKEN_TTL for token-ttl.
func env(flag string) cli.ValueSourceChain {
	return cli.EnvVars("SAGA_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_")))
}

func stringFlag(name, usage, value string) *cli.StringFlag {
	return &cli.StringFlag{Name: name, Usage: usage, Value: value, Sources: env(name)}
}

func boolFlag(name, usage string) *cli.BoolFlag {
	return &cli.BoolFlag{Name: name, Usage: usage, Sources: env(name)}
}

func listFlag(name, usage string) *cli.StringSliceFlag {
	return &cli.StringSliceFlag{Name: name, Usage: usage, Sources: env(name)}
}
