package sagatest

import (
	"context"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
)

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
