package handshake

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake/revision"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// With a ledger, what a client sets in its session holds on all replicas: its log level, its subscriptions, which connection carries
// what belongs to no request, and that the session has ended. It is in one document, which each request reads once, and replicas that
// have the session in memory when a notice says that it has changed (dialect.Hub.Touch).

// settings are what is remembered of a session beside what its id says; there is no document without any.
type settings struct {
	// Ended: its client has ended it. Nothing of it changes any more.
	Ended bool `cbor:"1,keyasint,omitempty"`
	// Level is that of log messages, if the client has set one.
	Level *slog.Level `cbor:"2,keyasint,omitempty"`
	// URIs are the resources that the client has subscribed to.
	URIs []subscribed `cbor:"3,keyasint,omitempty"`
	// Carrier names the newest connection that carries what belongs to no request, and Since the newest notice when it began.
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

// How long the ledger may take to say what it remembers of a session, and for how long it is not asked again if it fails.
const (
	recordTime  = time.Second
	recordPause = time.Second
	// writeTime is how long a client waits until it is written down what it has set or ended.
	writeTime = 10 * time.Second
)

// recordOf returns what the ledger remembers of a session; nil if it does not say, or there is none.
func (d *handshake) recordOf(ctx context.Context, a *agreed) *document {
	if d.Core == nil || time.Now().UnixNano() < d.sessions.silentUntil.Load() {
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
		d.Log.Log(ctx, d.sessions.outage.Level(slog.LevelWarn), "the ledger does not say what became of sessions: they go on meanwhile", "error", err)
	}
	return nil
}

// learn puts to use what the ledger remembers, unless it is older than what is known.
func (s *session) learn(found *document) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.record
	if before != nil && found.Version() <= before.Version() {
		return
	}
	s.record = found
	s.endSuperseded()
	s.apply(&found.Value, before != nil) // when it has only come into memory, its GET says from where on
}

// apply has the client hear what it wants to. missed: also what was published since it has subscribed.
func (p *peer) apply(set *settings, missed bool) {
	if set.Level != nil {
		p.level.Set(*set.Level)
	}
	if p.changes == nil {
		return
	}
	uris := make([]string, len(set.URIs))
	for i, u := range set.URIs {
		uris[i] = u.URI
	}
	for _, uri := range p.changes.SetURIs(uris) {
		if missed {
			p.changes.CatchUpOn(uri, set.URIs[set.index(uri)].From)
		}
	}
}

// change changes the record of a session, and notifies the replicas that it concerns.
func (d *handshake) change(ctx context.Context, s *session, principal string, change func(*settings) (bool, error)) error {
	s.mu.Lock()
	found := s.record
	s.mu.Unlock()
	before := ""
	ctx, cancel := context.WithTimeoutCause(ctx, writeTime, durable.ErrSlow)
	defer cancel()
	made, err := durable.ChangeDocument(ctx, d.Core, principal, d.documentName(s.agreed), s.agreed.expires, found, func(r *settings) (bool, error) {
		before = r.Carrier
		return change(r)
	})
	if err != nil {
		return err
	}
	if made.Value.Ended || before != "" && !strings.HasPrefix(before, d.Hub.By()+".") {
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime) // some clients do not wait for the response
	defer cancel()
	err := d.Tasks.EndSession(ctx, principal, a.session()) // first, as nothing more can be asked of a session that has ended
	if err == nil {
		err = d.change(ctx, s, principal, func(r *settings) (bool, error) {
			over := r.Ended
			r.Ended, r.Level, r.URIs, r.Carrier, r.Since = true, nil, nil, "", 0
			return !over, nil
		})
	}
	full := errors.Is(err, turns.ErrLedgerFull)
	if err != nil && !full { // it continues, or the client could not send this again
		d.Log.WarnContext(ctx, "the end of a session cannot be written down", "error", err)
		return wire.TryAgain("the calls of the session in this replica have ended, but its end cannot be written down at present: send the same request again")
	}
	d.sessions.end(a, d.Turns.Now())
	if full {
		return wire.Refuse(http.StatusTooManyRequests, wire.CodeInvalidRequest, "the session has ended in this replica only, as too many sessions of yours are remembered: let it expire")
	}
	return nil
}

// set changes what the client has set: in its session's document, or without one in memory.
func (c *call) set(ctx context.Context, change func(*settings) (bool, error)) error {
	s := c.peer.session
	if s == nil || c.Core == nil {
		if s != nil {
			s.linger()
		}
		c.peer.setting.Lock()
		defer c.peer.setting.Unlock()
		_, err := change(&c.peer.settings)
		c.peer.apply(&c.peer.settings, false)
		return err
	}
	err := c.handshake.change(ctx, s, c.Principal, func(r *settings) (bool, error) {
		if r.Ended {
			return false, goneSession()
		}
		return change(r)
	})
	switch {
	case errors.Is(err, turns.ErrLedgerFull):
		return wire.Refuse(http.StatusTooManyRequests, wire.CodeInvalidRequest, "too many sessions of yours are remembered: end some, or let them expire")
	case errors.Is(err, durable.ErrConflict):
		return wire.TryAgain("the session is changed by too many requests at once: send the same request again")
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil: // the time that the ledger had, not the client's
		return fmt.Errorf("%w: %w", turns.ErrLedger, err)
	}
	return err
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
		return false, wire.NewError(wire.CodeInvalidRequest, "there are too many subscriptions; end some")
	}
	r.URIs = append(r.URIs[:len(r.URIs):len(r.URIs)], subscribed{URI: uri, From: from})
	return true, nil
}

