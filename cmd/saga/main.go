// Saga serves multi-step MCP tools, and calls them from a terminal.
//
//	saga serve                  serve the example tools at http://127.0.0.1:8080/mcp
//	saga call release_notes     call one of them, answering its questions here
//
// Run saga --help for everything else.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/answers"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/arguments"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/model"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/self"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/term"
	"github.com/mcpsaga/mcpsaga/internal/buildinfo"
)

func main() {
	process(&program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr})
}

// process is this process, which ends with the program or is interrupted.
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

// run is the whole program, and returns its exit code.
func (p *program) run(ctx context.Context, args []string) int {
	p.self = "saga"
	if len(args) > 0 {
		p.self = self.Command(args[0])
	}
	err := p.command().Run(ctx, args)
	if err != nil {
		report(p.stderr, err)
	}
	return exitCode(err)
}

// program is what the commands share: where they read and write.
type program struct {
	stdin, stdout, stderr *os.File
	// self is how the user runs this program, for advice that can be pasted.
	self string
	// lookAtKeys is how often a server looks at its keyset file; zero is as often as usual.
	lookAtKeys time.Duration
	// bar shows how far a call is; nil if there is none, or no terminal.
	bar *term.Bar
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
			c.Before = func(ctx context.Context, c *cli.Command) (context.Context, error) {
				c.Root().Writer = p.stdout // a script stays as it is
				return ctx, nil
			}
			c.Usage = "print a completion script for bash, zsh, fish or pwsh"
			c.Description = `Prints a script that completes commands and flags in a shell. For the present bash, which
needs the package bash-completion:
   source <(saga completion bash)`
		},
		Reader:    p.stdin,
		Writer:    term.NewHelp(p.stdout),
		ErrWriter: p.stderr,
		// Errors are printed once, by run, which also picks the exit code.
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
		Action: func(_ context.Context, c *cli.Command) error {
			return p.mustBeCommand(c, cli.ShowRootCommandHelp)
		},
		Commands: []*cli.Command{
			p.serveCommand(),
			p.stdioCommand(),
			p.callCommand(),
			p.getCommand(),
			p.readCommand(),
			p.cancelCommand(),
			p.callsCommand(),
			p.tasksCommand(),
			p.toolsCommand(),
			p.promptsCommand(),
			p.resourcesCommand(),
			p.keysCommand(),
			p.workerCommand(),
			p.ledgerCommand(),
			p.tokenCommand(),
			p.versionCommand(),
		},
	}
	p.answerUsageErrors(root)
	return root
}

// answerUsageErrors has the mistakes found by the parser reported like all others,
// instead of with pages of help.
func (p *program) answerUsageErrors(c *cli.Command) {
	c.OnUsageError = func(_ context.Context, c *cli.Command, err error, _ bool) error {
		var flags []string
		for _, flag := range c.Flags {
			flags = append(flags, flag.Names()...)
		}
		_, name, _ := strings.Cut(err.Error(), "flag provided but not defined: ")
		return p.usage(c, "%v%s", err, didYouMean(strings.TrimLeft(name, "-"), "--", flags))
	}
	c.DisableSliceFlagSeparator = true // commas belong to the values
	if c.Action == nil {
		c.Action = func(_ context.Context, c *cli.Command) error { return p.mustBeCommand(c, cli.ShowSubcommandHelp) }
	}
	for _, sub := range c.Commands {
		p.answerUsageErrors(sub)
	}
}

// mustBeCommand is what a command does that has only others below it: it refuses what is
// none of them, and else shows its help or whatever it has to show.
func (p *program) mustBeCommand(c *cli.Command, show func(*cli.Command) error) error {
	if c.Args().Present() {
		var names []string
		for _, command := range c.Commands {
			names = append(names, command.Name)
		}
		return p.usage(c, "there is no command %q%s", c.Args().First(), didYouMean(c.Args().First(), "", names))
	}
	return show(c)
}

// didYouMean names the one of the known names that was likely meant, or nothing.
func didYouMean(given, prefix string, known []string) string {
	best, distance := "", min(len(given), max(2, len(given)/3)+1)
	for _, name := range known {
		if len(name) < len(given)+distance { // a server's name may be long
			if d := edits(given, name); d < distance {
				best, distance = name, d
			}
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s%s?", prefix, best)
}

// edits is how many characters have to be changed, added or removed to make b of a.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := before
			if a[i] != b[j] {
				changed++
			}
			before = row[j+1]
			row[j+1] = min(changed, before+1, row[j]+1)
		}
	}
	return row[len(b)]
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

func (p *program) usage(c *cli.Command, format string, args ...any) error {
	command := p.self + strings.TrimPrefix(c.FullName(), c.Root().Name)
	return &exitError{exitUsage, fmt.Errorf(format+"; see %s --help", append(args, command)...)}
}

func (p *program) noArguments(c *cli.Command) error {
	if c.NArg() > 0 {
		return p.usage(c, "%s takes no arguments", c.FullName())
	}
	return nil
}

func (p *program) oneArgument(c *cli.Command, what string) (string, error) {
	if c.NArg() != 1 {
		return "", p.usage(c, "%s takes one argument, the %s", c.FullName(), what)
	}
	return c.Args().First(), nil
}

// Exit codes, as exitCodesHelp explains them.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitDeclined    = 3
	exitServer      = 4
	exitNeedsAnswer = 5
	exitInterrupted = 130
)

const exitCodesHelp = `Exit codes:
   0    done
   1    the tool reported an error, or the command failed
   2    the command line is wrong
   3    you declined or dismissed a question, and the tool gave up
   4    the server cannot be reached, failed, or refused
   5    a question needs an answer: there is no terminal, or --answers has none
   130  interrupted; what was answered is saved`

type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func failed(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{exitFailed, err}
}

// needsPerson says that a step can be answered only by a person, and there is none.
func needsPerson(stepID, ask, advice string) error {
	return &answers.NeededError{Reason: "step " + stepID + " needs an answer and there is no terminal to ask at: " + ask + "\n" + advice}
}

// modelFailed says that the user's own model failed, which is nothing the server
// should hear about. Its chain holds [client.ErrPause].
type modelFailed struct{ err error }

func (e *modelFailed) Error() string { return "your model failed: " + e.err.Error() }

// Unwrap returns the cause and client.ErrPause.
func (e *modelFailed) Unwrap() []error { return []error{e.err, client.ErrPause} }

// exitCode decides what the program exits with. An error that nothing here knows
// comes from the command line's parser.
func exitCode(err error) int {
	var known *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &known):
		return known.code
	case errors.As(err, new(*answers.NeededError)):
		return exitNeedsAnswer
	case errors.As(err, new(*modelFailed)):
		return exitFailed
	case errors.As(err, new(*client.PositionError)), errors.As(err, new(*arguments.Error)), errors.As(err, new(*model.ConfigError)):
		return exitUsage
	case errors.Is(err, client.ErrPause), errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, new(*client.Error)), errors.As(err, new(*client.TransportError)), errors.As(err, new(*client.ProtocolError)),
		errors.As(err, new(*client.LimitError)):
		return exitServer
	case errors.As(err, new(*client.InterruptedError)):
		return exitFailed
	}
	return exitUsage
}
