package sagatest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// taskPlan is what goes wrong with a task, before or after a write of the first worker; 0 is none of them.
type taskPlan struct {
	write int
	after bool
	// dies: the worker does, and another server goes to work. Otherwise the client cancels.
	dies bool
}

// tasks: what becomes of a task whose workers die, and whose client cancels.
func (s *sweep) tasks() {
	if s.tool.Kind != engine.KindTool || s.tool.Tasks.Mode == engine.TasksForbidden || testOf(s.t) == nil { // there are bubbles for tests only
		return
	}
	writes, want := 0, alike
	s.inBubble(s.t, "as a task", func(x *trial) { // what breaks here is found again below
		if first := x.runsAsTask(taskPlan{}); first != nil {
			writes = first.writes
			if x.conclude(); x.result == s.base.result {
				want = asUndisturbed // the time does not show
			}
		}
	})
	add := func(name string, want expectation, p taskPlan) {
		s.add("as a task, "+name, 0, want, func(x *trial, _ request) { x.runsAsTask(p) })
	}
	add("with nothing going wrong", want, taskPlan{})
	for n := 1; n <= writes; n++ {
		add(fmt.Sprintf("its worker dies before write %d", n), want, taskPlan{write: n, dies: true})
		add(fmt.Sprintf("its worker dies after write %d", n), want, taskPlan{write: n, after: true, dies: true})
		add(fmt.Sprintf("cancelled at write %d", n), undone, taskPlan{write: n, after: true})
	}
}

// testOf is the test that t is, or is wrapped around; nil if there is none.
func testOf(t testing.TB) *testing.T {
	switch t := t.(type) {
	case *testing.T:
		return t
	case interface{ Unwrap() testing.TB }:
		return testOf(t.Unwrap())
	}
	return nil
}

// inBubble runs a trial in a bubble, whose clock jumps to what is waited for. A bubble whose goroutines
// wait for ever panics here.
func (s *sweep) inBubble(t testing.TB, name string, run func(x *trial)) (b *broken) {
	t.Helper()
	defer func() {
		v := recover()
		text := fmt.Sprint(v)
		switch {
		case v == nil:
		case !strings.HasPrefix(text, "deadlock: "):
			panic(v)
		case strings.Contains(text, "main bubble goroutine has exited"):
			b = &broken{"nothing goes on after a turn", "", "a goroutine that the tool has started is still there when the task has ended: " + text,
				"start no goroutine that outlives the turn: have it end with the turn's context, and wait for it"}
		default:
			b = &broken{"a tool's code returns", "", "it waits for ever: " + text, "let it end with the turn's context"}
		}
	}()
	synctest.Test(testOf(t), func(inside *testing.T) {
		run(s.newTrial(bubbleTB{inside, t}, name))
	})
	return nil
}

// bubbleTB is a test in a bubble, which reports where another test wants it.
type bubbleTB struct {
	testing.TB
	reports testing.TB
}

func (b bubbleTB) Error(a ...any)            { b.reports.Error(a...) }
func (b bubbleTB) Errorf(s string, a ...any) { b.reports.Errorf(s, a...) }
func (b bubbleTB) Log(a ...any)              { b.reports.Log(a...) }
func (b bubbleTB) Logf(s string, a ...any)   { b.reports.Logf(s, a...) }

// mostTime is how long a task may take after all that goes wrong.
const mostTime = 1000 * time.Hour

// runsAsTask has servers drive the saga to its end. It returns the process of the first of them, or nil if that did
// not work.
func (x *trial) runsAsTask(p taskPlan) *process {
	r := x.rig
	ctx, cancel := context.WithTimeout(engine.WithCaller(context.Background(), r.caller), mostTime)
	r.newLedger()
	o := &office{rig: r, plan: p, ctx: ctx, client: x.client, first: r.process(1, cancel)}
	r.office, r.clock.began, x.latest = o, time.Now(), true
	defer func() {
		cancel()
		o.work.Wait()
		o.first.end()
		_ = r.ledger.Close()
	}()
	if x.play(); x.stopped {
		return nil
	}
	return o.first
}

