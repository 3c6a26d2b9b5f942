package program

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/cmd/program/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/state"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/sessionid"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

func (p *program) keysetFlags() []cli.Flag {
	return []cli.Flag{
		p.keysetFlag(), p.kmsFlag(),
		p.stringFlag("audience", "the `NAME` of the deployment", p.server.Audience),
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
			Description: `Needs the keyset that sealed the token, and the audience of the deployment. It prints the
state of the saga, which clients never see; its secret part is not shown. Tokens of callers
who identified themselves cannot be opened here: they are bound to the caller. Of a state
that is kept in a ledger the token holds a reference only.

The id of a session and the token that resumes a request are tokens as well; what they hold
is not shown. A resumeToken of 22 characters is none: its call is in the server's ledger.

Exits with 1 if a server would refuse the token, after saying why, or if that cannot be said.

Example:
   {program} token explain --keyset /etc/{program}/keyset.json --audience prod - < token.txt`,
			Flags:  p.keysetFlags(),
			Action: p.explainToken,
		}},
	}
}

func (p *program) explainToken(ctx context.Context, c *cli.Command) error {
	token, err := p.oneArgument(c, "token")
	if err != nil {
		return err
	}
	if token == "-" {
		data, err := p.input(token)
		if err != nil {
			return failed(err)
		}
		token = strings.TrimSpace(string(data))
	} else if saved, err := state.Load(state.Path(token)); err == nil {
		if token = saved.Position.Token; token == "" {
			return failed(fmt.Errorf("the saved call %s has no token: the server holds it, as a task, or has not answered yet", plain.Line(c.Args().First())))
		}
	}
	keys, err := p.namedKeys(ctx, c)
	if err != nil {
		return err
	}
	opener, err := tokens.New(keys, tokens.Options{Audience: c.String("audience"), MaxToken: tokens.HardMaxToken, MaxPlaintext: tokens.HardMaxPlaintext})
	if err != nil {
		return failed(err)
	}
	shown, refused := explain(opener, token)
	if err := p.printJSON(shown); err != nil {
		return err
	}
	return failed(refused)
}

// explanation is what token explain prints, as JSON.
type explanation struct {
	Key      string    `json:"key,omitempty"`
	MadeFor  string    `json:"madeFor,omitempty"`
	ID       string    `json:"id,omitempty"`
	Turn     uint32    `json:"turn,omitempty"`
	Tool     string    `json:"tool,omitempty"`
	Revision uint32    `json:"revision,omitempty"`
	Issued   time.Time `json:"issued,omitzero"`
	Expires  time.Time `json:"expires,omitzero"`
	Deadline time.Time `json:"deadline,omitzero"`
	// State is a text, or base64, if it is in an encoding of the tool's own.
	State any `json:"state,omitempty"`
	*engine.Description
}

// purposes are what the server's dialects seal tokens for, and how that is shown. A token can be opened
// only with the one it was made for, so all are tried.
var purposes = map[string]string{
	"saga": "saga", "mrtr": "mrtr", "handshake": "handshake", sessionid.Purpose: "a session", turns.Paged.Purpose: "the next part of a result",
	turns.Relayed.Purpose: "a call that its client's model continues",
}

// explain returns what can be seen of a token, and why a server would refuse it, or why what it holds cannot
// be read.
func explain(opener *tokens.Codec, token string) (shown explanation, refused error) {
	see := func(all *tokens.Contents) {
		if all.Claims.Tool != "" { // else it is no saga's
			refused = shown.showSaga(all)
		}
	}
	var x tokens.Explanation
	for purpose, is := range purposes {
		if x = opener.Explain(tokens.Binding{Purpose: purpose}, time.Now(), token, see); x.Claims != nil {
			shown.MadeFor = is
			break
		}
	}
	switch x.Reason {
	case "":
	case tokens.ReasonMalformed:
		return shown, fmt.Errorf("a server would refuse this token (%s): %s\nLook whether all of it was copied, and nothing else", x.Reason, x.Detail)
	case tokens.ReasonAuthentication:
		refused = fmt.Errorf("this command cannot say whether a server would accept the token (%s): either it is bound to a caller who identified themselves, or it was altered, or made for another --audience", x.Reason)
	default:
		refused = fmt.Errorf("a server would refuse this token (%s): %s", x.Reason, x.Detail)
	}
	switch {
	case x.Version == "", x.Reason == tokens.ReasonVersion: // what has another version has another layout
	case x.Key == nil:
		shown.Key = keyID(x.KeyID) + ", which is not in the keyset"
	case x.Key.Primary:
		shown.Key = keyID(x.KeyID) + ", the primary"
	default:
		shown.Key = keyID(x.KeyID) + ", " + x.Key.Status()
	}
	if claims := x.Claims; claims != nil {
		shown.ID, shown.Turn, shown.Tool, shown.Revision = claims.ID.String(), claims.Turn, claims.Tool, claims.Revision
		shown.Issued, shown.Expires, shown.Deadline = claims.IssuedAt, claims.ExpiresAt, claims.Deadline
		if shown.MadeFor == purposes[sessionid.ResumePurpose] && claims.Tool == "" {
			// It is for the same purpose, and good as long as the request's task is kept.
			shown.MadeFor, shown.Expires = "resuming a request", time.Time{}
		}
	}
	return shown, refused
}

func (x *explanation) showSaga(all *tokens.Contents) error {
	if turns.KeptApart(all) {
		x.State = "kept in the server's ledger"
		return nil
	}
	var position engine.Position
	var holds engine.Description
	err := position.Restore(engine.Encoded{Body: all.State, State: all.Apart, Effects: all.Plain, Secrets: all.Secret})
	if err == nil {
		holds, err = position.Describe()
	}
	if err != nil {
		return fmt.Errorf("what the token holds cannot be read here: %w", err)
	}
	x.Description = &holds
	x.State = readable(holds.State)
	return nil
}

// readable returns a state so that it can be read in JSON, as far as it can.
func readable(state []byte) any {
	switch {
	case len(state) == 0:
		return nil
	case json.Valid(state):
		return json.RawMessage(state)
	case utf8.Valid(state):
		return string(state)
	}
	return state
}