// What belongs to no request goes to the client's GET, of several to the newest, on whatever replica. Between two of them nothing is
// kept: with a ledger, the ids of events say up to where the client has heard, and any replica tells the rest. Without one, a client
// that comes back hears that all may have changed.

// generalStream begins the ids of such events, which no other's does.
const generalStream = "g"

// listen answers GET without a request. after is the id of the last event that the client has got, or empty.
func (d *handshake) listen(ctx context.Context, x *dialect.Exchange, r wire.Reply, s *session, after string) {
	c := &carrier{gone: make(chan struct{}), name: d.Hub.By() + "." + rand.Text()[:13]}
	defer s.carry(&s.general, c, 0)()
	if d.Core == nil {
		s.linger()
	}
	s.catchUp(after)
	d.carried(ctx, s, c, x.Principal)
	c.out = r.Events(acceptTime)
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	err := error(nil)
	if s.revision < revision.November2025 {
		err = c.out.Alive()
	} else {
		err = c.out.Start(s.eventID())
	}
	for err == nil && !c.ends() {
		if e, ok := s.changes.Next(); ok {
			err = c.out.Event(s.eventID(), wire.AppendCall(nil, 0, e.Method, e.Params()))
			continue
		}
		if !s.pause(ctx, c, alive, s.changes.Ready) {
			return
		}
	}
}

// catchUp has the client hear what it has missed.
func (s *session) catchUp(after string) {
	s.mu.Lock()
	found := s.record
	s.mu.Unlock()
	switch {
	case after != "":
		delivered, _ := strconv.ParseUint(after[strings.LastIndexByte(after, '.')+1:], 36, 64)
		s.changes.CatchUp(delivered)
	case found == nil:
	case found.Value.Carrier != "": // it does not say what it has heard from the one before
		s.changes.CatchUp(found.Value.Since)
	default:
		for _, u := range found.Value.URIs {
			s.changes.CatchUpOn(u.URI, u.From)
		}
	}
}

// eventID is the id of the next such event. It says how much the client has heard by then, if any replica can tell the rest.
func (s *session) eventID() string {
	s.mu.Lock()
	id := generalStream + s.stem + "_" + strconv.FormatUint(s.sent, 10)
	s.sent++
	s.mu.Unlock()
	if n := s.changes.Delivered(); n > 0 {
		id += "." + strconv.FormatUint(n, 36)
	}
	return id
}

// carried writes down that a connection of this replica carries what belongs to no request. If
// the ledger does not take it, the connection carries that all the same, and so may another.
func (d *handshake) carried(ctx context.Context, s *session, c *carrier, principal string) {
	if d.Core == nil {
		return
	}
	since := s.changes.Delivered()
	within, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	err := d.change(within, s, principal, func(r *settings) (bool, error) {
		s.mu.Lock()
		over := s.general != c // a newer one may have been written down before
		s.mu.Unlock()
		if r.Ended || over {
			return false, errors.New("the session or the connection has ended")
		}
		r.Carrier, r.Since = c.name, since
		return true, nil
	})
	if err != nil && ctx.Err() == nil {
		d.Log.InfoContext(ctx, "another connection of the same session may get the same", "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.named = err == nil
	s.endSuperseded() // what was learned meanwhile may name another
}

// endSuperseded ends the general connection if the document names a newer one. The session is locked.
func (s *session) endSuperseded() {
	if c := s.general; c != nil && c.named && s.record != nil && s.record.Value.Carrier != c.name {
		close(c.gone)
		s.general = nil
	}
}

// look finds out what became of a session in memory.
func (d *handshake) look(ctx context.Context, s *session) {
	if !d.Turns.Now().Before(s.agreed.expires) {
		s.carry(&s.general, nil, 0) // calls under way come to their end
		return
	}
	found := d.recordOf(ctx, s.agreed)
	switch {
	case found == nil:
	case found.Value.Ended:
		d.sessions.end(s.agreed, d.Turns.Now())
	default:
		s.learn(found)
	}
}

// touched has documents be read anew, of all sessions in memory if ids are nil. The hub, which calls it, must not wait.
func (d *handshake) touched(ids []dialect.SessionID) {
	ended := d.sessions.running.Begin()
	go func() {
		defer ended()
		for _, s := range d.sessions.inMemory(ids) {
			d.look(s.ctx, s)
		}
	}()
}
