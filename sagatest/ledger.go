package sagatest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// outage is a store in memory that can be out of reach at one of its operations.
type outage struct {
	ledger.Store
	mu sync.Mutex
	// ops counts the operations of a turn, and fails is the one that fails: 0 is none.
	ops, fails int
	open       *line
}

// demandsLedger reports whether no server takes the tool that has no ledger.
func demandsLedger(p *engine.Program) bool {
	return p.Tasks.Mode == engine.TasksRequired || p.SingleUse == engine.SingleUseRequired
}

var errOutage = errors.New("sagatest: the ledger is out of reach")

func newOutage(now func() time.Time) *outage {
	return &outage{Store: ledger.NewMemory(ledger.MemoryOptions{Now: now})}
}

// line is how one server reaches the store in one turn. A server whose turn is over does not
// reach it any more: what still runs of one that was cut off finds that its record is
// another process's, and stops.
type line struct {
	*outage
	over bool
}

func (o *outage) line() ledger.Store {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ops, o.open = 0, &line{outage: o}
	return o.open
}

// hangUp ends the line of a turn.
func (o *outage) hangUp() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open != nil {
		o.open.over = true
	}
}

func (l *line) reach(over error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return over
	}
	if l.ops++; l.ops == l.fails {
		l.fails = 0
		return errOutage
	}
	return nil
}

func (l *line) Load(ctx context.Context, key string) (*ledger.Record, error) {
	if err := l.reach(ledger.ErrNotFound); err != nil {
		return nil, err
	}
	return l.Store.Load(ctx, key)
}

func (l *line) Swap(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
	if err := l.reach(ledger.ErrConflict); err != nil {
		return err
	}
	return l.Store.Swap(ctx, r, items...)
}

func (l *line) Count(ctx context.Context, owner string, most int) (int, error) {
	if err := l.reach(ledger.ErrClosed); err != nil {
		return 0, err
	}
	return l.Store.Count(ctx, owner, most)
}

// workTime is how long a worker may take: much longer than it does.
const workTime = 10 * time.Second

// work has the server's worker undo one saga whose time is over.
func work(ctx context.Context, r *turns.Runner) error {
	ctx, cancel := context.WithTimeout(ctx, workTime)
	defer cancel()
	undone := false
	r.Hook = func(ctx context.Context, t *turns.Turn, next func(context.Context) error) error {
		defer cancel()
		undone = t.Action == turns.ActionUndo
		return next(ctx)
	}
	_ = r.Work(ctx)
	if !undone {
		return errors.New("no server's worker saw that the saga's time is over")
	}
	return nil
}
