package main

import (
	"fmt"

	"github.com/urfave/cli/v3"
)

// usage is an error about the command line.
func usage(c *cli.Command, format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format+"; see %s --help", append(args, c.FullName())...)}
}

// oneArgument returns the only argument of a command.
func oneArgument(c *cli.Command, what string) (string, error) {
	if c.NArg() != 1 {
		return "", usage(c, "%s takes one argument, the %s", c.FullName(), what)
	}
	return c.Args().First(), nil
}