// office is servers that work on a trial's task, in a bubble of testing/synctest: leases end and
// sleeps are over in no time.
type office struct {
	rig  *rig
	plan taskPlan
	// client has the script.
	client *client
	// happened are the events that were delivered.
	happened []durable.Name
	ctx      context.Context
	work     sync.WaitGroup
	// desk is where the client begins the task and looks at it.
	desk tasks.Viewer
	id   string
	// first is the first worker.
	first *process
}

// send has the task begin, or gives it answers, and waits until it asks or has ended.
func (o *office) send(q request) reply {
	if err := o.give(q); err != nil {
		return reply{err: err}
	}
	var task *tasks.Task
	for news, err := range o.desk.Follow(o.ctx, o.rig.caller.Binding(), o.id, tasks.NoEvents, nil) {
		if err != nil {
			return reply{err: fmt.Errorf("the task has not ended: %w", err)}
		}
		task = news.Task
		if err := o.happen(task.Awaits); err != nil {
			return reply{err: err}
		}
		if len(task.Questions) > 0 {
			return reply{End: turns.End{Token: "a task", Outcome: engine.Outcome{Steps: task.Questions}}}
		}
	}
	rep := reply{ended: true, cancelled: task.Status == tasks.Cancelled}
	if task.End == nil {
		rep.Err = cmp.Or(task.Err, errors.New("the task was cancelled"))
		return rep
	}
	if rep.End = *task.End; rep.Result != nil && !rep.cancelled && !o.rig.parts {
		// The client has what was yielded in front of the result.
		parts, err := o.desk.Parts(o.ctx, o.rig.caller.Binding(), o.id)
		if err != nil {
			return reply{err: err}
		}
		whole := *rep.Result
		whole.Content = append(parts, rep.Result.Content...)
		rep.Result = &whole
	}
	return rep
}

// happen delivers what the task waits for, as the script has it.
func (o *office) happen(awaits []tasks.Awaited) error {
	for _, e := range awaits {
		if slices.Contains(o.happened, e.Event) {
			continue
		}
		h, err := o.client.happening(e)
		if err == nil {
			err = o.rig.deliver(h)
		}
		switch {
		case err == nil:
			o.happened = append(o.happened, e.Event)
		case !errors.Is(err, tasks.ErrNotFound): // then others are about to be asked, unless the task is cancelled before
			return err
		}
	}
	return nil
}

// give begins the task and has a server work on it, or answers.
func (o *office) give(q request) error {
	if o.desk != nil {
		_, err := o.desk.Answer(o.ctx, o.rig.caller.Binding(), o.id, q.answers)
		return err
	}
	h, err := o.rig.host(o.rig.process(1, nil))
	if err != nil {
		return err
	}
	o.desk = h.core
	start := tasks.Start{Request: o.rig.request(h.tool), AtOnce: true}
	start.Request.IdempotencyKey = ""
	task, err := o.desk.Start(o.ctx, start)
	if err != nil {
		return err
	}
	o.id, o.first.at = task.ID, o.goesWrong
	return o.worker(o.first)
}

// goesWrong has what is planned happen at a write of the first worker, and reports whether that dies.
func (o *office) goesWrong(write int, after bool) bool {
	if write != o.plan.write || after != o.plan.after {
		return false
	}
	if o.plan.dies {
		_ = o.worker(o.rig.process(1, nil)) // as well as the first
	} else {
		_, _ = o.desk.Cancel(o.ctx, o.rig.caller.Binding(), o.id) // what comes of it is seen in the end
	}
	return o.plan.dies
}

// worker has another server work.
func (o *office) worker(p *process) error {
	h, err := o.rig.host(p)
	if err == nil {
		o.work.Go(func() { _ = h.core.Work(sagahooks.With(o.ctx, p)) })
	}
	return err
}
