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
			Description: `Needs the keyset that sealed the token, and the audience of the deployment. It prints the
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
	err = p.printJSON(x.explanation())
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

// explanation is what token explain prints, as JSON.
type explanation struct {
	Format     string    `json:"format,omitempty"`
	Characters int       `json:"characters,omitempty"`
	Key        string    `json:"key,omitempty"`
	MadeFor    string    `json:"madeFor,omitempty"`
	ID         string    `json:"id,omitempty"`
	Turn       uint32    `json:"turn,omitempty"`
	Tool       string    `json:"tool,omitempty"`
	Revision   uint32    `json:"revision,omitempty"`
	Issued     time.Time `json:"issued,omitzero"`
	Expires    time.Time `json:"expires,omitzero"`
	Deadline   time.Time `json:"deadline,omitzero"`
	Continues  string    `json:"continues,omitempty"`
	// State is a text, or base64, if it is in an encoding of the tool's own.
	State any    `json:"state,omitempty"`
	Size  string `json:"size,omitempty"`
	*engine.Description
}

func (x *inspection) explanation() explanation {
	shown := explanation{Description: x.holds}
	// What has another version has another layout, if it is a token at all.
	if x.Version != "" && x.Reason != tokens.ReasonVersion {
		shown.Format, shown.Characters = x.Version, x.Length
		switch {
		case x.Reason == tokens.ReasonMalformed: // then the key was not read
		case x.Key == nil:
			shown.Key = keyID(x.KeyID) + ", which is not in the keyset"
		case x.Key.Primary:
			shown.Key = keyID(x.KeyID) + ", the primary"
		default:
			shown.Key = keyID(x.KeyID) + ", " + x.Key.Status()
		}
	}
	claims := x.Claims
	if claims == nil {
		return shown
	}
	shown.MadeFor, shown.ID, shown.Turn, shown.Tool, shown.Revision = x.purpose, claims.ID.String(), claims.Turn, claims.Tool, claims.Revision
	shown.Issued, shown.Expires, shown.Deadline = claims.IssuedAt, claims.ExpiresAt, claims.Deadline
	switch {
	case x.purpose == sessionid.Purpose:
		shown.MadeFor = "a session"
	case x.purpose == sessionid.ResumePurpose && claims.Tool == "":
		shown.MadeFor = "resuming a request"
		shown.Expires = time.Time{} // it is good as long as the request's task is kept
	case x.purpose == turns.Paged.Purpose:
		shown.MadeFor = "the next part of a result"
	}
	switch d := x.holds; {
	case x.apart:
		shown.State = "kept in the server's ledger"
	case d == nil:
	case json.Valid(d.State):
		shown.State = json.RawMessage(d.State)
	case utf8.Valid(d.State) && len(d.State) > 0:
		shown.State = string(d.State)
	case len(d.State) > 0:
		shown.State = d.State
	}
	if d := x.holds; d != nil {
		shown.Size = fmt.Sprintf("%s of state, %d secret (%s in %d bytes, %d of padding)", count(x.StateLen, "byte"), x.SecretLen, x.Coding, x.BodyLen, x.PaddingLen)
		switch {
		case d.Next == "":
			shown.Continues = "not at all: it can only be undone"
		case d.Flow:
			shown.Continues = "in the flow"
		default:
			shown.Continues = fmt.Sprintf("in the step function %s", d.Next)
		}
	}
	return shown
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
