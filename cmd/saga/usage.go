package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"
)

// selfKey is where the root command keeps how the user runs this program.
const selfKey = "self"

// usage is an error about the command line.
func usage(c *cli.Command, format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format+"; see %s --help", append(args, runs(c))...)}
}

// runs is how the user runs a command.
func runs(c *cli.Command) string {
	root := c.Root()
	self, ok := root.Metadata[selfKey].(string)
	if !ok {
		self = root.Name
	}
	return self + strings.TrimPrefix(c.FullName(), root.Name)
}

// noArguments refuses the arguments of a command that takes none.
func noArguments(c *cli.Command) error {
	if c.NArg() > 0 {
		return usage(c, "%s takes no arguments", c.FullName())
	}
	return nil
}

// oneArgument returns the only argument of a command.
func oneArgument(c *cli.Command, what string) (string, error) {
	if c.NArg() != 1 {
		return "", usage(c, "%s takes one argument, the %s", c.FullName(), what)
	}
	return c.Args().First(), nil
}
