// Package program makes a program of tools: one that serves them to every client of MCP, over HTTP and on standard
// input and output, and has what their operators and users need besides.
//
//	func main() {
//		program.Main(program.Options{Server: server.Options{Name: "lunch", Tools: []saga.Definition{lunch}}})
//	}
//
// The commands serve, stdio and worker are servers; call, tasks and others call tools, of this server or any other; and
// keys, ledger, events and token are for operators. lunch --help explains them. What can be set is a flag, an environment
// variable (LUNCH_TOKEN_TTL for --token-ttl), and an entry of the YAML file that --config names (token-ttl).
package program

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/tink-crypto/tink-go/v2/tink"
	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/cmd/program/internal/login"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/term"
	"github.com/mcpsaga/mcpsaga/internal/buildinfo"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/server"
)

// Options describe a program.
type Options struct {
	// Server is what only Go can say of the server: its tools, hooks, who may do what. What flags can say as well is the
	// default of these flags. Keys and Ledger must be nil, as the program opens those that are named to it. The Name is
	// that of the program, too: of its environment variables, its messages, and the directory of its user's own keyset
	// and ledger. Default: the name of the executable file.
	Server server.Options
	// Usage says in a few words what the program is for.
	Usage string
	// Example is a call of a tool as it follows the command call, such as "order_lunch office=Berlin", for users to try.
	// Default: the first of the tools.
	Example string
	// Flags are flags of the tools' own, for the commands that serve or work. Environment and file can have them as well.
	Flags *flag.FlagSet
	// KMS, if it is not nil, returns the key of a KMS that --keyset-kms names, such as vault.KMS does. It is called each time
	// that key is needed: when a keyset is first loaded, when its file has changed, and when a command changes it.
	KMS func(ctx context.Context, uri string) (tink.AEAD, error)
	// Setup, if it is not nil, completes the options of a server that is about to start, when all flags are read. Other
	// commands do not call it. What it opens is there until the process ends.
	Setup func(context.Context, *server.Options) error
}

// Main runs the command line of the process, until it ends or is interrupted, and exits.
func Main(o Options) {
	(&program{options: o, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}).process()
}

func (p *program) process() {
	cli.HelpPrinter = func(out io.Writer, template string, command any) {
		var help strings.Builder
		cli.HelpPrinterCustom(&help, template, command, nil)
		term.WriteHelp(out, help.String())
	}
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
	p.name = p.options.Server.Name
	if p.name == "" {
		p.name = strings.TrimSuffix(filepath.Base(args[0]), ".exe")
	}
	p.self = selfCommand(cmp.Or(args[0], p.name))
	err := p.command().Run(ctx, args)
	if err != nil {
		p.report(err)
	}
	return exitCode(err)
}

// program is what the commands share.
type program struct {
	options               Options
	stdin, stdout, stderr *os.File

	name     string         // what the program is called
	self     string         // how the user runs it, for advice that can be pasted
	example  string         // a call of a tool, for help
	config   config         // what can be said instead of flags
	level    slog.LevelVar  // of the log
	server   server.Options // as far as flags have them
	login    *login.Login   // has the access token for a server over HTTP; nil if the user gives one
	patience time.Duration  // how long a server may take to answer
	bar      *term.Bar      // shows how far a call is; nil if there is none, or no terminal
	// notSent is the server that the token or headers of the environment or the file are for, if it is another than that of
	// the call, which does not get them.
	notSent string
	// lookAtKeys is how often a server looks at its keyset file; zero is as often as usual.
	lookAtKeys time.Duration
}

func (p *program) command() *cli.Command {
	p.server, p.config = p.options.Server, config{settings: make(map[string]*setting)}
	p.server.Name = p.name
	p.example = exampleOf(&p.options, p.server.Tools)
	root := &cli.Command{
		Name:    p.name,
		Version: buildinfo.Version(),
		Usage:   cmp.Or(p.options.Usage, "serve and call MCP tools that ask questions on the way"),
		Description: `Start a server, then call one of its tools from another terminal:

   {program} serve
   {program} call {example}

Every flag can be given as an environment variable, named in its help, or by its name in the
YAML file of --config, such as:

   token-ttl: 30m
   allow-host: [tools.example.com, tools.example.org]

Several values of a variable stand on lines of their own. The command line comes first, then the environment, then the file.

` + exitCodesHelp,
		EnableShellCompletion: true,
		ConfigureShellCompletionCommand: func(c *cli.Command) {
			c.Hidden = false
			c.Usage = "print a completion script for bash, zsh, fish or pwsh"
			c.Description = p.text(`Prints a script that completes commands and flags in a shell. For the present bash, which
needs the package bash-completion:
   source <({program} completion bash)`)
		},
		Reader:    p.stdin,
		Writer:    p.stdout,
		ErrWriter: p.stderr,
		// Errors are printed once, by run, which also picks the exit code.
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
		ArgValidator:   p.checkArguments,
		Action:         func(_ context.Context, c *cli.Command) error { return cli.ShowRootCommandHelp(c) },
		Flags:          []cli.Flag{&cli.StringFlag{Name: "config", Usage: "the YAML `FILE` with settings", Sources: cli.EnvVars(p.environment() + "_CONFIG"), Destination: &p.config.path}},
		Before: func(ctx context.Context, c *cli.Command) (context.Context, error) {
			if p.config.err != nil {
				return ctx, p.usage(c, "%w", p.config.err)
			}
			return ctx, nil
		},
		Commands: []*cli.Command{
			p.serveCommand(), p.stdioCommand(),
			p.callCommand(), p.getCommand(), p.readCommand(), p.cancelCommand(), p.callsCommand(), p.tasksCommand(), p.eventsCommand(),
			p.toolsCommand(), p.promptsCommand(), p.resourcesCommand(), p.logoutCommand(),
			p.keysCommand(), p.workerCommand(), p.ledgerCommand(), p.auditCommand(), p.tokenCommand(), p.versionCommand(),
		},
	}
	p.complete(root)
	return root
}

func (p *program) versionCommand() *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "say which version this is, and what it speaks",
		Description: `Prints the version of this program (of a clone, with the commit and whether it was changed),
what it was built with, the revisions of MCP that it serves and calls, and the format of its
tokens. A bug report should have it.`,
		Action: func(context.Context, *cli.Command) error { return p.printVersion() },
	}
}

func (p *program) printVersion() error {
	rows := []string{p.name + "\t" + buildinfo.Version()}
	if library := buildinfo.Library(); library != "" {
		rows = append(rows, "mcpsaga\t"+library)
	}
	return p.table("", append(rows,
		fmt.Sprintf("built with\t%s for %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH),
		"serves\tMCP "+strings.Join(server.Revisions(), ", ")+", and the saga proposal",
		"calls\tthe saga proposal, MCP 2026-07-28 with tasks, and older revisions by the official Go SDK",
		"tokens\tformat "+tokens.Format,
	))
}
