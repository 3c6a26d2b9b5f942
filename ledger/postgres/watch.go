package postgres

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"

	"github.com/mcpsaga/mcpsaga/ledger"
)

const (
	// lookAlone is how often watched records are looked at while the server does not tell of
	// changes.
	lookAlone = 100 * time.Millisecond
	// lookForServer is how often it is tried whether the server can be listened to
	// directly, after there was a pooler.
	lookForServer = time.Minute
)

func (s *store) Watch(ctx context.Context, key string, after uint64) iter.Seq2[*ledger.Record, error] {
	return func(yield func(*ledger.Record, error) bool) { s.watch(ctx, key, after, yield) }
}

// Notify implements [ledger.Notifier].
func (s *store) Notify(key string, rev uint64, changed func()) (stop func()) {
	w := s.hub.watcher(key, rev, changed)
	return func() { s.hub.leave(w) }
}

// watch yields the states of a record.
func (s *store) watch(ctx context.Context, key string, after uint64, yield func(*ledger.Record, error) bool) {
	w := s.hub.watcher(key, after, nil) // before the first look, so that nothing is missed
	defer s.hub.leave(w)
	for {
		r, err := s.Load(ctx, key)
		switch {
		case err == nil && r.Rev > after:
			after = r.Rev
			w.seen.Store(after)
			if !yield(r, nil) {
				return
			}
		case err != nil && !errors.Is(err, ledger.ErrNotFound):
			yield(nil, err)
			return
		}
		select {
		case <-w.signal:
			continue
		case <-ctx.Done():
		case <-s.ctx.Done():
		}
		yield(nil, s.failed(ctx, "watch a record", ctx.Err()))
		return
	}
}

// poll looks at the watched records now and then, all with one request, until the store is
// closed.
func (s *store) poll() {
	for {
		keys := s.hub.watched()
		if len(keys) == 0 {
			select {
			case <-s.hub.came[0]:
				continue
			case <-s.ctx.Done():
				return
			}
		}
		if err := s.lookAt(keys); err != nil {
			s.hub.everybody() // they will see the error for themselves
		}
		pause := lookAlone
		if s.hub.told.Load() {
			pause = s.look
		}
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
			return
		}
	}
}

// lookAt tells those who watch records if they are at a new revision.
func (s *store) lookAt(keys [][]byte) error {
	return s.read(s.ctx, "watch records", func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, `SELECT key, rev FROM mcpsaga_ledger.records WHERE key = ANY ($1::bytea[])`, keys)
		if err != nil {
			return err
		}
		var key []byte
		var rev int64
		_, err = pgx.ForEachRow(rows, []any{&key, &rev}, func() error {
			s.hub.found(string(key), uint64(rev))
			return nil
		})
		return err
	})
}

// listen hears what other processes say while somebody waits, until the store is closed.
func (s *store) listen() {
	growing := backoff.NewExponentialBackOff()
	growing.InitialInterval, growing.MaxInterval = 50*time.Millisecond, 5*time.Second
	for {
		if !s.hub.anybody() {
			select {
			case <-s.hub.came[1]:
				continue
			case <-s.ctx.Done():
				return
			}
		}
		heard, err := s.hearAll()
		s.hub.told.Store(false)
		pause := growing.NextBackOff()
		switch {
		case err == nil: // nobody waits
			growing.Reset()
			continue
		case errors.Is(err, errPooled):
			pause = lookForServer
		case heard:
			growing.Reset()
			pause = growing.NextBackOff()
		}
		s.hub.everybody() // they wait less patiently now
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
			return
		}
	}
}

var errPooled = errors.New("ledger/postgres: a pooler is in between")

// hearAll listens on a connection of its own until nobody waits any more, and says whether
// it came to listening. If nobody waits any more the connection stays for a while.
func (s *store) hearAll() (heard bool, err error) {
	connecting, cancel := s.bound(s.ctx)
	defer cancel()
	config := s.pool.Config().ConnConfig
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(connecting, config)
	if err != nil {
		return false, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if shared, err := pooled(connecting, conn); err != nil {
		return false, err
	} else if shared {
		return false, errPooled
	}
	if _, err := conn.Exec(connecting, `SELECT set_config('application_name', $1::text, false)`, config.RuntimeParams["application_name"]+" (listening)"); err != nil {
		return false, err
	}
	if _, err := conn.Exec(connecting, "LISTEN "+channel); err != nil {
		return false, err
	}
	cancel()
	s.hub.told.Store(true)
	s.hub.everybody() // for what was said before
	for {
		ctx, cancel := context.WithTimeout(s.ctx, s.quiet)
		message, err := conn.WaitForNotification(ctx)
		quiet := ctx.Err() != nil
		cancel()
		switch {
		case err == nil:
			s.hear(message.Payload)
		case s.ctx.Err() != nil || !quiet:
			return true, err
		case !s.hub.anybody():
			return true, nil
		default:
			// Is it quiet, or is the connection dead?
			ctx, cancel := s.bound(s.ctx)
			err := conn.Ping(ctx)
			cancel()
			if err != nil {
				return true, err
			}
		}
	}
}
