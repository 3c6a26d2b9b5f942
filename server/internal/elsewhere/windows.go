package elsewhere

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A form in the window of a host has to find the call that it is for while that has no result yet, and so the host does
// not know its name. What waits for a form is remembered for the principal, for the session of one that is not known, or
// for the process where there is one client. All others look alike: their forms wait for a result with the name.

// window is a call that waits for a form.
type window struct {
	Task, Tool string
	// Call identifies the tool and the arguments.
	Call []byte
	// Frame is the form that has found it, or empty.
	Frame string
	Until time.Time
}

// maxWindows is how many calls are remembered at once, the newest.
const maxWindows = 16

// windowsOf names the document for the sender of x; false if it may be anybody.
func (r *Router) windowsOf(x *dialect.Exchange) (durable.Name, bool) {
	switch {
	case x.Principal != "":
		return r.Core.DocumentName("windows", "principal", x.Principal), true
	case x.Caller.Session != "":
		return r.Core.DocumentName("windows", "session", x.Caller.Session), true
	case x.Header == nil && x.Client == nil:
		return r.Core.DocumentName("windows", "process", r.Hub.By()), true
	}
	return durable.Name{}, false
}

// remember has forms find the call. If that fails, they find it by its result.
func (v *view) remember(ctx context.Context) {
	name, ok := v.windowsOf(v.Exchange)
	if v.remembered = true; !ok {
		return
	}
	now := v.Turns.Now()
	w := window{Task: v.task.ID, Tool: v.call.Program.Name, Call: v.digest(), Until: now.Add(v.patience())}
	_, err := durable.ChangeDocument(ctx, v.Core, v.Principal, name, w.Until, nil, func(list *[]window) (bool, error) {
		kept := slices.DeleteFunc(slices.Clone(*list), func(o window) bool { return o.Task == w.Task || !now.Before(o.Until) })
		*list = append(kept[max(0, len(kept)+1-maxWindows):], w)
		return true, nil
	})
	if err != nil {
		v.Log.WarnContext(ctx, "a form finds its call only when that has a result", "error", err)
	}
}

// withoutOurs are arguments of a call without those that go on with it.
func withoutOurs(arguments json.RawMessage) json.RawMessage {
	return dialect.With(dialect.With(arguments, engine.ResumeToken, nil), answersArgument, nil)
}

// Find returns the name of the call that a form is for, as far as that can be known; empty if there is none. It is the
// same as long as the form asks. frame tells the form from others; tool and arguments are those of the call, or empty if
// the host has not said.
func (r *Router) Find(ctx context.Context, x *dialect.Exchange, frame, tool string, arguments json.RawMessage) (string, error) {
	name, ok := r.windowsOf(x)
	if !ok {
		return "", nil
	}
	found, err := durable.ReadDocument[[]window](ctx, r.Core, name)
	if err != nil {
		return "", err
	}
	now := r.Turns.Now()
	for _, w := range slices.Backward(found.Value) {
		switch {
		case !now.Before(w.Until), w.Frame != "" && w.Frame != frame, tool != "" && w.Tool != tool,
			arguments != nil && !bytes.Equal(w.Call, dialect.DigestCall(w.Tool, withoutOurs(arguments))):
			continue
		case w.Frame == frame:
			return w.Task, nil
		}
		t, err := r.Tasks.Get(ctx, x.Principal, w.Task)
		if err != nil && !errors.Is(err, tasks.ErrNotFound) {
			return "", err
		}
		if err != nil || t.Status.Ended() {
			continue
		}
		if taken, err := r.take(ctx, x.Principal, name, found, w.Task, frame); err != nil || taken {
			return w.Task, err
		}
	}
	return "", nil
}

// Keep has a call belong to the form that has named it, if it belongs to none.
func (r *Router) Keep(ctx context.Context, x *dialect.Exchange, task, frame string) error {
	name, ok := r.windowsOf(x)
	if !ok || frame == "" {
		return nil
	}
	found, err := durable.ReadDocument[[]window](ctx, r.Core, name)
	if err == nil {
		_, err = r.take(ctx, x.Principal, name, found, task, frame)
	}
	return err
}

// take has a call belong to a form; it reports false if another was faster.
func (r *Router) take(ctx context.Context, principal string, name durable.Name, found *durable.Document[[]window], task, frame string) (taken bool, err error) {
	_, err = durable.ChangeDocument(ctx, r.Core, principal, name, r.Turns.Now().Add(r.patience()), found, func(list *[]window) (bool, error) {
		*list = slices.Clone(*list)
		// The form itself may have been faster, with another of its looks.
		i := slices.IndexFunc(*list, func(w window) bool { return w.Task == task && (w.Frame == "" || w.Frame == frame) })
		if taken = i >= 0; !taken || (*list)[i].Frame == frame {
			return false, nil
		}
		(*list)[i].Frame = frame
		return true, nil
	})
	return taken, err
}

// showsForm reports whether a form may answer something that a tool asks, so that it is worth waiting for.
func (r *Router) showsForm(t *engine.Program, c *dialect.Caller) bool {
	return slices.ContainsFunc(t.Routings(), func(q engine.Routing) bool { return r.Routes(q, c)&steps.RouteApp != 0 })
}

// hold notes until when the client's call is held at most, or that it is not any more: then the form has to bring
// the model back.
func (v *view) hold(until time.Time) func(json.RawMessage) json.RawMessage {
	if !v.showsForm(v.call.Program, v.Caller) {
		return nil
	}
	return dialect.ChangeNote(func(n *dialect.Note) {
		if n.Held = 0; !until.IsZero() && n.Elsewhere {
			n.Held = until.UnixMilli()
		}
	})
}

// release notes that the client's call is not held any more. If that fails, it is over by itself soon.
func (v *view) release(ctx context.Context) {
	if n := dialect.NoteOf(v.task); n.Held == 0 {
		return
	}
	if _, err := v.Tasks.Renew(ctx, v.Principal, v.task.ID, v.patience(), v.hold(time.Time{})); err != nil {
		v.Log.WarnContext(ctx, "a form takes a call for held that is not", "error", err)
	}
}

// seenAgain is how often a form is counted for the same hold: each time is an item of the log.
const seenAgain = time.Minute

// Present notes that a form in the host's window shows a call: the client's call is held for it.
func (r *Router) Present(ctx context.Context, principal, task string) (*tasks.Task, error) {
	return r.Tasks.Renew(ctx, principal, task, r.patience(), dialect.ChangeNote(func(n *dialect.Note) {
		now := time.Now().UnixMilli()
		if n.Elsewhere && (n.Apps == 0 || n.Counted != n.Held || now-n.Shown >= seenAgain.Milliseconds()) {
			n.Apps, n.Counted, n.Shown = n.Apps+1, n.Held, now
		}
	}))
}
