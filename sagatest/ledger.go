package sagatest

import (
	"context"
	"errors"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store/intercept"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// demandsLedger reports whether only servers with a ledger take the tool.
func demandsLedger(p *engine.Program) bool {
	return p.Tasks.Mode == engine.TasksRequired || p.SingleUse == engine.SingleUseRequired
}

var errOutage = errors.New("sagatest: the ledger is out of reach")

// line is how one server reaches the ledger, and the world in a turn. A server whose turn is over or was cut off, or
// that has died, reaches neither any more. So the kit distinguishes what a turn does from what a goroutine does that has outlived it.
type line struct {
	*watch
	turn  int
	store intercept.Store
	// at is asked what happens before and after each write, by its number from 1 on; nil: nothing.
	at func(write int, after bool) fate
	// opens is when the server begins to take what is due; nil is at once.
	opens <-chan struct{}

	// ops and writes count what the server has asked the ledger, and fails is which operation fails; 0 is
	// none.
	ops, writes, fails int
	died               bool
	// still is until when the server stands still.
	still time.Time
}

// fate is what happens to a server at a write.
type fate int

const (
	lives fate = iota
	dies
	stalls // it stands still for longer than its lease
)

const longerThanLease = 25 * time.Second

func newLine(store ledger.Store, w *watch, turn int) *line {
	l := &line{watch: w, turn: turn}
	l.store = intercept.Store{Store: store, Around: l.reach}
	return l
}

func (l *line) reach(ctx context.Context, c intercept.Call, next func() error) error {
	switch {
	case c.Method == "Listen":
		return next()
	case c.Method == "Take" && l.opens != nil:
		select {
		case <-l.opens:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	write, err := l.begin(c)
	if err == nil {
		err = l.strike(write, false)
	}
	if err == nil {
		err = next()
	}
	if err == nil {
		err = l.strike(write, true)
	}
	return err
}

// begin counts an operation. It returns the number of a write, and 0 for what is none.
func (l *line) begin(c intercept.Call) (write int, err error) {
	l.wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.died || l.dead || l.turn != l.watch.turn {
		return 0, ledger.ErrClosed
	}
	if l.ops++; l.ops == l.fails {
		return 0, errOutage
	}
	if c.Method != "Write" {
		return 0, nil
	}
	l.writes++
	return l.writes, nil
}

// strike has happen what is to happen at a write.
func (l *line) strike(write int, after bool) error {
	if write == 0 || l.at == nil {
		return nil
	}
	how := l.at(write, after)
	l.mu.Lock()
	switch how {
	case dies:
		l.died = true
	case stalls:
		l.still = time.Now().Add(longerThanLease)
	}
	l.mu.Unlock()
	l.wait()
	if how == dies {
		return ledger.ErrClosed
	}
	return nil
}

// wait waits as long as the server stands still.
func (l *line) wait() {
	l.mu.Lock()
	still := l.still
	l.mu.Unlock()
	if !still.IsZero() {
		time.Sleep(time.Until(still))
	}
}

// workTime is how long a worker may take: much longer than it does.
const workTime = 10 * time.Second

// work has the server's worker undo one saga whose time is over.
func (h *host) work(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, workTime)
	defer cancel()
	undone := false
	h.Hook = func(ctx context.Context, _ *turns.Turn, next func(context.Context) error) error {
		defer cancel()
		undone = true
		return next(ctx)
	}
	_ = h.core.Work(ctx)
	if !undone {
		return errors.New("no server's worker saw that the saga's time is over")
	}
	return nil
}
