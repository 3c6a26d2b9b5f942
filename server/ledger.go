package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/ledger"
)

const (
	// checkTime is how long the ledger may take to answer when it is asked how it is.
	checkTime = 2 * time.Second
	// checkEvery is how old its answer may be for the next who asks: strangers ask, and
	// must not keep the database busy.
	checkEvery = time.Second
	// writeEvery is how often it is tried to write, while the ledger writes what it is asked to: a
	// disk that is full can be read. Each time is a small record that is soon forgotten.
	writeEvery = 10 * time.Second
	// stopTime is how long the end waits for an undo that is under way, and for tasks, which
	// are handed over at their next checkpoint or after 5 seconds. What it does not finish,
	// another server takes over.
	stopTime = 7 * time.Second
)

// keeper looks after the ledger of a server: it has abandoned sagas undone and tasks worked
// on, and finds out whether the store answers. A nil keeper is that of a server without a ledger.
type keeper struct {
	core *durable.Core
	log  *slog.Logger
	now  func() time.Time
	// work undoes abandoned sagas, and works on tasks, until ctx ends or the store is closed.
	work []func(ctx context.Context) error

	once  sync.Once
	ctx   context.Context
	stop  context.CancelFunc
	ended chan struct{} // closed when work has ended, or is never to begin

	asking  chan struct{} // holds something while a goroutine asks; guards what follows
	checked time.Time     // when the last answer came; its monotonic clock counts
	down    *time.Time    // since when the store does not answer, or takes no records; nil if it does
	wrote   time.Time     // when it was tried last whether the store takes records
	failed  uint64        // how often it had not taken any by then
}

func newKeeper(core *durable.Core, log *slog.Logger, now func() time.Time, work ...func(context.Context) error) *keeper {
	k := &keeper{core: core, log: log, now: now, work: work, asking: make(chan struct{}, 1), ended: make(chan struct{})}
	k.ctx, k.stop = context.WithCancel(context.Background())
	return k
}

// begin starts the workers, if they are not running. They end with close, or when the store is
// closed.
func (k *keeper) begin() {
	if k == nil {
		return
	}
	k.once.Do(func() {
		var working sync.WaitGroup
		for _, work := range k.work {
			working.Go(func() {
				if err := work(k.ctx); err != nil && k.ctx.Err() == nil && !errors.Is(err, ledger.ErrClosed) {
					k.log.Error("this server does not look after the ledger any more", "error", err)
				}
			})
		}
		go func() {
			defer close(k.ended)
			working.Wait()
		}()
	})
}

// settled waits for what cancelled calls undo, but not for long.
func (k *keeper) settled(limit time.Duration) {
	if k == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	k.core.Settle(ctx)
}

// close stops the workers, and waits a little for what it is undoing.
func (k *keeper) close() {
	if k == nil {
		return
	}
	k.stop()
	k.once.Do(func() { close(k.ended) }) // it has not begun, and does not any more
	select {
	case <-k.ended:
	case <-time.After(stopTime):
	}
}

// downSince asks the store how it is, unless it was asked just now, and returns since when
// it does not answer; nil if it does.
func (k *keeper) downSince(ctx context.Context) *time.Time {
	select {
	case k.asking <- struct{}{}:
		defer func() { <-k.asking }()
	case <-ctx.Done():
		return nil // it is not read
	}
	if time.Since(k.checked) < checkEvery {
		return k.down
	}
	// The one who asks may be gone before the answer: others wait for it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTime)
	defer cancel()
	err := k.core.Ping(ctx)
	if err == nil {
		err = k.tryWriting(ctx)
	}
	switch {
	case err == nil && k.down != nil:
		k.log.Info("the ledger answers again")
		k.down = nil
	case err != nil && k.down == nil:
		k.log.Warn("the ledger does not answer, or cannot be written", "error", err)
		now := k.now().UTC().Truncate(time.Second)
		k.down = &now
	}
	k.checked = time.Now()
	return k.down
}

// tryWriting finds out whether the ledger takes records, if that is not known: it has not been tried for
// a while, or something could not be written since, or the last time.
func (k *keeper) tryWriting(ctx context.Context) error {
	if k.down == nil && k.core.WriteFailures() == k.failed && time.Since(k.wrote) < writeEvery {
		return nil
	}
	err := k.core.Check(ctx)
	k.wrote, k.failed = time.Now(), k.core.WriteFailures()
	return err
}

// Work looks after the ledger until ctx ends, without serving anybody: it works on tasks, undoes
// abandoned sagas and removes what is no longer needed. It is for a process that does nothing
// else; a server that serves does all this besides. It fails without a Ledger. Then it closes the
// server.
func (s *Server) Work(ctx context.Context) error {
	if s.keeper == nil {
		return errors.New("server: Work needs Options.Ledger")
	}
	s.keeper.begin()
	select {
	case <-ctx.Done():
	case <-s.keeper.ended:
	}
	s.Close()
	return ctx.Err()
}
