package handshake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// With a ledger, what a client sets in its session holds on all replicas: its log level, what it
// has subscribed to, which connection carries what belongs to no request, and that it has ended
// the session. All that is in one document, which each request reads once. The replicas that have a
// session in memory read it again when a notice says that it has changed (dialect.Hub.Touch).

// settings are what is remembered of a session beside what its id says. There is no document until there
// is something to say.
type settings struct {
	// Ended: its client has ended it. Nothing of it changes any more.
	Ended bool `cbor:"1,keyasint,omitempty"`
	// Level is that of log messages, if the client has set one.
	Level *slog.Level `cbor:"2,keyasint,omitempty"`
	// URIs are the resources that the client has subscribed to.
	URIs []subscribed `cbor:"3,keyasint,omitempty"`
	// Carrier names the connection that carries what belongs to no request; empty if there
	// was none yet. The newest counts. Since is the number of the newest notice when it began.
	Carrier string `cbor:"4,keyasint,omitempty"`
	Since   uint64 `cbor:"5,keyasint,omitempty"`
}

// subscribed is a resource that a client has subscribed to, when the notice From was the newest.
type subscribed struct {
	URI  string `cbor:"1,keyasint"`
	From uint64 `cbor:"2,keyasint,omitempty"`
}

// index returns the place of a URI among those subscribed to, or -1.
func (s *settings) index(uri string) int {
	return slices.IndexFunc(s.URIs, func(u subscribed) bool { return u.URI == uri })
}

// document is where the settings of a session are.
type document = durable.Document[settings]

func (d *handshake) documentName(a *agreed) durable.Name {
	return d.Core.DocumentName("session", string(a.id[:]))
}

// knownSettings are what a session in memory knows of its document. The session's mutex guards them.
type knownSettings struct {
	learning sync.Mutex // is held while what was learned is put to use
	// record is the newest that was seen; nil if there is no ledger, or it did not say.
	record *document
	// carrier names the connection of this replica that the record should name; empty if there
	// was none, or the ledger did not take it. carrying: that is being written.
	carrier  string
	carrying bool
	// principal is whose the session is, once there is a carrier.
	principal string
}

// How long the ledger may take to say what it remembers of a session, and for how long it is
// not asked again if it fails. Sessions continue meanwhile: they need no ledger.
const (
	recordTime  = time.Second
	recordPause = time.Second
	// writeTime is how long a client waits until it is written down what it has set, or that it
	// has ended its session.
	writeTime = 10 * time.Second
)

