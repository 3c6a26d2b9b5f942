package program

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/plain"
)

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

// failed has an error end the program with exitFailed, unless it has another code already.
func failed(err error) error {
	if err == nil || errors.As(err, new(*exitError)) {
		return err
	}
	return &exitError{exitFailed, err}
}

// pausing is an error that stops a call with the step still to be answered: its chain holds [client.ErrPause].
// The server hears nothing of it.
type pausing struct{ *exitError }

func (e pausing) Unwrap() []error { return []error{e.exitError, client.ErrPause} }

func pause(code int, format string, args ...any) error {
	return pausing{&exitError{code, fmt.Errorf(format, args...)}}
}

// exitCode decides what the program exits with. An error that nothing here knows
// is about the command line.
func exitCode(err error) int {
	var known *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &known):
		return known.code
	case errors.As(err, new(*client.PositionError)):
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

// report prints an error. Parts of it may come from a server.
func (p *program) report(err error) {
	if text := plain.Text(err.Error()); text != "" {
		p.remark("%s", text)
	}
}

func (p *program) usage(c *cli.Command, format string, args ...any) error {
	command := p.self + strings.TrimPrefix(c.FullName(), c.Root().Name)
	return &exitError{exitUsage, fmt.Errorf(format+"; see %s --help", append(args, command)...)}
}

func (p *program) oneArgument(c *cli.Command, what string) (string, error) {
	if c.NArg() != 1 {
		return "", p.usage(c, "%s takes one argument, the %s", c.FullName(), what)
	}
	if c.Args().First() == "" {
		return "", p.usage(c, "the %s is empty", what)
	}
	return c.Args().First(), nil
}

// mistaken has the mistakes found by the parser reported like all others, instead of with pages of help.
func (p *program) mistaken(_ context.Context, c *cli.Command, err error, _ bool) error {
	var flags []string
	for _, flag := range c.Flags {
		flags = append(flags, flag.Names()...)
	}
	_, name, _ := strings.Cut(err.Error(), "flag provided but not defined: ")
	meant := didYouMean(strings.TrimLeft(name, "-"), "--", flags)
	if len(name) >= base64.RawURLEncoding.EncodedLen(handleSizes[0]) {
		meant = "; if that is a handle, write -- before it"
	}
	// The parser writes flags with one dash.
	return p.usage(c, "%s%s", strings.Replace(err.Error(), " for flag -", " for flag --", 1), meant)
}

// noFlagsBefore refuses flags of a command that stand before one of its own commands: they would not count there.
func (p *program) noFlagsBefore(ctx context.Context, c *cli.Command) (context.Context, error) {
	sub := c.Command(c.Args().First())
	if sub == nil || sub.Name == "help" {
		return ctx, nil
	}
	has := func(c *cli.Command, name string) bool {
		return slices.ContainsFunc(c.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
	}
	given := c.Lineage()[1].Args().Slice() // from the name of c on
	for _, word := range given[1 : len(given)-c.Args().Len()] {
		name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
		switch {
		case !strings.HasPrefix(word, "-") || !has(c, name):
		case !has(sub, name):
			return ctx, p.usage(sub, "the command %s has no flag --%s", sub.Name, name)
		default:
			return ctx, p.usage(sub, "--%s does not count before the command %s: write it behind, as in %s --%s", name, sub.Name, sub.Name, name)
		}
	}
	return ctx, nil
}

// checkArguments refuses the arguments of a command that takes none, as its usage names none.
func (p *program) checkArguments(_ context.Context, c *cli.Command) error {
	if !c.Args().Present() || c.ArgsUsage != "" {
		return nil
	}
	var names []string
	for _, command := range c.Commands {
		if command.Name != "help" { // which every command has
			names = append(names, command.Name)
		}
	}
	if names == nil {
		return p.usage(c, "%s takes no arguments", c.FullName())
	}
	return p.usage(c, "there is no command %q%s", c.Args().First(), didYouMean(c.Args().First(), "", names))
}

// didYouMean names the known name that begins and ends most like the given one, so that it
// differs in one place only, or nothing if that is no more than half of it.
func didYouMean(given, prefix string, known []string) string {
	best, most := "", 0.5
	for _, name := range known {
		start, end, shorter := 0, 0, min(len(given), len(name))
		for start < shorter && given[start] == name[start] {
			start++
		}
		for end < shorter-start && given[len(given)-1-end] == name[len(name)-1-end] {
			end++
		}
		if same := float64(start+end) / float64(max(len(given), len(name), 1)); same > most {
			best, most = name, same
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s%s?", prefix, best)
}

// selfCommand returns the command line that runs this program again, so that advice can be pasted:
// what the user typed, or go run and the package.
func selfCommand(arg0 string) string {
	info, _ := debug.ReadBuildInfo()
	return selfCommandOf(arg0, info)
}

func selfCommandOf(arg0 string, info *debug.BuildInfo) string {
	if info == nil || !builtByRun.MatchString(filepath.ToSlash(arg0)) {
		return quote(arg0)
	}
	if v := info.Main.Version; v != "" && v != "(devel)" && !strings.Contains(v, "+") {
		return "go run " + quote(info.Path+"@"+v)
	}
	return "go run " + quote(info.Path) // in a clone
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
