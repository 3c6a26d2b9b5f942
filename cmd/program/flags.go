package program

import (
	"context"
	"flag"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
)

// text fills in what help says of this program: {program} is its name, {PROGRAM} begins its environment variables, and
// {example} is a call.
func (p *program) text(s string) string {
	return strings.NewReplacer("{program}", p.name, "{PROGRAM}", p.environment(), "{example}", p.example).Replace(s)
}

// exampleOf is a call of a tool as it follows the command call, for users to try: the one that options name, or else of
// the first of their tools.
func exampleOf(o *Options, tools []saga.Definition) string {
	if o.Example != "" {
		return o.Example
	}
	for _, definition := range tools {
		if t, err := definition.Compile(); err == nil && t.Kind == engine.KindTool {
			return strings.TrimSpace(t.Name + " " + argumentNames(t.InputSchema))
		}
	}
	return "TOOL"
}

// environment begins the names of the program's environment variables.
func (p *program) environment() string {
	return strings.ToUpper(notInVariables.ReplaceAllString(p.name, "_"))
}

var notInVariables = regexp.MustCompile(`[^A-Za-z0-9]`)

// complete fills in the texts of a command and of those below it, and what they do with mistakes.
func (p *program) complete(c *cli.Command) {
	c.Usage, c.Description = p.text(c.Usage), p.text(c.Description)
	c.OnUsageError = p.mistaken
	c.SliceFlagSeparator = listSeparator
	if len(c.Flags) > 0 && len(c.Commands) > 0 && c.Before == nil {
		c.Before = p.noFlagsBefore
	}
	if c.Action == nil {
		c.Action = func(_ context.Context, c *cli.Command) error { return cli.ShowSubcommandHelp(c) }
	}
	for _, sub := range c.Commands {
		p.complete(sub)
	}
}

// sources are where the value of a flag comes from that the command line does not have.
func (p *program) sources(name string) cli.ValueSourceChain {
	if p.config.settings[name] == nil { // else another command has the flag, too
		variable := p.environment() + "_" + strings.ToUpper(notInVariables.ReplaceAllString(name, "_"))
		p.config.settings[name] = &setting{file: &p.config, name: name, variable: variable}
	}
	return cli.NewValueSourceChain(&source{setting: p.config.settings[name]})
}

// onCommandLine reports whether the command line has a flag of c that is a text, or several.
func onCommandLine(c *cli.Command, name string) bool {
	for _, f := range c.Flags {
		var chain cli.ValueSourceChain
		switch f := f.(type) {
		case *cli.StringFlag:
			chain = f.Sources
		case *cli.StringSliceFlag:
			chain = f.Sources
		}
		if f.Names()[0] == name && len(chain.Chain) == 1 {
			return !chain.Chain[0].(*source).asked
		}
	}
	return false
}

func (p *program) stringFlag(name, usage, value string) *cli.StringFlag {
	return &cli.StringFlag{Name: name, Usage: p.text(usage), Value: value, Sources: p.sources(name)}
}

func (p *program) boolFlag(name, usage string) *cli.BoolFlag {
	return &cli.BoolFlag{Name: name, Usage: p.text(usage), Sources: p.sources(name)}
}

func (p *program) intFlag(name, usage string, value int) *cli.IntFlag {
	return &cli.IntFlag{Name: name, Usage: p.text(usage), Value: value, Sources: p.sources(name)}
}

func (p *program) durationFlag(name, usage string, value time.Duration) *cli.DurationFlag {
	return &cli.DurationFlag{Name: name, Usage: p.text(usage), Value: value, Sources: p.sources(name)}
}

func (p *program) listFlag(name, usage string) *cli.StringSliceFlag {
	sources := p.sources(name)
	p.config.settings[name].list = true
	return &cli.StringSliceFlag{Name: name, Usage: p.text(usage), Sources: sources}
}

// into has a flag set an option, whose value is the flag's default unless it is zero.
func into[T, C any, V cli.ValueCreator[T, C]](option *T, f *cli.FlagBase[T, C, V]) *cli.FlagBase[T, C, V] {
	if f.Destination = option; !reflect.ValueOf(option).Elem().IsZero() {
		f.Value = *option
	}
	return f
}

func (p *program) outputFlag() cli.Flag {
	f := p.stringFlag("output", "text, or json for all of it", "text")
	f.Validator = func(output string) error {
		if output != "text" && output != "json" {
			return fmt.Errorf("--output is text or json, not %q", output)
		}
		return nil
	}
	return f
}

// ownFlags are the flags of the tools.
func (p *program) ownFlags() (flags []cli.Flag) {
	if p.options.Flags == nil {
		return nil
	}
	p.options.Flags.VisitAll(func(own *flag.Flag) {
		if b, ok := own.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
			f := p.boolFlag(own.Name, own.Usage)
			f.Value = own.DefValue == "true"
			f.Validator = func(on bool) error { return own.Value.Set(strconv.FormatBool(on)) }
			flags = append(flags, f)
			return
		}
		f := p.stringFlag(own.Name, own.Usage, own.DefValue)
		f.Validator = own.Value.Set
		flags = append(flags, f)
	})
	return flags
}
