package tasks

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// Why a turn is cut off.
var (
	errCancelled = errors.New("the task was cancelled")
	errStopping  = errors.New("the server is stopping")
	errOver      = errors.New("the task's time to live is over")
)

// run is a task that is held here.
type run struct {
	m       *Manager
	ctx     context.Context // ends when all is left to others
	key     string
	began   time.Time
	program *engine.Program // nil if it is not served
	served  bool            // program goes on with it, rather than only undo

	principal, tool string
	// call: it has no worker's place. counted: the crew waits for it. unwritten is what the ledger
	// did not know when it began; nil if it knew all. next is what it goes on with; nil is what the
	// record says.
	call, counted bool
	unwritten     *unwritten
	next          *answeredTask
	left          func() bool // forgets that all may be left to others

	// turn is the context of what runs, and stop ends it; both are replaced for each turn.
	turn atomic.Pointer[turnContext]
	why  atomic.Pointer[error] // why it was cut, if it was

	mutex   chan struct{} // held while the record is written
	e       *records.TaskEntry
	epoch   uint64
	until   time.Time // of the lease, by the store's clock
	mark    uint64    // of what is to be written
	trying  uint64    // mark of what may be there, for all that is known; or 0
	lost    bool
	handing bool // it is to be handed over
	handed  bool // it was
	undone  bool // the last checkpoint says that it is being undone, as its turn has failed

	shown   shown
	told    toTell // with what is being written
	notes   notes
	adopted bool // the saga has no other record any more
	pauses  int
	own     int // turns in a row that only the server's model was asked for
}

type turnContext struct {
	context.Context
	stop context.CancelCauseFunc
}

func (r *run) lock()   { r.mutex <- struct{}{} }
func (r *run) unlock() { <-r.mutex }

// newRun makes the run of a task that was taken, at the epoch, or is about to be.
func (m *Manager) newRun(ctx context.Context, e *records.TaskEntry, epoch uint64) *run {
	r := &run{
		m: m, ctx: ctx, key: e.Key(), mutex: make(chan struct{}, 1),
		principal: e.Principal, tool: e.Target.Name, e: e, epoch: epoch, until: e.Wake,
	}
	r.notes.init(r, nil)
	r.program, r.served = m.Turns.ProgramOf(e.Target.Name, e.Target.Revision)
	if e.Exists() {
		r.shown.set(e, false)
		r.lost = e.Epoch() != epoch
	}
	return r
}

// begin works on the task from now on. It is called with the crew's lock held.
func (r *run) begin(stopping bool) {
	r.began = time.Now()
	if stopping {
		r.handing = true
	}
	if r.unwritten != nil {
		go r.work(r.driveUnwritten)
		return
	}
	go r.work(r.drive)
}

// work drives the task to its end here.
func (r *run) work(drive func() error) {
	deepenStack(0)
	defer func() { r.m.crew.end(r, time.Since(r.began)) }()
	defer func() {
		r.lock()
		e := r.e
		if r.isUnwritten() {
			e = nil // there is nothing that others could see
		}
		r.shown.set(e, true)
		left := r.left
		r.unlock()
		if left != nil {
			left()
		}
	}()
	defer r.notes.stop()
	if err := engine.Protect(drive); err != nil && !errors.Is(err, errLost) && !errors.Is(err, ErrExists) { // the same call was begun before
		r.m.Turns.Log.Error("a task is left for another try", "tool", r.tool, "error", err)
	}
}

// rests reports whether the run has put its task to rest, and so has nothing left to do but to go.
// While it writes that is not known.
func (r *run) rests() (rests, known bool) {
	select {
	case r.mutex <- struct{}{}:
		defer r.unlock()
		return !r.lost && !r.isUnwritten() && !r.e.Taken(), true
	default:
		return false, false
	}
}

func (r *run) kind() engine.Kind {
	if r.program == nil {
		return engine.KindTool
	}
	return r.program.Kind
}

// deepenStack has the stack of a new goroutine grow while there is next to nothing on it. A turn
// needs that much, and to move what is on the stack by then costs several times as much.
//
//go:noinline
func deepenStack(at int) byte {
	var room [10 << 10]byte
	return room[at] // else there would be no room
}

// cut ends what runs, for the reason why. That it was lost goes before all others.
func (r *run) cut(why error) {
	if old := r.why.Load(); old == nil || errors.Is(why, errLost) {
		r.why.Store(&why)
	}
	if t := r.turn.Load(); t != nil {
		t.stop(why)
	}
}

