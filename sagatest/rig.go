package sagatest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// rig is a server of which nothing survives a turn but its keys: every turn has a
// tool made from the definition, and a codec made from the keys. What goes from one
// turn to the next goes through the client, as a token.
type rig struct {
	definition saga.Definition
	args       json.RawMessage
	keys       *codec.Keyset
	now        time.Time
	client     steps.Features
	watch      *watch
	// codec is used for all turns if it is set: making one is what takes most of
	// the time of a turn.
	codec *tokens.Codec
	// resends: the client sends the arguments every time, so that the token need
	// not hold them.
	resends bool
	// id is that of the first saga.
	id    saga.ID
	turns int
	heard heard
}

// binding is that of all tokens of the test kit.
var binding = tokens.Binding{Purpose: "sagatest"}

var codecOptions = tokens.Options{Audience: "https://sagatest.example"}

// request is what the client sends: without a token, a call of the tool.
type request struct {
	token   string
	answers []steps.Answer
	cancels bool
}

// reply is what comes of a request.
type reply struct {
	// cut: the turn was cut off; there is no response.
	cut bool
	// err says that the turn failed, with a JSON-RPC error as its response.
	err error
	// token and steps are there if the saga is suspended, at position.
	token    string
	steps    []steps.Step
	position *saga.Position
	// out is there if the saga has ended.
	out *saga.Outcome
	// reworded are questions that are asked anew although the code is the same.
	reworded []string
	// again is a token with which undo that has failed can be tried again, if any has.
	again string
	// cancelled and late: it ended because it was cancelled, or came too late.
	cancelled, late bool
	// undone: it ended because its turn failed and nobody can take that again.
	undone bool
}

// errGoexit is what comes of a t.FailNow in a tool.
var errGoexit = errors.New("the tool's code ended its goroutine: it called runtime.Goexit, or t.FailNow or t.Fatal of a test")

// send runs one turn.
func (r *rig) send(q request) (rep reply) {
	r.turns++
	ctx, cancel := context.WithCancel(sagahooks.With(context.Background(), &turnWorld{r.watch, r.turns}))
	defer cancel()
	r.watch.begin(r.turns, cancel)
	defer r.watch.end()
	ended := make(chan reply)
	go func() {
		rep, done := reply{}, false
		defer func() {
			if v := recover(); v != nil {
				rep, done = reply{err: &saga.PanicError{Value: v, Stack: debug.Stack()}}, true
			}
			if !done {
				rep = reply{err: errGoexit}
			}
			ended <- rep
		}()
		rep = r.turn(ctx, q)
		done = true
	}()
	rep = <-ended
	if r.watch.wasCut() {
		return reply{cut: true}
	}
	return rep
}

func (r *rig) turn(ctx context.Context, q request) reply {
	tools, err := saga.NewTools(r.definition)
	if err != nil {
		return reply{err: err}
	}
	c, err := r.newCodec()
	if err != nil {
		return reply{err: err}
	}
	if q.token == "" {
		tool := firstTool(tools)
		// Nobody can take a first turn again: as on a server, what it did is undone if it
		// breaks off.
		out, err := tool.Start(ctx, saga.Call{ID: r.newID(), Now: r.now, Client: r.client, Arguments: r.args, Notifier: &r.heard, Held: true})
		rep := r.ended(c, tool, out, err)
		if rep.err != nil && out != nil && out.Position != nil { // the token could not be sealed
			rep.err = r.forsake(ctx, tool, out.Position, rep.err)
		}
		rep.undone = isUndone(rep.err)
		return rep
	}
	tool, pos, late, err := r.open(c, tools, q.token)
	if err != nil {
		return reply{err: err}
	}
	if late != "" {
		if !pos.HasEffects() {
			return reply{err: errors.New(late)}
		}
		out, err := tool.Abandon(ctx, pos, late)
		rep := r.ended(c, tool, out, err)
		rep.late = true
		return rep
	}
	res := saga.Resumption{Now: r.now, Client: r.client, Answers: q.answers, Notifier: &r.heard}
	if r.resends {
		res.Arguments = r.args
		waited := pos.PendingIDs()
		res.Answers = slices.DeleteFunc(slices.Clone(q.answers), func(a steps.Answer) bool { return !slices.Contains(waited, a.StepID) })
	}
	if !q.cancels {
		out, err := tool.Resume(ctx, pos, res)
		var position *saga.PositionError
		if errors.As(err, &position) && pos.HasEffects() && pos.Next() != "" {
			// So is what a saga did that no longer fits the tool.
			out, err = tool.Abandon(ctx, pos, position.Error())
			rep := r.ended(c, tool, out, err)
			rep.late = true
			return rep
		}
		return r.ended(c, tool, out, err)
	}
	out, err := tool.Cancel(ctx, pos, res)
	rep := r.ended(c, tool, out, err)
	if rep.out != nil && rep.out.Result != nil && !rep.out.Result.IsError {
		// A turn that ended the saga well has nothing to report.
		_, rep.cancelled = rep.out.Result.Meta[saga.UndoMetaKey]
	}
	return rep
}