// recordOf returns what the ledger remembers of a session; nil if there is no ledger, or it does
// not say.
func (d *handshake) recordOf(ctx context.Context, a *agreed) *document {
	if d.Core == nil || d.sessions.ledgerAway() {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	found, err := durable.ReadDocument[settings](within, d.Core, d.documentName(a))
	if errors.Is(err, durable.ErrUnreadable) {
		// Its client begins another session, while one that its client has ended must not continue.
		found, err = &document{Value: settings{Ended: true}}, nil
	}
	if err == nil {
		return found
	}
	if ctx.Err() == nil {
		d.sessions.silentUntil.Store(time.Now().Add(recordPause).UnixNano())
		d.Log.WarnContext(ctx, "the ledger does not say what became of sessions: they go on meanwhile", "error", err)
	}
	return nil
}

// ledgerAway reports whether the ledger has failed so lately that it is not asked.
func (t *sessionTable) ledgerAway() bool { return time.Now().UnixNano() < t.silentUntil.Load() }

// learn puts to use what the ledger remembers, unless it is older than what is known.
func (s *session) learn(found *document) {
	s.learning.Lock()
	defer s.learning.Unlock()
	s.mu.Lock()
	before := s.record
	if before != nil && found.Version() <= before.Version() {
		s.mu.Unlock()
		return
	}
	s.record = found
	over := s.superseded()
	s.mu.Unlock()
	if over {
		s.general.carriedBy(nil, 0)
	}
	if found.Value.Level != nil {
		s.level.Set(*found.Value.Level)
	}
	if s.changes == nil {
		return
	}
	uris := make([]string, len(found.Value.URIs))
	for i, u := range found.Value.URIs {
		uris[i] = u.URI
	}
	var added []string
	s.changes.Change(func(want *dialect.Interest) { added = want.SetURIs(uris) })
	if before == nil {
		return // it has only come into memory: its GET says from where on
	}
	for _, uri := range added { // it may have been updated since, before this was learned
		s.changes.CatchUpOn(uri, found.Value.URIs[found.Value.index(uri)].From)
	}
}

// superseded reports whether a connection of another replica carries by now what one of this
// carried. Of two connections of one replica, that has seen itself which is newer. The session
// is locked.
func (s *session) superseded() bool {
	over := !s.carrying && s.carrier != "" && s.record != nil && processOf(s.record.Value.Carrier) != processOf(s.carrier)
	if over {
		s.carrier = ""
	}
	return over
}

// look finds out what became of a session in memory.
func (d *handshake) look(ctx context.Context, s *session) {
	found := d.recordOf(ctx, s.agreed)
	switch {
	case found == nil:
	case found.Value.Ended:
		d.sessions.end(s.agreed, d.Turns.Now())
	default:
		s.learn(found)
		s.mu.Lock()
		unknown := s.general.reader != nil && s.carrier == "" && !s.carrying
		s.mu.Unlock()
		switch { // the ledger did not take it when it began
		case !unknown:
		case found.Value.Carrier == "" || processOf(found.Value.Carrier) == d.Hub.By():
			d.carry(ctx, s)
		default: // it is not known which is newer: if it is this one, its client comes again
			s.general.carriedBy(nil, 0)
		}
	}
}

// change changes the record of a session, and notifies the replicas that it concerns.
func (d *handshake) change(ctx context.Context, s *session, principal string, change func(*settings) (bool, error)) error {
	s.mu.Lock()
	found := s.record
	s.mu.Unlock()
	elsewhere := ""
	ctx, cancel := context.WithTimeoutCause(ctx, writeTime, durable.ErrSlow)
	defer cancel()
	made, err := durable.ChangeDocument(ctx, d.Core, principal, d.documentName(s.agreed), s.agreed.expires, found, func(r *settings) (bool, error) {
		elsewhere = r.Carrier
		return change(r)
	})
	if err != nil {
		return err
	}
	if made.Value.Ended || elsewhere != "" && processOf(elsewhere) != d.Hub.By() {
		d.Hub.Touch(s.agreed.id)
	}
	s.learn(made)
	return nil
}

// end ends a session as its client wishes: here, and with a ledger everywhere.
func (d *handshake) end(ctx context.Context, s *session, principal string) *wire.Error {
	a := s.agreed
	d.sessions.drop(a.name) // at once: the ledger may take long
	if d.Core == nil {
		d.sessions.end(a, d.Turns.Now())
		return nil
	}
	err := d.change(ctx, s, principal, func(r *settings) (bool, error) {
		over := r.Ended
		r.Ended, r.Level, r.URIs, r.Carrier, r.Since = true, nil, nil, "", 0
		return !over, nil
	})
	switch {
	case err == nil:
		d.sessions.end(a, d.Turns.Now())
		return nil
	case errors.Is(err, turns.ErrLedgerFull):
		d.sessions.end(a, d.Turns.Now())
		return wire.Refuse(http.StatusTooManyRequests, wire.CodeInvalidRequest, "the session has ended in this replica only, as too many sessions of yours are remembered: let it expire")
	}
	// It continues, or the client could not send this again.
	d.Log.WarnContext(ctx, "the end of a session cannot be written down", "error", err)
	return wire.TryAgain("the calls of the session in this replica have ended, but its end cannot be written down at present: send the same request again")
}

// remember changes what the ledger remembers of the client's session. It reports false if nothing
// does: then the connection, or this process, remembers it.
func (c *call) remember(ctx context.Context, change func(*settings) (bool, error)) (bool, error) {
	s := c.peer.session
	if s == nil || c.Core == nil {
		return false, nil
	}
	err := c.handshake.change(ctx, s, c.Principal, func(r *settings) (bool, error) {
		if r.Ended {
			return false, goneSession()
		}
		return change(r)
	})
	switch {
	case errors.Is(err, turns.ErrLedgerFull):
		err = wire.Refuse(http.StatusTooManyRequests, wire.CodeInvalidRequest, "too many sessions of yours are remembered: end some, or let them expire")
	case errors.Is(err, durable.ErrConflict):
		err = wire.TryAgain("the session is changed by too many requests at once: send the same request again")
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil: // the time that the ledger had, not the client's
		err = fmt.Errorf("%w: %w", turns.ErrLedger, err)
	}
	return true, err
}

func setLevel(r *settings, level slog.Level) (bool, error) {
	if r.Level != nil && *r.Level == level {
		return false, nil
	}
	r.Level = &level
	return true, nil
}

func subscribe(r *settings, uri string, from uint64) (bool, error) {
	if r.index(uri) >= 0 {
		return false, nil
	}
	size := len(uri)
	for _, u := range r.URIs {
		size += len(u.URI)
	}
	if len(r.URIs) >= dialect.MaxURIs || size > dialect.MaxURIBytes {
		return false, errManyURIs
	}
	r.URIs = append(r.URIs[:len(r.URIs):len(r.URIs)], subscribed{URI: uri, From: from})
	return true, nil
}

func unsubscribe(r *settings, uri string) (bool, error) {
	i := r.index(uri)
	if i < 0 {
		return false, nil
	}
	r.URIs = append(r.URIs[:i:i], r.URIs[i+1:]...)
	return true, nil
}
