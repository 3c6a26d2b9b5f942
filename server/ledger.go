package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
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
	ahead   time.Duration // by how much the clock here is ahead of the store's, if that is more than clocks may differ
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

// settled waits for what cancelled calls undo, until ctx ends.
func (k *keeper) settled(ctx context.Context) {
	if k != nil {
		k.core.Settle(ctx)
	}
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
// it does not answer, nil if it does, and by how much the clock here is ahead of it.
func (k *keeper) downSince(ctx context.Context) (*time.Time, time.Duration) {
	select {
	case k.asking <- struct{}{}:
		defer func() { <-k.asking }()
	case <-ctx.Done():
		return nil, 0 // it is not read
	}
	if time.Since(k.checked) < checkEvery {
		return k.down, k.ahead
	}
	// The one who asks may be gone before the answer: others wait for it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTime)
	defer cancel()
	err := k.core.Ping(ctx)
	// Whether the ledger takes records is not known if that was not tried for a while, or something could not be written
	// since, or the last time.
	if err == nil && (k.down != nil || k.core.WriteFailures() != k.failed || time.Since(k.wrote) >= writeEvery) {
		var now time.Time
		if now, err = k.core.Check(ctx); err == nil {
			k.compare(now)
		}
		k.wrote, k.failed = time.Now(), k.core.WriteFailures()
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
	return k.down, k.ahead
}

// compare finds out whether the clock here is wrong, or the store's: a replica whose clock is ahead takes the sagas of others for
// expired, and undoes them.
func (k *keeper) compare(stores time.Time) {
	ahead := k.now().Sub(stores).Round(time.Second)
	if ahead.Abs() <= k.core.Turns.Codec.Options().Skew {
		ahead = 0
	}
	switch {
	case ahead == 0 && k.ahead != 0:
		k.log.Info("the clock is right again")
	case ahead != 0 && k.ahead == 0:
		k.log.Error("the clock here, or that of the ledger, is wrong", "ahead", ahead)
	}
	k.ahead = ahead
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

// health is what /readyz tells.
type health struct {
	stopping atomic.Bool
	// stale is since when newer keys could not be loaded, or nil.
	stale atomic.Pointer[time.Time]
}

// SetKeys replaces the keyset, for a rotation without a restart. Turns under
// way end with the keyset they began with. Tell [Server.KeysFailed] of keysets that
// cannot be loaded.
func (s *Server) SetKeys(k *codec.Keyset) {
	s.codec.SetKeyset(k)
	s.health.stale.Store(nil)
}

// KeysFailed notes that a newer keyset could not be loaded, so that /readyz says since
// when this replica continues with old keys. It does so until [Server.SetKeys] is called.
// The replica stays ready: what keeps one from loading its keyset may well keep all.
func (s *Server) KeysFailed() {
	now := s.opts.Now().UTC().Truncate(time.Second)
	s.health.stale.CompareAndSwap(nil, &now)
}

func (s *Server) serveHealth(w http.ResponseWriter, _ *http.Request) {
	wire.Reply{Writer: w}.JSON(http.StatusOK, []byte(`{"status":"ok"}`))
}

// readyKey is a key as /readyz shows it: an operator who rotates keys sees which ones
// a replica has loaded. A key's id is no secret, every token begins with it.
type readyKey struct {
	ID      string `json:"id"`
	Primary bool   `json:"primary,omitzero"`
}

// serveReady tells everybody whether to send requests here, as a probe may ask under
// any name and needs no more. The rest is for those whom the guard would let in. A probe
// that wants no replica whose ledger does not answer asks with ?ledger=required.
func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) {
	status := struct {
		Status string     `json:"status"`
		Keys   []readyKey `json:"keys,omitzero"`
		// An operator who rotates keys must know that this replica may not follow.
		StaleSince *time.Time `json:"keysStaleSince,omitzero"`
		LedgerDown *time.Time `json:"ledgerDownSince,omitzero"`
		// A positive duration, such as 1h0m0s, if the clock here is ahead of the ledger's.
		ClockOff string `json:"clockOff,omitzero"`
		// Tools whose code ignores its context hold goroutines until it returns.
		Hanging []string `json:"hanging,omitzero"`
	}{Status: "ready", Hanging: s.host.Tools.Hanging()}
	code := http.StatusOK
	if len(status.Hanging) > 0 {
		status.Status = "degraded" // what else there is works
	}
	if s.keeper != nil {
		var ahead time.Duration
		if status.LedgerDown, ahead = s.keeper.downSince(r.Context()); ahead != 0 {
			status.Status, status.ClockOff = "degraded", ahead.String()
		}
		if status.LedgerDown != nil {
			// The database is the same for all replicas: taking them away would take away
			// what they can still do.
			status.Status = "degraded"
			if r.URL.Query().Get("ledger") == "required" {
				code = http.StatusServiceUnavailable
			}
		}
	}
	if !s.guard.informs(r) {
		status.LedgerDown, status.Hanging, status.ClockOff = nil, nil, ""
	} else {
		status.StaleSince = s.health.stale.Load()
		for _, k := range s.codec.Keyset().Keys() {
			if k.Enabled {
				status.Keys = append(status.Keys, readyKey{fmt.Sprintf("%08x", k.ID), k.Primary})
			}
		}
	}
	if s.health.stopping.Load() {
		status.Status, code = "stopping", http.StatusServiceUnavailable
	}
	body, _ := wire.Marshal(status) // strings and times always encode
	wire.Reply{Writer: w}.JSON(code, body)
}