// forsake undoes what a saga has done whose token its client will not get.
func (r *rig) forsake(ctx context.Context, t *saga.Tool, pos *saga.Position, why error) error {
	if pos.HasEffects() {
		out, err := t.Cancel(ctx, pos, saga.Resumption{Now: r.now})
		if err == nil {
			err = out.Err
		}
		why = errors.Join(why, err)
	}
	return &saga.UndoneError{Err: why}
}

func isUndone(err error) bool {
	var undone *saga.UndoneError
	return errors.As(err, &undone)
}

func (r *rig) newCodec() (*tokens.Codec, error) {
	if r.codec != nil {
		return r.codec, nil
	}
	return tokens.New(r.keys, codecOptions)
}

func firstTool(tools *saga.Tools) *saga.Tool {
	for _, kind := range []saga.Kind{saga.KindTool, saga.KindPrompt, saga.KindResource} {
		for _, t := range tools.Of(kind) {
			return t
		}
	}
	return nil
}

// open returns what a token holds. late says why the saga cannot go on, if so.
func (r *rig) open(c *tokens.Codec, tools *saga.Tools, token string) (t *saga.Tool, pos *saga.Position, late string, err error) {
	x, rejected, err := c.OpenAnyTime(binding, r.now, token)
	if err == nil && rejected != nil && rejected.Reason == tokens.ReasonNotYetValid {
		err = rejected
	}
	if err != nil {
		return nil, nil, "", explained(err)
	}
	newest := firstTool(tools)
	pos = &saga.Position{
		ID: saga.ID(x.Claims.ID), Turn: x.Claims.Turn, Tool: x.Claims.Tool, Revision: x.Claims.Revision, Deadline: x.Claims.Deadline,
	}
	if err := pos.Restore(saga.Encoded{Body: x.State, State: x.Apart, Effects: x.Plain, Secrets: x.Secret}); err != nil {
		return nil, nil, "", err
	}
	if rejected != nil {
		late = fmt.Sprintf("The saga came back too late and has ended (%v).", rejected.Detail)
	}
	if t = tools.Reader(newest.Kind, newest.Name, pos.Revision); t == nil {
		if pos.Revision > newest.Revision {
			return nil, nil, "", fmt.Errorf("the token is of revision %d, but the tool is of revision %d", pos.Revision, newest.Revision)
		}
		t, late = newest, "The saga cannot go on: this version of the tool is no longer served. Start again."
	}
	return t, pos, late, nil
}

// explained says why a token was refused, which clients are not told.
func explained(err error) error {
	var rejected *tokens.Rejected
	if errors.As(err, &rejected) && rejected.Detail != nil {
		return fmt.Errorf("%w: %s: %w", rejected, rejected.Reason, rejected.Detail)
	}
	return err
}

func (r *rig) ended(c *tokens.Codec, t *saga.Tool, out *saga.Outcome, err error) reply {
	var failed *saga.ToolError
	if t.Kind != saga.KindTool && (errors.As(err, &failed) || errors.Is(err, saga.ErrNotFound)) {
		// So a prompt or a resource says that it has failed.
		return reply{out: &saga.Outcome{Err: err}}
	}
	if err != nil {
		return reply{err: err}
	}
	if out.Position == nil {
		rep := reply{out: out}
		if u := undoReport(out.Result); u != nil && u.Again != nil {
			rep.again, rep.err = r.seal(c, u.Again)
		}
		return rep
	}
	token, err := r.seal(c, out.Position)
	return reply{err: err, token: token, steps: out.Steps, position: out.Position, reworded: out.Reworded}
}

func (r *rig) seal(c *tokens.Codec, p *saga.Position) (string, error) {
	if r.resends {
		p.DropArguments()
	}
	e := p.Encode()
	return c.Seal(binding, r.now, &tokens.Contents{
		Claims: tokens.Claims{ID: tokens.ID(p.ID), Turn: p.Turn, IssuedAt: r.now, Deadline: p.Deadline, Tool: p.Tool, Revision: p.Revision},
		State:  e.Body, Apart: e.State, Plain: e.Effects, Secret: e.Secrets,
	})
}

// newID returns the id of the next saga. A call that was cut off before it did
// anything may as well never have been, so the next one gets its id.
func (r *rig) newID() saga.ID {
	r.watch.mu.Lock()
	defer r.watch.mu.Unlock()
	begun := make(map[int]bool)
	for _, c := range r.watch.calls {
		if c.reached {
			begun[c.Turn] = true
		}
	}
	id := r.id
	id[len(id)-1] += byte(len(begun))
	return id
}
