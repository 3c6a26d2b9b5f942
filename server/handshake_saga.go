package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// errLate: a client did not answer in time.
var errLate = errors.New("no answer came in time")

// maxPauses bounds the turns in a row that ask nothing, in the request of a client
// that cannot be told to come back: more is a tool that pauses for ever.
const maxPauses = 1000

var errPauses = fmt.Errorf("the tool paused %d times in a row", maxPauses)

// Codes of the client errors that the server notes for a client.
const (
	codeLate      = -32001
	codeMalformed = -32602
)

// patience is how long the client has to answer what one turn asks: a little less
// than the token is good for, so that the saga can still be told that nobody
// answered.
func (d *handshake) patience() time.Duration {
	ttl := d.opts.TokenTTL
	if ttl <= 0 {
		ttl = tokens.DefaultTTL
	}
	return ttl - ttl/10
}

// drive runs a saga to its end. Each turn ends with a sealed token and each next
// one opens it, as if the client had carried it; so nothing of a saga is between
// two turns but the token, here as in the other dialects.
func (c *legacyCall) drive(ctx context.Context, t *saga.Tool, args json.RawMessage) (saga.Outcome, error) {
	links := newLinks(c.peer.revision)
	pauses := 0
	now, err := c.call(ctx, c.caller, t, args)
	for err == nil && now.token != "" {
		token := now.token
		if len(now.steps) > 0 {
			pauses = 0
		} else if pauses++; pauses > maxPauses {
			err = errPauses
			c.giveUp(ctx, t, token, err)
			break
		}
		var answers []steps.Answer
		if answers, err = c.askAll(ctx, now.steps, links); err == nil {
			now, err = c.goOn(ctx, t, token, answers)
		}
		if err != nil {
			c.giveUp(ctx, t, token, err)
		}
	}
	if err == nil && (now.Result == nil || !now.Result.IsError) {
		links.complete(c.to)
	}
	return now.Outcome, err
}

// askAll sends a turn's steps to the client, all at once, and waits for all.
func (c *legacyCall) askAll(ctx context.Context, asked []steps.Step, links *links) ([]steps.Answer, error) {
	if c.peer.answering.Err() != nil {
		return nil, context.Cause(c.peer.answering)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.peer.answering, func() { cancel(context.Cause(c.peer.answering)) })()
	late := time.AfterFunc(c.patience(), func() { cancel(errLate) })
	defer late.Stop()
	answers := make([]steps.Answer, len(asked))
	errs := make([]error, len(asked))
	var all sync.WaitGroup
	for i, step := range asked {
		method, params, err := stepRequest(c.peer.revision, step, links)
		if err != nil {
			cancel(err)
			errs[i] = err
			break
		}
		all.Go(func() {
			answers[i], errs[i] = c.to.ask(ctx, method, params)
			if errors.Is(errs[i], errLate) {
				answers[i], errs[i] = steps.Answer{Error: &steps.ClientError{Code: codeLate, Message: errLate.Error()}}, nil
			}
			answers[i].StepID = step.ID
		})
	}
	all.Wait()
	links.note(asked, answers)
	return answers, errors.Join(errs...)
}

// goOn resumes a saga. An answer that is not of MCP's form is a fault in the
// client that asking again would not mend: it counts as the client's failure to
// perform the step, which the tool can handle, rather than leave the saga hanging.
func (c *legacyCall) goOn(ctx context.Context, t *saga.Tool, token string, answers []steps.Answer) (turn, error) {
	for {
		now, err := c.resume(ctx, c.caller, t, nil, token, answers)
		var wrong *saga.AnswerError
		if !errors.As(err, &wrong) {
			return now, err
		}
		c.log.Info("answer not usable", "tool", t.Name, "step", wrong.StepID, "reason", wrong.Reason)
		if !discard(answers, wrong) {
			return turn{}, err
		}
	}
}

// giveUp ends a saga that nobody can go on with, as its token does not leave the
// server: what it has done is undone, unless that was seen to already.
func (c *legacyCall) giveUp(ctx context.Context, t *saga.Tool, token string, why error) {
	var undone *saga.UndoneError
	if errors.Is(why, tokens.ErrRejected) || errors.As(why, &undone) {
		return
	}
	if _, err := c.cancel(context.WithoutCancel(ctx), c.caller, nil, token, nil); err != nil {
		c.log.Error("saga not ended", "tool", t.Name, "error", err)
	}
}

// discard replaces a wrong answer by a failure. It reports false if that does not
// help because it is one already.
func discard(answers []steps.Answer, wrong *saga.AnswerError) bool {
	for i := range answers {
		if a := &answers[i]; a.StepID == wrong.StepID && a.Result != nil {
			a.Result, a.Error = nil, &steps.ClientError{Code: codeMalformed, Message: "the answer is malformed: " + wrong.Reason}
			return true
		}
	}
	return false
}

// stopped turns an end that the caller of a tool should read about into a result.
func (c *legacyCall) stopped(err error) *saga.Result {
	var lacking *saga.UnsupportedError
	var rejected *tokens.Rejected
	var text string
	switch {
	case errors.As(err, &lacking):
		text = c.lacks(lacking)
	case errors.As(err, &rejected):
		text = "The call took too long to answer, or the server was changed meanwhile. Call the tool again."
		c.log.Log(context.Background(), levelOf(rejected.Reason), "token refused", "token", rejected)
	default:
		return nil
	}
	r := saga.TextResult("%s", text)
	r.IsError = true
	return r
}

// lacks says what the client would have to be able to do.
func (c *legacyCall) lacks(e *saga.UnsupportedError) string {
	what := fmt.Sprintf("%q cannot be used", e.Tool)
	if e.StepID != "" {
		what = fmt.Sprintf("%q cannot ask %q", e.Tool, e.StepID)
	}
	if c.to == nil {
		return what + ": the request does not accept text/event-stream, so the client cannot be asked"
	}
	lacking := e.Needs &^ c.features(c.caller)
	if unknown := lacking &^ c.peer.revision.has(); unknown != 0 {
		return fmt.Sprintf("%s: the client's protocol version %v does not have %v", what, c.peer.revision, unknown)
	}
	return fmt.Sprintf("%s: this client has not declared %v", what, lacking)
}
