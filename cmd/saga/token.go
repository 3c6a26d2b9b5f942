package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/state"
	"github.com/mcpsaga/mcpsaga/codec"
)

// maxTokenInput limits what is read as a token, in bytes.
const maxTokenInput = 4 * codec.HardMaxToken

func (p *program) tokenCommand() *cli.Command {
	return &cli.Command{
		Name:  "token",
		Usage: "look into tokens",
		Commands: []*cli.Command{{
			Name:      "explain",
			Usage:     "say what a token holds and whether a server would accept it",
			ArgsUsage: "TOKEN (or the NAME of a saved call, or - for standard input)",
			Description: `Needs the keyset that sealed the token, and the audience of the deployment. It shows the
state of the saga, which clients never see; its secret part is not shown. Tokens of callers
who identified themselves cannot be opened here: they are bound to the caller.

Exits with 1 if a server would refuse the token, after saying why.

Example:
   saga token explain --keyset /etc/saga/keyset.json --audience prod - < token.txt`,
			Flags:  keysetFlags(),
			Action: p.explainToken,
		}},
	}
}

func (p *program) explainToken(_ context.Context, c *cli.Command) error {
	token, err := oneArgument(c, "token")
	if err != nil {
		return err
	}
	if token == "-" {
		data, err := io.ReadAll(io.LimitReader(p.stdin, maxTokenInput))
		if err != nil {
			return failed(err)
		}
		token = strings.TrimSpace(string(data))
	} else if saved, err := state.Load(state.Path(token)); err == nil {
		token = saved.Position.Token
	}
	look := newInspector(c)
	if look.err != nil {
		return failed(look.err)
	}
	found := look.inspect(token)
	if err := p.printExplanation(found); err != nil {
		return failed(err)
	}
	if found.Reason != 0 {
		return failed(fmt.Errorf("a server would refuse this token (%s): %s", found.Reason, found.Detail))
	}
	if found.err != nil {
		return failed(fmt.Errorf("what the token holds cannot be read here: %w", found.err))
	}
	return nil
}

func (p *program) printExplanation(x *inspection) error {
	table := tabwriter.NewWriter(p.stdout, 0, 4, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, plain.Line(fmt.Sprintf(format, args...)))
	}
	// What has another version has another layout, if it is a token at all.
	if x.Version != "" && x.Reason != codec.ReasonVersion {
		row("format", "%s, %s", x.Version, count(x.Length, "character"))
		row("key", "%s%s", keyID(x.KeyID), keyRemark(x.Key))
	}
	if claims := x.Claims; claims != nil {
		row("made for", "%s", x.purpose)
		row("saga", "%s, after %s", claims.ID, count(int(claims.Turn), "turn"))
		row("tool", "%s, revision %d", claims.Tool, claims.Revision)
		row("issued", "%s", when(claims.IssuedAt))
		row("expires", "%s", when(claims.ExpiresAt))
		if !claims.Deadline.IsZero() {
			row("deadline", "%s", when(claims.Deadline))
		}
		row("holds", "%s of state, %d secret (%s in %d bytes, %d of padding)", count(x.StateLen, "byte"), x.SecretLen, x.Coding, x.BodyLen, x.PaddingLen)
	}
	if x.holds != nil {
		p.printHolds(x.holds, row)
	}
	if err := table.Flush(); err != nil || x.holds == nil {
		return err
	}
	p.printContents(x.holds)
	return nil
}

func keyRemark(key *codec.KeyInfo) string {
	switch {
	case key == nil:
		return ", which is not in the keyset"
	case key.Primary:
		return ", the primary"
	}
	return fmt.Sprintf(", %s", key.Status)
}

func when(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	left := time.Until(t).Round(time.Second)
	if left < 0 {
		return fmt.Sprintf("%s (%s ago)", t.Format(time.RFC3339), -left)
	}
	return fmt.Sprintf("%s (in %s)", t.Format(time.RFC3339), left)
}
