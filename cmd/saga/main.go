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
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/term"
	"github.com/mcpsaga/mcpsaga/internal/buildinfo"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/server"
)

func init() {
	cli.HelpPrinter = func(out io.Writer, template string, command any) {
		var help strings.Builder
		cli.HelpPrinterCustom(&help, template, command, nil)
		term.WriteHelp(out, help.String())
	}
}

func main() {
	process(&program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr})
}

// process runs the program until it ends or is interrupted, and exits.
func process(p *program) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := p.run(ctx, os.Args)
	stop()
	os.Exit(code)
}

// untilClosed returns a context that ends, too, when the terminal is closed or its connection
// lost, unless that is to be ignored (nohup). Servers do not use it: SIGHUP has them load their keys.
func untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return ctx, func() {}
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// run runs a command line, and returns the exit code.
func (p *program) run(ctx context.Context, args []string) int {
	p.self = "saga"
	if len(args) > 0 {
		p.self = selfCommand(args[0])
	}
	err := p.command().Run(ctx, args)
	if err != nil {
		report(p.stderr, err)
	}
	return exitCode(err)
}

// program is what the commands share.
type program struct {
	stdin, stdout, stderr *os.File
	// patience is how long a server may take to answer.
	patience time.Duration
	// self is how the user runs this program, for advice that can be pasted.
	self string
	// lookAtKeys is how often a server looks at its keyset file; zero is as often as usual.
	lookAtKeys time.Duration
	// bar shows how far a call is; nil if there is none, or no terminal.
	bar *term.Bar
}

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
		Reader:    p.stdin,
		Writer:    p.stdout,
		ErrWriter: p.stderr,
		// Errors are printed once, by run, which also picks the exit code.
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
		Action: func(_ context.Context, c *cli.Command) error {
			return p.mustBeCommand(c, cli.ShowRootCommandHelp)
		},
		Commands: []*cli.Command{
			p.serveCommand(), p.stdioCommand(),
			p.callCommand(), p.getCommand(), p.readCommand(), p.cancelCommand(), p.callsCommand(), p.tasksCommand(), p.eventsCommand(),
			p.toolsCommand(), p.promptsCommand(), p.resourcesCommand(),
			p.keysCommand(), p.workerCommand(), p.ledgerCommand(), p.tokenCommand(), p.versionCommand(),
		},
	}
	p.answerUsageErrors(root)
	return root
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

func intFlag(name, usage string, value int) *cli.IntFlag {
	return &cli.IntFlag{Name: name, Usage: usage, Value: value, Sources: env(name)}
}

func durationFlag(name, usage string, value time.Duration) *cli.DurationFlag {
	return &cli.DurationFlag{Name: name, Usage: usage, Value: value, Sources: env(name)}
}

func listFlag(name, usage string) *cli.StringSliceFlag {
	return &cli.StringSliceFlag{Name: name, Usage: usage, Sources: env(name)}
}

func outputFlag() cli.Flag {
	f := stringFlag("output", "text, or json for all of it", "text")
	f.Validator = func(output string) error {
		if output != "text" && output != "json" {
			return fmt.Errorf("--output is text or json, not %q", output)
		}
		return nil
	}
	return f
}

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

// selfCommand returns the command line that runs this program again, so that advice can be pasted:
// what the user typed, which is saga for one that was found in PATH, or go run and the package.
func selfCommand(arg0 string) string {
	info, _ := debug.ReadBuildInfo()
	return selfCommandOf(arg0, info)
}

func selfCommandOf(arg0 string, info *debug.BuildInfo) string {
	switch {
	case arg0 == "":
		return "saga"
	case builtByRun.MatchString(filepath.ToSlash(arg0)) && info != nil:
		if v := info.Main.Version; v != "" && v != "(devel)" && !strings.Contains(v, "+") {
			return "go run " + quote(info.Path+"@"+v)
		}
		return "go run " + quote(info.Path) // in a clone
	}
	return quote(arg0)
}

// builtByRun finds where go run puts its programs: a temporary directory of the build, or the build
// cache, unless that has a name of its own.
var builtByRun = regexp.MustCompile(`/go-build([0-9]*/b[0-9]+/exe|/[0-9a-f]{2}/[0-9a-f]{64}-d)/[^/]+$`)

var harmless = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./\\~-]+$`)

// quote writes a word so that a shell takes it as one.
func quote(word string) string {
	if harmless.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
