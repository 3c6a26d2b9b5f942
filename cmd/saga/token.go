package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/state"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/sessionid"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// maxTokenInput limits what is read as a token, in bytes.
const maxTokenInput = 4 * tokens.HardMaxToken

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
who identified themselves cannot be opened here: they are bound to the caller. What a token
refers to in a ledger is shown if the ledger can be read here.

The id of a session and the token that resumes a request are tokens as well; whose they are
is not shown.

Exits with 1 if a server would refuse the token, after saying why.

Example:
   saga token explain --keyset /etc/saga/keyset.json --audience prod - < token.txt`,
			Flags:  append(keysetFlags(), ledgerFlag("this user's own")),
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
		return failed(nameServers(look.err))
	}
	found := look.inspect(token)
	if found.apart && ledgerOf(c).isOpenToCommands() {
		return p.withLedger(ctx, c, func(o *durable.Operator) error {
			look.parts = func(x *tokens.Contents) (engine.Encoded, error) { return turns.Parts(ctx, o.Blob, "", x) }
			return p.explain(look.inspect(token))
		})
	}
	return p.explain(found)
}

// explain prints what was found, and fails if a server would refuse it.
func (p *program) explain(found *inspection) error {
	if err := p.printExplanation(found); err != nil {
		return failed(err)
	}
	if found.Reason == tokens.ReasonMalformed {
		return failed(fmt.Errorf("a server would refuse this token (%s): %s\nLook whether all of it was copied, and nothing else", found.Reason, found.Detail))
	}
	if found.Reason != "" {
		return failed(fmt.Errorf("a server would refuse this token (%s): %s", found.Reason, found.Detail))
	}
	if found.err != nil {
		return failed(fmt.Errorf("what the token holds cannot be read here: %w", found.err))
	}
	return nil
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
			row("key", "%s%s", keyID(x.KeyID), keyRemark(x.Key))
		}
	}
	switch claims := x.Claims; {
	case claims == nil:
	case x.purpose == sessionid.Purpose:
		row("made for", "a session")
		row("session", "%s", claims.ID)
		if x.session != nil {
			row("protocol", "MCP %s", sessionid.Revisions[x.session.Revision])
			row("client has", "%s", cmp.Or(x.session.Features.String(), "nothing that can be asked"))
			if x.session.Guest {
				row("", "asynchronous tools")
			}
			if x.session.Resumable {
				row("", "resumable requests")
			}
			row("log level", "%s, unless the client has set another since", x.session.Level)
		}
		row("issued", "%s", when(claims.IssuedAt))
		row("expires", "%s", when(claims.ExpiresAt))
	case x.resumesRequest():
		row("made for", "resuming a request")
		if x.resumes != nil {
			row("request", "with the id %s", x.resumes)
		}
		row("issued", "%s", when(claims.IssuedAt))
		row("goes on", "as long as the request's task is kept")
	default:
		made := x.purpose
		if made == turns.Paged.Purpose {
			made = "the next part of a result"
		}
		row("made for", "%s", made)
		row("saga", "%s, after %s", claims.ID, count(int(claims.Turn), "turn"))
		row("tool", "%s, revision %d", claims.Tool, claims.Revision)
		row("issued", "%s", when(claims.IssuedAt))
		row("expires", "%s", when(claims.ExpiresAt))
		if !claims.Deadline.IsZero() {
			row("deadline", "%s", when(claims.Deadline))
		}
		switch {
		case !x.apart:
			row("holds", "%s of state, %d secret (%s in %d bytes, %d of padding)", count(x.StateLen, "byte"), x.SecretLen, x.Coding, x.BodyLen, x.PaddingLen)
		case x.holds == nil && x.err == nil:
			row("holds", "a reference to the server's ledger, where the state is; name that with --ledger to see it")
		default:
			row("holds", "a reference to the server's ledger, where the state is")
		}
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
	return fmt.Sprintf(", %s", key.Status())
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

// inspector opens tokens, if it has keys.
type inspector struct {
	codec *tokens.Codec
	err   error
	// parts reads what a token refers to; nil if the ledger is not to be asked.
	parts func(*tokens.Contents) (engine.Encoded, error)
}

// newInspector has the keys of --keyset, or this user's own, and the audience of
// --audience.
func newInspector(c *cli.Command) *inspector {
	path, err := keysetPath(c)
	if err != nil {
		return &inspector{err: err}
	}
	keys, err := codec.LoadKeyset(path)
	if err != nil {
		return &inspector{err: err}
	}
	opener, err := tokens.New(keys, tokens.Options{Audience: c.String("audience"), MaxToken: tokens.HardMaxToken, MaxPlaintext: tokens.HardMaxPlaintext})
	return &inspector{codec: opener, err: err}
}

// inspection is what can be seen of a token.
type inspection struct {
	tokens.Explanation
	// purpose is what the token was made for.
	purpose string
	// holds is what it holds; nil if it is not authentic, if err says why not, or if that is
	// kept apart, in a ledger that was not asked.
	holds *engine.Description
	apart bool
	err   error
	// session is what it holds if it is the id of a session, resumes the id of the request that
	// it resumes, as JSON.
	session *sessionid.Terms
	resumes json.RawMessage
}

// inspect opens a token. It returns nil without keys.
func (l *inspector) inspect(token string) *inspection {
	if l.err != nil {
		return nil
	}
	var s *inspection
	for _, purpose := range purposes {
		s = &inspection{purpose: purpose}
		s.Explanation = l.codec.Explain(tokens.Binding{Purpose: purpose}, time.Now(), token, func(x *tokens.Contents) { s.see(x, l.parts) })
		if why := (*tokens.Rejected)(nil); s.Reason == "" && errors.As(s.err, &why) {
			s.Reason, s.Detail = why.Reason, why.Detail.Error() // which err keeps to itself
		}
		if s.Claims != nil {
			break
		}
	}
	return s
}

// see reads what the token holds.
func (s *inspection) see(all *tokens.Contents, read func(*tokens.Contents) (engine.Encoded, error)) {
	switch s.purpose {
	case sessionid.Purpose:
		if terms, ok := sessionid.Parse(all.State); ok {
			s.session = &terms
			return
		}
		s.err = errors.New("a newer program has made this session id")
	case sessionid.ResumePurpose:
		if all.Claims.Tool != "" { // it is of a saga, for the next part of its result
			s.describe(all, read)
			return
		}
		var ticket struct {
			ID json.RawMessage `json:"i"`
		}
		if s.err = json.Unmarshal(all.State, &ticket); s.err == nil {
			s.resumes = ticket.ID
		}
	default:
		s.describe(all, read)
	}
}

// resumesRequest reports whether the token resumes a request, rather than a saga.
func (s *inspection) resumesRequest() bool {
	return s.purpose == sessionid.ResumePurpose && s.Claims.Tool == ""
}

func (s *inspection) describe(all *tokens.Contents, read func(*tokens.Contents) (engine.Encoded, error)) {
	parts := engine.Encoded{Body: all.State, State: all.Apart, Effects: all.Plain, Secrets: all.Secret}
	if s.apart = turns.KeptApart(all); s.apart {
		if read == nil {
			return
		}
		if parts, s.err = read(all); s.err != nil {
			return
		}
	}
	var position engine.Position
	var holds engine.Description
	if s.err = position.Restore(parts); s.err == nil {
		holds, s.err = position.Describe()
	}
	if s.err == nil {
		s.holds = &holds
	}
}

// maxDump limits how much is shown of a state that is not text, in bytes.
const maxDump = 512

// printHolds prints as rows what a token holds, as far as that is short.
func (p *program) printHolds(d *engine.Description, row func(name, format string, args ...any)) {
	switch {
	case d.Next == "":
		row("goes on", "not at all: it can only be undone")
	case d.Flow:
		row("goes on", "in the flow")
	default:
		row("goes on", "in the step function %q", d.Next)
	}
	for i, step := range d.Steps {
		name, remark := "", ""
		if i == 0 {
			name = "asked"
		}
		if step.Answer != nil {
			remark = ", has been answered"
		}
		if step.Refused > 0 {
			remark += fmt.Sprintf(", after %s that did not fit", count(step.Refused, "answer"))
		}
		row(name, "%s%s", step.ID, remark)
	}
	if len(d.Secrets) > 0 {
		row("secrets", "%s: hidden; in the state they are null", strings.Join(d.Secrets, ", "))
	}
}

// printContents prints the parts of a token that take several lines.
func (p *program) printContents(d *engine.Description) {
	part := func(name string, value []byte) {
		if len(value) > 0 {
			p.print("\n" + name + ":\n" + indent(readable(value)))
		}
	}
	part("arguments", d.Arguments)
	part("state", d.State)
	for _, step := range d.Steps {
		part("answer to "+step.ID, step.Answer)
	}
	for _, answer := range d.Answers {
		part("answer to "+answer.ID, answer.Answer)
	}
	for _, e := range d.Effects {
		name := "effect " + e.Name
		if e.N > 1 {
			name += fmt.Sprintf(" (number %d)", e.N)
		}
		p.print("\n" + name + ": " + e.Status)
		p.print(indent("given " + readable(e.Input)))
		if e.Output != nil {
			p.print(indent("returned " + readable(e.Output)))
		}
		if e.Problem != "" {
			p.print(indent("because " + e.Problem))
		}
		for _, name := range e.Secrets {
			p.print(indent(strings.TrimSpace("secret "+name) + ": hidden"))
		}
	}
}

// readable shows a value: JSON indented, text as it is, and everything else as the
// bytes that it is.
func readable(value []byte) string {
	var indented bytes.Buffer
	switch {
	case json.Indent(&indented, value, "", "  ") == nil:
		return indented.String()
	case utf8.Valid(value) && !bytes.ContainsFunc(value, isBinary):
		return string(value)
	}
	shown := value[:min(len(value), maxDump)]
	text := fmt.Sprintf("%s in an encoding of the tool's own\n%s", count(len(value), "byte"), strings.TrimRight(hex.Dump(shown), "\n"))
	if more := len(value) - len(shown); more > 0 {
		text += fmt.Sprintf("\n… and %s more", count(more, "byte"))
	}
	return text
}

// isBinary reports whether a character is none of a text.
func isBinary(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' || r == 0x7f }

func indent(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }
