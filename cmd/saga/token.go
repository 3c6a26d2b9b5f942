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
	"github.com/mcpsaga/mcpsaga/codec"
)

// maxTokenInput limits what is read as a token, in bytes.
const maxTokenInput = 4 * codec.HardMaxToken

// purposes are what the server's dialects seal tokens for. A token can be opened
// only with the one it was made for, so all are tried.
var purposes = []string{"saga", "mrtr", "handshake"}

func (p *program) tokenCommand() *cli.Command {
	return &cli.Command{
		Name:  "token",
		Usage: "look into tokens",
		Commands: []*cli.Command{{
			Name:      "explain",
			Usage:     "say what a token holds and whether a server would accept it",
			ArgsUsage: "TOKEN (or - for standard input)",
			Description: `Needs the keyset that sealed the token, and the audience of the deployment. It shows the
state of the saga, which clients never see; its secret part is not shown. Tokens of callers
who identified themselves cannot be opened here: they are bound to the caller.

Exits with 1 if a server would refuse the token, after saying why.

Example:
   saga token explain --keyset /etc/saga/keyset.json --audience prod - < token.txt`,
			Flags: []cli.Flag{
				stringFlag("keyset", "the keyset `FILE` (default: this user's own)", ""),
				stringFlag("audience", "the `NAME` of the deployment", ""),
			},
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
	}
	path, err := keysetPath(c)
	if err != nil {
		return failed(err)
	}
	keys, err := codec.LoadKeyset(path)
	if err != nil {
		return failed(err)
	}
	opener, err := codec.New(keys, codec.Options{Audience: c.String("audience"), MaxToken: codec.HardMaxToken, MaxPlaintext: codec.HardMaxPlaintext})
	if err != nil {
		return failed(err)
	}
	var found codec.Explanation
	purpose := ""
	for _, purpose = range purposes {
		if found = opener.Explain(codec.Binding{Purpose: purpose}, time.Now(), token); found.Claims != nil {
			break
		}
	}
	if err := p.printExplanation(&found, purpose); err != nil {
		return failed(err)
	}
	if found.Reason != 0 {
		return failed(fmt.Errorf("a server would refuse this token (%s): %s", found.Reason, found.Detail))
	}
	return nil
}

func (p *program) printExplanation(x *codec.Explanation, purpose string) error {
	table := tabwriter.NewWriter(p.stdout, 0, 4, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, plain.Line(fmt.Sprintf(format, args...)))
	}
	if x.Version != "" {
		row("format", "%s, %d characters", x.Version, x.Length)
		row("key", "%s%s", keyID(x.KeyID), keyRemark(x.Key))
	}
	if claims := x.Claims; claims != nil {
		row("made for", "%s", purpose)
		row("saga", "%s, after %d turns", claims.ID, claims.Turn)
		row("tool", "%s, revision %d", claims.Tool, claims.Revision)
		row("issued", "%s", when(claims.IssuedAt))
		row("expires", "%s", when(claims.ExpiresAt))
		if !claims.Deadline.IsZero() {
			row("deadline", "%s", when(claims.Deadline))
		}
		row("holds", "%d bytes of state, %d secret (%s in %d bytes, %d of padding)", x.StateLen, x.SecretLen, x.Coding, x.BodyLen, x.PaddingLen)
		row("state", "%s", x.State)
		if len(x.Apart) > 0 {
			row("own state", "%s", x.Apart)
		}
		if len(x.Plain) > 0 {
			row("effects", "%s", x.Plain)
		}
	}
	return table.Flush()
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
