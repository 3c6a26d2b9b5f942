package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/state"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/sessionid"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// maxTokenInput limits what is read as a token, in bytes.
const maxTokenInput = 4 * tokens.HardMaxToken

func keysetFlags() []cli.Flag {
	return []cli.Flag{
		stringFlag("keyset", "the keyset `FILE` (default: this user's own)", ""),
		stringFlag("audience", "the `NAME` of the deployment", ""),
	}
}

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
who identified themselves cannot be opened here: they are bound to the caller. Of a state
that is kept in a ledger the token holds a reference only.

The id of a session and the token that resumes a request are tokens as well; what they hold
is not shown.

Exits with 1 if a server would refuse the token, after saying why.

Example:
   saga token explain --keyset /etc/saga/keyset.json --audience prod - < token.txt`,
			Flags:  keysetFlags(),
			Action: p.explainToken,
		}},
	}
}

func (p *program) explainToken(_ context.Context, c *cli.Command) error {
	token, err := p.oneArgument(c, "token")
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
	opener, err := tokenOpener(c)
	if err != nil {
		return failed(nameServers(err))
	}
	x := inspect(opener, token)
	err = p.printExplanation(x)
	switch {
	case err != nil:
	case x.Reason == tokens.ReasonMalformed:
		err = fmt.Errorf("a server would refuse this token (%s): %s\nLook whether all of it was copied, and nothing else", x.Reason, x.Detail)
	case x.Reason != "":
		err = fmt.Errorf("a server would refuse this token (%s): %s", x.Reason, x.Detail)
	case x.err != nil:
		err = fmt.Errorf("what the token holds cannot be read here: %w", x.err)
	}
	return failed(err)
}

func (p *program) printExplanation(x *inspection) error {
	table := p.table()
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, plain.Line(fmt.Sprintf(format, args...)))
	}
	// What has another version has another layout, if it is a token at all.
	if x.Version != "" && x.Reason != tokens.ReasonVersion {
		row("format", "%s, %s", x.Version, count(x.Length, "character"))
		if x.Reason != tokens.ReasonMalformed { // else it was not read
			row("key", "%s, %s", keyID(x.KeyID), keyRemark(x.Key))
		}
	}
	if claims := x.Claims; claims != nil {
		made := x.purpose
		switch {
		case x.purpose == sessionid.Purpose:
			made = "a session"
		case x.resumesRequest():
			made = "resuming a request"
		case x.purpose == turns.Paged.Purpose:
			made = "the next part of a result"
		}
		row("made for", "%s", made)
		if claims.Tool != "" {
			row("saga", "%s, after %s", claims.ID, count(int(claims.Turn), "turn"))
			row("tool", "%s, revision %d", claims.Tool, claims.Revision)
		}
		row("issued", "%s", when(claims.IssuedAt))
		if !x.resumesRequest() { // else it is good as long as the request's task is kept
			row("expires", "%s", when(claims.ExpiresAt))
		}
		if !claims.Deadline.IsZero() {
			row("deadline", "%s", when(claims.Deadline))
		}
		switch {
		case x.apart:
			row("holds", "a reference to the server's ledger, where the state is")
		case claims.Tool != "":
			row("holds", "%s of state, %d secret (%s in %d bytes, %d of padding)", count(x.StateLen, "byte"), x.SecretLen, x.Coding, x.BodyLen, x.PaddingLen)
		}
	}
	switch d := x.holds; {
	case d == nil:
		return table.Flush()
	case d.Next == "":
		row("continues", "not at all: it can only be undone")
	case d.Flow:
		row("continues", "in the flow")
	default:
		row("continues", "in the step function %q", d.Next)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return p.printHolds(x.holds)
}

func keyRemark(key *codec.KeyInfo) string {
	switch {
	case key == nil:
		return "which is not in the keyset"
	case key.Primary:
		return "the primary"
	}
	return key.Status()
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

// purposes are what the server's dialects seal tokens for. A token can be opened
// only with the one it was made for, so all are tried.
var purposes = []string{"saga", "mrtr", "handshake", sessionid.Purpose, sessionid.ResumePurpose}

// tokenOpener opens tokens with the keys of --keyset, or this user's own, and the audience of
// --audience.
func tokenOpener(c *cli.Command) (*tokens.Codec, error) {
	path, err := keysetPath(c)
	if err != nil {
		return nil, err
	}
	keys, err := codec.LoadKeyset(path)
	if err != nil {
		return nil, err
	}
	return tokens.New(keys, tokens.Options{Audience: c.String("audience"), MaxToken: tokens.HardMaxToken, MaxPlaintext: tokens.HardMaxPlaintext})
}

// inspection is what can be seen of a token.
type inspection struct {
	tokens.Explanation
	// purpose is what the token was made for.
	purpose string
	// holds is the saga that it holds; nil if it is not authentic or holds none, if err says why
	// not, or if the saga is kept apart, in a ledger.
	holds *engine.Description
	apart bool
	err   error
}

func inspect(opener *tokens.Codec, token string) *inspection {
	var x *inspection
	for _, purpose := range purposes {
		x = &inspection{purpose: purpose}
		x.Explanation = opener.Explain(tokens.Binding{Purpose: purpose}, time.Now(), token, x.see)
		if x.Claims != nil {
			break
		}
	}
	return x
}

// resumesRequest reports whether the token resumes a request, rather than a saga.
func (x *inspection) resumesRequest() bool {
	return x.purpose == sessionid.ResumePurpose && x.Claims.Tool == ""
}

// see reads what the token holds.
func (x *inspection) see(all *tokens.Contents) {
	switch {
	case all.Claims.Tool == "": // it is no saga's
	case turns.KeptApart(all):
		x.apart = true
	default:
		var position engine.Position
		if x.err = position.Restore(engine.Encoded{Body: all.State, State: all.Apart, Effects: all.Plain, Secrets: all.Secret}); x.err != nil {
			return
		}
		var holds engine.Description
		if holds, x.err = position.Describe(); x.err == nil {
			x.holds = &holds
		}
	}
}

// printHolds prints what a saga holds as JSON. A state in an encoding of the tool's own is a
// text, or its bytes in base64.
func (p *program) printHolds(d *engine.Description) error {
	shown := struct {
		*engine.Description
		State any `json:"state,omitempty"`
	}{Description: d}
	switch {
	case len(d.State) == 0:
	case json.Valid(d.State):
		shown.State = json.RawMessage(d.State)
	case utf8.Valid(d.State):
		shown.State = string(d.State)
	default:
		shown.State = d.State
	}
	return p.printJSON(shown)
}