// whyCut is why what runs was cut; nil if it was not.
func (r *run) whyCut() error {
	if why := r.why.Load(); why != nil {
		return *why
	}
	return nil
}

// task is the record as it is known.
func (r *run) task() *records.Task {
	r.lock()
	defer r.unlock()
	t := r.e.Task
	return &t
}

// drive works on the task until it ends, waits or is somebody else's.
func (r *run) drive() error {
	for {
		r.lock()
		t, lost, handing := &r.e.Task, r.lost, r.handing // not a copy: each write makes a new entry
		r.unlock()
		now := r.m.now()
		again := false
		var err error
		switch {
		case lost:
			return errLost
		case r.program == nil:
			return r.putBack(notServedPause, nil)
		case t.State == records.TaskEnded:
			return r.undoAgain(t)
		case handing && !(t.Call && t.Cancelled): // whose client was told that it ends
			return r.handOver(false)
		case len(t.Undo) > 0:
			again, err = r.goOnUndoing(t)
		case t.Cancelled:
			again, err = r.undo(t, errCancelled)
		case isOver(t, now):
			_, err = r.undo(t, errOver)
		case r.epoch-t.Base > uint64(r.m.Attempts):
			_, err = r.undo(t, errAttempts)
		case !r.served:
			_, err = r.undo(t, errRevision)
		case t.State == records.TaskSleeping && now.Before(t.WakeAt.Add(-notable)):
			return r.write(func(t *records.Task) []Event { r.sleep(t); return nil })
		default:
			again, err = r.step(t, now)
		}
		if err != nil || !again {
			return err
		}
	}
}

// errRevision: only an older program could go on with the task.
var errRevision = &FailedError{"The task cannot go on: this version of the tool is no longer served. Start again."}

// notServedPause is how long a task is left that no program here is for.
const notServedPause = time.Minute

// inFlight reports whether somebody has begun to go on from where the task stands, and may
// have done more than is known.
func (r *run) inFlight(t *records.Task) bool { return t.Loose || r.epoch-t.Base > 1 }

// putBack leaves the task for later, because of err or nothing.
func (r *run) putBack(pause time.Duration, why error) error {
	return r.write(func(t *records.Task) []Event {
		r.rest(t, t.State, r.m.now().Add(pause))
		if why != nil {
			t.Failures++
			t.Loose = t.Loose || !errors.As(why, new(*turns.HookError)) // which kept all from being done
			t.LastError = clip(why.Error())
		}
		return nil
	})
}

// failed leaves a task for later that could not go on. The pauses grow.
func (r *run) failed(t *records.Task, why error) error {
	pause := min(firstPause<<min(t.Failures, 20), lastPause)
	if left := t.Over().Sub(r.m.now()); left > 0 && !t.Cancelled {
		pause = max(min(pause, left), firstPause) // to be undone in time
	}
	return r.putBack(pause, why)
}

// Pauses between tries.
const (
	firstPause = time.Second
	lastPause  = 5 * time.Minute
)

// handOver gives the task to whoever takes it next. loose says that this run may have done more than
// is known; what others may have done stays noted.
func (r *run) handOver(loose bool) error {
	return r.write(func(t *records.Task) []Event {
		state := t.State
		if state != records.TaskSleeping && state != records.TaskWaiting || t.Cancelled {
			state = records.TaskQueued
		}
		r.rest(t, state, r.m.due())
		t.Loose = t.Loose || loose
		return nil
	})
}

// clip bounds what is kept of an error.
func clip(text string) string { return clipTo(text, 1000) }

func clipTo(text string, most int) string {
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// newTurn returns the context of a turn, which ends when the task is cut.
func (r *run) newTurn() *turnContext {
	parent, free := r.ctx, context.CancelFunc(func() {})
	if limit := r.m.Turns.Timeout; r.call && limit > 0 && !offers(r.program) {
		parent, free = context.WithTimeout(parent, limit) // as every turn that is no task's
	}
	ctx, stop := context.WithCancelCause(parent)
	turn := &turnContext{ctx, func(why error) { stop(why); free() }}
	r.turn.Store(turn)
	if why := r.why.Load(); why != nil {
		stop(*why) // it came just before
	}
	return turn
}
