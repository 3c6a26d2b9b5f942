package sagatest

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
)

// office is servers that work on a trial's task, in a bubble of testing/synctest: leases end and
// sleeps are over in no time.
type office struct {
	x     *trial
	store ledger.Store
	// began is when the bubble's clock began, by which the client's is r.now.
	began time.Time
	work  sync.WaitGroup
	stop  []func()
	id    saga.ID
}

func (x *trial) newOffice() *office {
	o := &office{x: x, began: time.Now(), id: x.client.rig.newID()}
	o.store = ledger.NewMemory(ledger.MemoryOptions{Now: o.now})
	x.client.rig.watch.begin(1, func() {})
	return o
}

func (o *office) now() time.Time { return o.x.client.rig.now.Add(time.Since(o.began)) }

// close ends all workers.
func (o *office) close() {
	for _, stop := range o.stop {
		stop()
	}
	o.work.Wait()
	o.x.client.rig.watch.end()
	_ = o.store.Close()
}

// manager makes a server whose way to the ledger is store.
func (o *office) manager(store ledger.Store) (*tasks.Manager, *engine.Program, error) {
	r := o.x.client.rig
	tools, err := engine.NewRegistry(r.definition)
	if err != nil {
		return nil, nil, err
	}
	runner, err := turns.New(turns.Config{
		Registry: tools, Codec: r.codec, Log: slog.New(slog.DiscardHandler), Now: o.now, Ledger: store,
		NewID: func() tokens.ID { return tokens.ID(o.id) }, UndoGrace: turns.DefaultUndoGrace,
	})
	if err != nil {
		return nil, nil, err
	}
	m, err := tasks.New(tasks.Config{Turns: runner, Workers: 1})
	return m, firstTool(tools), err
}

// worker has another server work, whose way to the ledger is d.
func (o *office) worker(d *desk) error {
	d.Store = o.store
	m, _, err := o.manager(d)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(sagahooks.With(context.Background(), d.world(o.x.client.rig.watch)))
	o.stop = append(o.stop, stop)
	o.work.Go(func() { _ = m.Work(ctx) })
	return nil
}

// desk is how one worker reaches the ledger. When it is over the worker is dead: it neither
// reaches it any more, nor performs effects.
type desk struct {
	ledger.Store
	mu     sync.Mutex
	writes int
	over   bool
	// at is asked before and after each write, with its number from 1 on.
	at func(write int, after bool) deskFate
	// opens is when the worker begins to take tasks; nil is at once.
	opens <-chan struct{}
}

// deskFate is what happens to a worker at a write.
type deskFate int

const (
	deskOpen deskFate = iota
	deskOver          // it dies
	deskSlow          // it stands still for longer than its lease
)

const longerThanLease = 25 * time.Second

// pass lets the worker go on, or not.
func (d *desk) pass(write int, after bool) error {
	if d.at == nil {
		return nil
	}
	switch d.at(write, after) {
	case deskOver:
		d.mu.Lock()
		d.over = true
		d.mu.Unlock()
		return ledger.ErrClosed
	case deskSlow:
		time.Sleep(longerThanLease)
	}
	return nil
}

func (d *desk) dead() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.over
}

func (d *desk) Swap(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
	if d.dead() {
		return ledger.ErrClosed
	}
	d.mu.Lock()
	d.writes++
	n := d.writes
	d.mu.Unlock()
	if err := d.pass(n, false); err != nil {
		return err
	}
	if err := d.Store.Swap(ctx, r, items...); err != nil {
		return err
	}
	return d.pass(n, true)
}

func (d *desk) Take(ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
	if d.dead() {
		return nil, ledger.ErrClosed
	}
	if d.opens != nil {
		select {
		case <-d.opens:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return d.Store.Take(ctx, t)
}

func (d *desk) Load(ctx context.Context, key string) (*ledger.Record, error) {
	if d.dead() {
		return nil, ledger.ErrClosed
	}
	return d.Store.Load(ctx, key)
}

// world is the trial's, for who works at the desk.
func (d *desk) world(w *watch) sagahooks.World { return &deskWorld{turnWorld{w, 1}, d} }

type deskWorld struct {
	turnWorld
	desk *desk
}

// Perform implements sagahooks.World: the dead perform nothing.
func (w *deskWorld) Perform(ctx context.Context, c sagahooks.Call, perform func(context.Context) (sagahooks.Value, error)) (any, error) {
	if w.desk.dead() {
		return nil, context.Canceled
	}
	return w.turnWorld.Perform(ctx, c, perform)
}
