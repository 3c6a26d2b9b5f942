package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/saga"
)

// opening is an authentic token: the position it holds and who goes on from it.
type opening struct {
	tool *saga.Tool
	pos  *saga.Position
	// gone is why the saga cannot go on though it has begun effects, which are to
	// be undone: its token came too late, its revision is no longer served, or the
	// tool has no longer what it waits in.
	gone *tokens.Rejected
	// early: the token is of the future, so the saga can go on when the clocks agree.
	early *tokens.Rejected
}

func (o *opening) attrs() []any {
	return []any{"tool", o.tool.Name, "saga", o.pos.ID.String(), "token", o.gone}
}

// errNewer is the reason why a token is to be taken elsewhere, or later: during a
// deployment, replicas of the old and the new version stand side by side.
var errNewer = errors.New("the token is of a newer revision of the tool than this server has")

// errEarly is the reason why a token is to be taken later, or elsewhere: the clock of
// this server is behind the one that it was sealed by, or was set back since.
var errEarly = errors.New("the token is of the future: look at the clocks of the replicas")

// openToken returns what a token holds. A tool that the request names must be
// the token's. The error is a *tokens.Rejected, which all look the same to the
// client, or errNewer.
func (s *Server) openToken(c caller, named *saga.Tool, args json.RawMessage, token string) (*opening, error) {
	now := s.opts.Now()
	x, late, err := s.codec.OpenAnyTime(c.binding(), now, token)
	var refused *tokens.Rejected
	if errors.As(err, &refused) && (refused.Reason == tokens.ReasonFormat || refused.Reason == tokens.ReasonTooLarge) {
		// It is authentic: a replica whose program is newer knows how to read it.
		return nil, fmt.Errorf("%w, or %v", errNewer, refused.Detail)
	}
	if err != nil {
		return nil, err
	}
	var early *tokens.Rejected
	if late != nil && late.Reason == tokens.ReasonNotYetValid {
		late, early = nil, late
		if c.held() { // the token never left this process: nothing depends on its clock
			early = nil
		}
	}
	if late != nil && !c.held() {
		last := x.Claims.ExpiresAt.Add(s.codec.Options().Skew + max(s.opts.UndoGrace, 0))
		if s.opts.UndoGrace < 0 || !now.Before(last) {
			return nil, tokens.Reject(late.Reason, "%w, which is too long ago even to undo what the saga did", late.Detail)
		}
	}
	kind, name := parseTarget(x.Claims.Tool)
	newest := s.tools.Find(kind, name)
	if newest == nil || named != nil && target(named) != x.Claims.Tool {
		return nil, tokens.Reject(tokens.ReasonTool, "the token is for %q, which is not what was called or not served here", x.Claims.Tool)
	}
	if c.named != "" && c.named != name {
		return nil, tokens.Reject(tokens.ReasonTool, "the token is for %q, but the header %s says %q", x.Claims.Tool, nameHeader, c.named)
	}
	o := &opening{
		tool: s.tools.Reader(kind, name, x.Claims.Revision),
		pos: &saga.Position{
			ID: saga.ID(x.Claims.ID), Turn: x.Claims.Turn, Tool: name, Revision: x.Claims.Revision,
			Deadline: x.Claims.Deadline,
		},
		gone: late, early: early,
	}
	if err := o.pos.Restore(saga.Encoded{Body: x.State, State: x.Apart, Effects: x.Plain, Secrets: x.Secret}); err != nil {
		return nil, tokens.Reject(tokens.ReasonState, "%w", err)
	}
	if c.resends && !c.cancels {
		digest, err := digestArguments(o.pos.ID, args)
		if err != nil || string(digest) != string(x.Claims.Request) {
			return nil, tokens.Reject(tokens.ReasonRequest, "the arguments are not those of the first turn")
		}
	}
	if o.tool == nil {
		if x.Claims.Revision > newest.Revision {
			return nil, errNewer
		}
		o.tool = newest
		o.gone = tokens.Reject(tokens.ReasonRevision, "the token is of revision %d of %q, which is no longer served", x.Claims.Revision, name)
	}
	if o.gone != nil && !o.pos.HasEffects() {
		return nil, o.gone
	}
	return o, nil
}

// parseTarget is the reverse of target.
func parseTarget(s string) (saga.Kind, string) {
	for _, kind := range []saga.Kind{saga.KindPrompt, saga.KindResource} {
		if name, ok := strings.CutPrefix(s, kind.String()+":"); ok {
			return kind, name
		}
	}
	return saga.KindTool, s
}

// abandon undoes the effects of a saga that cannot go on.
func (s *Server) abandon(ctx context.Context, c caller, o *opening) (turn, error) {
	why := "The saga came back too late and has ended."
	switch o.gone.Reason {
	case tokens.ReasonRevision:
		why = "The saga cannot go on: this version of the tool is no longer served. Start again."
	case tokens.ReasonState:
		why = "The saga cannot go on: the tool has changed since it began. Start again."
	}
	s.log.Log(ctx, levelOf(o.gone.Reason), "saga abandoned", o.attrs()...)
	lazy := newLazyContext(ctx, time.Now().Add(s.opts.TurnTimeout))
	defer lazy.cancel()
	out, err := o.tool.Abandon(lazy, o.pos, why)
	return s.ended(c, o.tool, o.pos.ID, nil, out, err)
}
