package sagatest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// taskPlan is what goes wrong with a task.
type taskPlan struct {
	// fate is what happens to the first worker, before or after a write; 0 is none of them.
	write int
	after bool
	fate  fate
	// cancel has the client cancel after the write.
	cancel bool
	// workers is how many there are besides the first.
	workers int
	// late is how long the client takes to answer, and twice: it gives each answer twice.
	late  time.Duration
	twice bool
}

// tasks: what becomes of a task whose workers die or are slow, and whose client cancels, or
// answers late and twice.
func (s *sweep) tasks() (list []scenario) {
	if s.tool.Kind != engine.KindTool || s.tool.Tasks.Mode == engine.TasksForbidden {
		return nil
	}
	if testOf(s.t) == nil {
		return nil // there are bubbles for tests only
	}
	writes, want := 0, alike
	s.inBubble(s.quiet(), "as a task", func(x *trial) {
		if first := x.runsAsTask(taskPlan{}); first != nil {
			writes = first.writes
			if e := x.client.played(x.last); s.c.same(e) == s.base.result {
				want = asUndisturbed // the time does not show
			}
		}
	})
	add := func(name string, want expectation, p taskPlan) {
		list = append(list, scenario{"as a task, " + name, 0, want, func(x *trial, _ request) { x.runsAsTask(p) }})
	}
	add("with nothing going wrong", want, taskPlan{})
	add("with two workers", want, taskPlan{workers: 1})
	add("answered late, and twice", want, taskPlan{late: time.Hour, twice: true})
	for n := 1; n <= writes; n++ {
		for _, after := range []bool{false, true} {
			when := map[bool]string{false: "before", true: "after"}[after]
			add(fmt.Sprintf("its worker dies %s write %d", when, n), want, taskPlan{write: n, after: after, fate: dies, workers: 1})
			add(fmt.Sprintf("its worker is slow %s write %d", when, n), want, taskPlan{write: n, after: after, fate: stalls, workers: 1})
		}
		add(fmt.Sprintf("cancelled at write %d", n), undone, taskPlan{write: n, after: true, cancel: true})
	}
	return list
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
func (s *sweep) inBubble(t testing.TB, name string, run func(x *trial)) {
	t.Helper()
	defer func() {
		v := recover()
		text := fmt.Sprint(v)
		b := broken{"nothing goes on after a turn", "", "a goroutine that the tool has started is still there when the task has ended: " + text,
			"start no goroutine that outlives the turn: have it end with the turn's context, and wait for it"}
		switch {
		case v == nil:
			return
		case !strings.HasPrefix(text, "deadlock: "):
			panic(v)
		case !strings.Contains(text, "main bubble goroutine has exited"):
			b = broken{"a tool's code returns", "", "it waits for ever: " + text, "let it end with the turn's context"}
		}
		if _, quiet := t.(quietTB); !quiet { // else it is found again, and reported then
			s.reports.report(t, name, b)
		}
	}()
	synctest.Test(testOf(t), func(inside *testing.T) {
		run(s.newTrial(bubbleTB{inside, t}, name))
	})
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

// mostTime is how long a task may take after all that goes wrong, and principal whose it is.
const (
	mostTime  = 1000 * time.Hour
	principal = "client"
)

// runsAsTask has servers drive the saga to its end. It returns the line of the first of them, or nil if that did
// not work.
func (x *trial) runsAsTask(p taskPlan) *line {
	r := x.client.rig
	o := &office{rig: r, plan: p}
	var cancel context.CancelFunc
	o.ctx, cancel = context.WithTimeout(context.Background(), mostTime)
	defer cancel()
	r.office, r.clock.began, x.client.latest = o, time.Now(), true
	r.newLedger()
	r.watch.begin(1, cancel)
	defer o.close()
	if !x.play() {
		return nil
	}
	if p.twice {
		if _, err := o.desk.Answer(o.ctx, principal, o.id, x.client.sent); err != nil {
			x.failed(err)
		}
	}
	return o.first
}

// office is servers that work on a trial's task, in a bubble of testing/synctest: leases end and
// sleeps are over in no time.
type office struct {
	rig  *rig
	plan taskPlan
	ctx  context.Context
	work sync.WaitGroup
	stop []func()
	// desk is where the client begins the task and looks at it.
	desk tasks.Viewer
	tool *engine.Program
	id   string
	// first is the line of the first worker.
	first *line
}

// close ends all workers.
func (o *office) close() {
	for _, stop := range o.stop {
		stop()
	}
	o.work.Wait()
	o.rig.watch.end()
	_ = o.rig.ledger.Close()
}

// send has the task begin, or gives it answers, and waits until it asks or has ended.
func (o *office) send(q request) reply {
	err := o.give(q)
	if err != nil {
		return reply{err: err}
	}
	var task *tasks.Task
	for news, err := range o.desk.Follow(o.ctx, principal, o.id, tasks.NoEvents, nil) {
		if err != nil {
			return reply{err: fmt.Errorf("the task has not ended: %w", err)}
		}
		task = news.Task
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
		events, err := o.desk.Events(o.ctx, principal, o.id, 0, int(task.Events))
		if err != nil {
			return reply{err: err}
		}
		whole := *rep.Result
		whole.Content = nil
		for _, e := range events {
			whole.Content = append(whole.Content, e.Content...)
		}
		whole.Content = append(whole.Content, rep.Result.Content...)
		rep.Result = &whole
	}
	return rep
}

func (o *office) give(q request) error {
	if o.desk == nil {
		return o.begin()
	}
	time.Sleep(min(o.plan.late, o.tool.Tasks.TTL/100))
	_, err := o.desk.Answer(o.ctx, principal, o.id, q.answers)
	if err == nil && o.plan.twice {
		_, err = o.desk.Answer(o.ctx, principal, o.id, q.answers)
	}
	return err
}

// begin begins the task, and has servers work on it. All but the first leave all to that until something happens to
// it, or nothing might: the one that took the task after an answer would be a matter of luck.
func (o *office) begin() error {
	h, err := o.host(o.line())
	if err != nil {
		return err
	}
	o.desk, o.tool = h.core, h.tool
	q := o.rig.request(h.tool)
	q.Principal, q.IdempotencyKey = principal, ""
	task, err := o.desk.Start(o.ctx, tasks.Start{Request: q, AtOnce: true})
	if err != nil {
		return err
	}
	o.id, o.first = task.ID, o.line()
	var struck chan struct{}
	if o.plan.fate != lives {
		struck = make(chan struct{})
	}
	o.first.at = func(write int, after bool) fate {
		if write != o.plan.write || after != o.plan.after {
			return lives
		}
		if o.plan.cancel {
			_, _ = o.desk.Cancel(o.ctx, principal, o.id) // what comes of it is seen in the end
		}
		if struck != nil {
			close(struck)
		}
		return o.plan.fate
	}
	err = o.worker(o.first)
	synctest.Wait() // it was there before the others
	for range o.plan.workers {
		l := o.line()
		l.opens = struck
		err = errors.Join(err, o.worker(l))
	}
	return err
}

func (o *office) line() *line { return newLine(o.rig.ledger, o.rig.watch, 1) }

func (o *office) host(l *line) (*host, error) {
	o.rig.tools = nil // each makes its own
	return o.rig.host(l, &o.rig.clock)
}

// worker has another server work.
func (o *office) worker(l *line) error {
	h, err := o.host(l)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(sagahooks.With(context.Background(), l))
	o.stop = append(o.stop, stop)
	o.work.Go(func() { _ = h.core.Work(ctx) })
	return nil
}
