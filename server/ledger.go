package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

const (
	// checkTime is how long the ledger may take to answer when it is asked how it is.
	checkTime = 2 * time.Second
	// checkEvery is how old its answer may be for the next who asks: strangers ask, and
	// must not keep the database busy.
	checkEvery = time.Second
	// stopTime is how long the end waits for an undo that is under way. What it does not
	// finish, another server takes over.
	stopTime = 5 * time.Second
)

// keeper looks after the ledger of a server: it has abandoned sagas undone, and finds out
// whether the store answers. A nil keeper is that of a server without a ledger.
type keeper struct {
	store ledger.Store
	log   *slog.Logger
	now   func() time.Time
	// work undoes abandoned sagas until ctx ends or the store is closed.
	work func(ctx context.Context) error

	once  sync.Once
	ctx   context.Context
	stop  context.CancelFunc
	ended chan struct{} // closed when work has ended, or is never to begin

	mu      sync.Mutex
	asking  chan struct{} // closed when the answer is there; nil if nobody asks
	checked time.Time     // when the last answer came; its monotonic clock counts
	down    *time.Time    // since when the store does not answer; nil if it does
}

func newKeeper(store ledger.Store, log *slog.Logger, now func() time.Time, work func(context.Context) error) *keeper {
	k := &keeper{store: store, log: log, now: now, work: work, ended: make(chan struct{})}
	k.ctx, k.stop = context.WithCancel(context.Background())
	return k
}

// begin starts the worker, if it is not running. It ends with close, or when the store is
// closed.
func (k *keeper) begin() {
	if k == nil {
		return
	}
	k.once.Do(func() {
		go func() {
			defer close(k.ended)
			if err := k.work(k.ctx); err != nil && k.ctx.Err() == nil && !errors.Is(err, ledger.ErrClosed) {
				k.log.Error("abandoned sagas are not undone by this server any more", "error", err)
			}
		}()
	})
}

// close stops the worker, and waits a little for what it is undoing.
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
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.checked.IsZero() && time.Since(k.checked) < checkEvery {
		return k.down
	}
	if k.asking == nil {
		k.asking = make(chan struct{})
		go k.check()
	}
	asking := k.asking
	k.mu.Unlock()
	select {
	case <-asking:
	case <-ctx.Done():
	}
	k.mu.Lock()
	return k.down
}

// check asks the store. Whoever has begun it may have gone: others wait for the answer.
func (k *keeper) check() {
	ctx, cancel := context.WithTimeout(context.Background(), checkTime)
	defer cancel()
	_, err := k.store.Now(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err == nil && k.down != nil:
		k.log.Info("the ledger answers again")
		k.down = nil
	case err != nil && k.down == nil:
		k.log.Warn("the ledger does not answer", "error", err)
		now := k.now().UTC().Truncate(time.Second)
		k.down = &now
	}
	k.checked = time.Now()
	close(k.asking)
	k.asking = nil
}
