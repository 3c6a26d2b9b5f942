package sagatest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/steps"
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

// mostTime is how long a task may take after all that goes wrong.
const mostTime = 1000 * time.Hour

// runsAsTask has servers drive the saga to its end. It returns the line of the first of them, or nil if that did
// not work.
func (x *trial) runsAsTask(p taskPlan) *line {
	o, err := newOffice(x.client.rig)
	defer o.close()
	if err == nil {
		var first *line
		if first, err = x.drives(o, p); err == nil && x.over() {
			return first
		}
	}
	if err != nil {
		x.failed(err)
	}
	return nil
}

// principal is whose task it is.
const principal = "client"

func (x *trial) drives(o *office, p taskPlan) (*line, error) {
	ctx, cancel := context.WithTimeout(context.Background(), mostTime)
	defer cancel()
	q := x.client.rig.request(o.tool)
	q.Principal, q.IdempotencyKey = principal, ""
	task, err := o.desk.Start(ctx, tasks.Start{Request: q, AtOnce: true})
	if err != nil {
		return nil, err
	}
	first, err := o.workers(ctx, p, task.ID)
	if err != nil {
		return nil, err
	}
	if task, err = x.answersAll(ctx, o, p, task.ID); err != nil {
		return nil, err
	}
	x.last = replyOfTask(task)
	if result := x.last.Result; result != nil && !x.last.cancelled && !x.client.rig.parts {
		events, err := o.desk.Events(ctx, principal, task.ID, 0, int(task.Events))
		if err != nil {
			return nil, err
		}
		x.last.Result = whole(events, *result)
	}
	x.inspect(x.last)
	return first, nil
}

// workers has servers work on the task, and returns the line of the first of them. The others leave all to that
// until something happens to it, or nothing might: the one that took the task after an answer would be a matter of
// luck.
func (o *office) workers(ctx context.Context, p taskPlan, id string) (first *line, err error) {
	var struck chan struct{}
	if p.fate != lives {
		struck = make(chan struct{})
	}
	first = o.line()
	first.at = func(write int, after bool) fate {
		if write != p.write || after != p.after {
			return lives
		}
		if p.cancel {
			_, _ = o.desk.Cancel(ctx, principal, id) // what comes of it is seen in the end
		}
		if struck != nil {
			close(struck)
		}
		return p.fate
	}
	if err = o.worker(first); err == nil {
		synctest.Wait() // it was there before the others
		for range p.workers {
			l := o.line()
			l.opens = struck
			err = errors.Join(err, o.worker(l))
		}
	}
	return first, err
}

// errScript: the script does not lead on, which was reported.
var errScript = errors.New("the script does not lead on")

// answersAll answers what the task asks, until it has ended.
func (x *trial) answersAll(ctx context.Context, o *office, p taskPlan, id string) (task *tasks.Task, err error) {
	answered := make(map[string]bool)
	var given []steps.Answer
	for task, err = range o.desk.Watch(ctx, principal, id, 0) {
		if err != nil {
			return nil, fmt.Errorf("the task has not ended: %w", err)
		}
		open := slices.DeleteFunc(slices.Clone(task.Questions), func(s steps.Step) bool { return answered[s.ID] })
		if task.Status.Ended() || len(open) == 0 {
			continue
		}
		x.client.last.Token, x.client.last.Steps = "a task", open
		list, later, leaves, err := x.client.answers()
		if !x.leadsOn(err, leaves) {
			return nil, errScript
		}
		time.Sleep(later + min(p.late, o.tool.Tasks.TTL/100))
		for _, s := range open {
			answered[s.ID] = true
		}
		given = append(given, list...)
		times := 1
		if p.twice {
			times = 2
		}
		for range times {
			if _, err := o.desk.Answer(ctx, principal, id, list); err != nil {
				return nil, err
			}
		}
	}
	if p.twice {
		_, err = o.desk.Answer(ctx, principal, id, given)
	}
	return task, err
}

// whole is a result with what was yielded in front of it, as a client has it that is given no parts.
func whole(events []tasks.Event, result content.Result) *content.Result {
	var parts content.Blocks
	for _, e := range events {
		parts = append(parts, e.Content...)
	}
	result.Content = append(parts, result.Content...)
	return &result
}

// replyOfTask is how a task has ended.
func replyOfTask(t *tasks.Task) reply {
	rep := reply{cancelled: t.Status == tasks.Cancelled}
	switch {
	case t.Err != nil:
		rep.err = t.Err
	case t.End == nil:
		rep.err, rep.undone = errors.New("the task was cancelled"), true
	default:
		rep.End, rep.ended = *t.End, true
	}
	return rep
}

// office is servers that work on a trial's task, in a bubble of testing/synctest: leases end and
// sleeps are over in no time.
type office struct {
	rig  *rig
	work sync.WaitGroup
	stop []func()
	// desk is where the client begins the task and looks at it.
	desk tasks.Viewer
	tool *engine.Program
}

func newOffice(r *rig) (*office, error) {
	o := &office{rig: r}
	r.clock.began = time.Now()
	r.newLedger()
	r.watch.begin(1, func() {})
	s, err := o.host(o.line())
	if err == nil {
		o.desk, o.tool = s.core, s.tool
	}
	return o, err
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

func (o *office) line() *line { return newLine(o.rig.ledger, o.rig.watch, 1) }

func (o *office) host(l *line) (*host, error) {
	o.rig.tools = nil // each makes its own
	return o.rig.host(l, &o.rig.clock)
}

// worker has another server work.
func (o *office) worker(l *line) error {
	s, err := o.host(l)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(sagahooks.With(context.Background(), l))
	o.stop = append(o.stop, stop)
	o.work.Go(func() { _ = s.core.Work(ctx) })
	return nil
}
