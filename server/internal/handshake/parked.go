package handshake

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake/revision"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// A stream whose call only waits for the client's answer may wait for days, and there may be ten
// thousand of them. So after a second it is parked: its reader leaves, as if the client had gone,
// and its session and its goroutines with it. What is kept is the connection, and what is needed
// to read on as any replica would for a client that has come back; which is done as soon as
// there is anything to read. The client sees nothing of it.

const (
	// parkAfter is how long a stream has had nothing to carry when it is parked.
	parkAfter = time.Second
	// parkMargin is how long a session must go on at least: calls under way outlive it, and
	// parked ones do not.
	parkMargin = time.Minute
	// leastWait is for how long the client of a call must be able to be away: the others have to
	// be looked after more often.
	leastWait = 6 * tendEvery
	// unparkPause is how long until what cannot be read on is tried again.
	unparkPause = time.Second
)

// parked is a stream that waits for its client's answer.
type parked struct {
	d         *handshake
	agreed    *agreed
	principal string
	account   account
	// task and number are those of its request, name is its reader's.
	task, name string
	number     uint64
	canLeave   bool
	// told is the number of the last event of the task that was passed on, and asked are the
	// questions that were, by step ids.
	told  uint64
	asked map[string]posted
	// token is the request's progressToken, and shown the progress that was told last.
	token jsontext.Value
	shown dialect.Shown
	// until is when it has to be read on, whatever happens.
	until time.Time
	wait  time.Duration // see reader

	stop func() // ends what notified began
	// sibling is the next of the same session, and queued says that it is to be looked at; the
	// lot's mutex guards them.
	sibling *parked
	queued  bool

	mu sync.Mutex // of what follows
	// conn is nil when the connection is not this one's any more.
	conn             *wire.Detached
	stream           string // its name
	event            uint64 // the number of its last event
	wrote, confirmed time.Time
}

// posted is a question that was asked: the nth of its task, by an event of the stream.
type posted struct {
	n, event uint64
	at       time.Time
}

// account is a [dialect.Owner] without the request by which it came.
type account string

func (a account) Account() string { return string(a) }

// parks reports whether all that the reader waits for is the client's answer, and its stream can
// be parked.
func (r *reader) parks() bool {
	return r.w.post != nil && r.w.waits.Load() && (r.resumes.IsZero() || r.token.Load()) && r.alias == nil && r.name != "" && r.wait >= leastWait && r.Draining.Err() == nil &&
		r.post.agreed.expires.Sub(r.Turns.Now()) > parkMargin
}

// park parks a stream of which event is the last that was written, if it can be. Then the
// connection is not the request's any more.
func (d *handshake) park(x *dialect.Exchange, st *stream, r wire.Reply, out *wire.EventStream, event uint64) bool {
	s := st.session
	s.mu.Lock()
	c := st.call
	var rd *reader
	if c != nil {
		rd = c.reader
	}
	s.mu.Unlock()
	if rd == nil || !rd.parks() {
		return false
	}
	conn, ok := out.Detach(r)
	if !ok {
		return false
	}
	stays := rd.canLeave() // asks the stream
	s.mu.Lock()
	c.parked = true
	s.mu.Unlock()
	rd.leave(0)
	var left []streamEvent
	for ended := false; !ended; {
		var more <-chan struct{}
		if left, ended, more = st.after(event); !ended {
			<-more
		}
	}
	s.forget(st)
	d.sessions.leaving(s) // before others see that it is parked
	a := *s.agreed
	a.name = strings.Clone(a.name) // which may hold all of a request's header
	p := &parked{
		d: d, agreed: &a, principal: x.Principal, account: account(x.Account()),
		task: rd.task, name: rd.name, number: rd.number, canLeave: stays,
		told: rd.w.told, asked: make(map[string]posted, len(rd.asked)), token: slices.Clone(rd.Notifier.Token), shown: rd.Notifier.Shown(),
		until: time.Now().Add(s.agreed.expires.Sub(d.Turns.Now()) - parkMargin/2), wait: rd.wait,
		conn: conn, stream: appendNumber(st.name, st.number), event: event, wrote: time.Now().Add(-d.parkAfter), confirmed: time.Now(),
	}
	for id, asked := range rd.asked {
		if asked.event > event {
			continue // it was not sent, and is taken back
		}
		p.asked[id] = asked
		if late := asked.at.Add(rd.late); rd.late > 0 && late.Before(p.until) {
			p.until = late
		}
	}
	again, over := conn.Resume(patience), false
	for _, e := range left { // they came meanwhile
		id, _ := st.eventID(e.number, e.mark)
		p.event, over = e.number, e.kind == eventResponse
		if again.Event(id, e.data) != nil {
			break
		}
	}
	if over || !d.sessions.lot.enter(p) {
		conn.End(d.Draining.Err() != nil)
	}
	return true
}

// notified has look look whenever there may be something to read. It takes a goroutine only if the
// ledger's store cannot tell otherwise.
func (p *parked) notified(look func()) {
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	told, err := p.d.Tasks.Notify(ctx, p.principal, p.task, look)
	if told != nil && err == nil {
		stop()
		p.stop = told
		return
	}
	p.d.sessions.run(func() {
		for ctx.Err() == nil {
			for range p.d.Tasks.Watch(ctx, p.principal, p.task, 0) {
				look()
			}
			sleep(ctx, unparkPause)
		}
	})
}

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// look reports whether there is something to read. It fails if that cannot be known.
func (p *parked) look() (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), writeTime)
	defer cancel()
	t, err := p.d.Tasks.Get(ctx, p.principal, p.task)
	if errors.Is(err, tasks.ErrNotFound) {
		return true, nil
	}
	return err == nil && !p.quiet(t), err
}

// quiet reports whether the client knows all that there is to know.
func (p *parked) quiet(t *tasks.Task) bool {
	note := noteOf(t)
	if t.Status != tasks.InputRequired || t.Cancelling || t.Events > p.told || note == nil ||
		note.Resumption == nil || note.Resumption.Reader != p.name || note.Call != nil && note.Call.Dropped {
		return false
	}
	for i, q := range t.Questions {
		if asked, ok := p.asked[q.ID]; !ok || asked.n != t.Numbers[i] {
			return false
		}
	}
	return true
}

// readOn goes on with the stream.
func (p *parked) readOn(conn *wire.Detached) {
	d := p.d
	ctx := context.Background()
	x := &dialect.Exchange{Message: new(wire.Message), Header: http.Header{wire.SessionHeader: {p.agreed.name}}, Principal: p.principal, Owner: p.account, HTTPMethod: http.MethodGet}
	var s *session
	var found *reading
	for deadline := time.Now().Add(outage); ; {
		var rerr *wire.Error
		if s, rerr = d.enter(p.agreed, x, false); rerr == nil {
			var err error
			if found, err = d.findReading(ctx, p.agreed, p.principal, p.number); err == nil {
				break
			}
			d.release(s, nil)
		}
		if s = nil; rerr != nil && rerr.Status == http.StatusNotFound || d.Draining.Err() != nil || time.Now().After(deadline) {
			break
		}
		time.Sleep(unparkPause)
	}
	parked := false
	switch {
	case s == nil:
		_ = conn.Resume(patience).Retry(stopRetry) // another replica may be able to
	case found == nil || found.task.ID != p.task:
		d.release(s, nil)
	default:
		parked = d.readOn(ctx, x, wire.Reply{Writer: conn}, s, found, p.told, p)
		d.release(s, nil)
	}
	if !parked {
		conn.End(d.Draining.Err() != nil)
	}
}

// pass has a reader go on with the request. The questions are its own to change: whoever looks at
// what was parked may not have finished.
func (p *parked) pass(r *reader) { r.name, r.asked, r.wait = p.name, maps.Clone(p.asked), p.wait }

// hangUp ends the stream. The client may come back after retry; zero says nothing of that.
func (p *parked) hangUp(conn *wire.Detached, retry time.Duration) {
	if retry > 0 {
		_ = conn.Resume(time.Second).Retry(retry)
	}
	conn.End(p.d.Draining.Err() != nil)
}

// tend shows that the stream lives, and that its client is there. A client that is gone is found
// by that.
func (p *parked) tend(now time.Time) {
	if now.After(p.until) {
		p.d.sessions.lot.unpark(p)
		return
	}
	p.mu.Lock()
	if p.conn == nil {
		p.mu.Unlock()
		return
	}
	out := p.conn.Resume(time.Second)
	var err error
	switch {
	case p.token != nil:
		tell := &dialect.Notifier{Way: &parkedWay{nil, p, out, &err}, Token: p.token, Wordless: p.agreed.revision < revision.March2025}
		tell.Continue(p.shown)
		tell.Alive(aliveTime * 2 / 3)
		p.shown = tell.Shown()
		fallthrough
	default:
		if now.Sub(p.wrote) >= aliveEvery-tendEvery { // it may be that much later
			err = errors.Join(err, out.Alive())
			p.wrote = now
		}
	}
	confirm := now.Sub(p.confirmed) >= p.wait/3
	if confirm {
		p.confirmed = now
	}
	p.mu.Unlock()
	if err != nil {
		if conn := p.d.sessions.lot.leave(p); conn != nil {
			conn.Abort() // its task goes on for a while: the client may come back
		}
		return
	}
	if confirm {
		ctx, cancel := context.WithTimeout(context.Background(), writeTime)
		defer cancel()
		_, _ = p.d.Tasks.Renew(ctx, p.principal, p.task, patienceFor(p.wait), nil) // or it is tried again
		if found := p.d.recordOf(ctx, p.agreed); found != nil && found.Value.Ended {
			p.d.sessions.end(p.agreed, p.d.Turns.Now())
		}
	}
}

// parkedWay is the way of signs of life.
type parkedWay struct {
	dialect.Way // nothing else is called
	p           *parked
	out         *wire.EventStream
	err         *error
}

// Notify implements [dialect.Way].
func (w *parkedWay) Notify(method string, params json.RawMessage) {
	p := w.p
	p.event++
	id := p.stream + "_" + strconv.FormatUint(p.event, 10) + markOf(p.task, p.told)
	*w.err = w.out.Event(id, wire.AppendCall(nil, 0, method, params))
	p.wrote = time.Now()
}

// isParked reports whether the request ends because its stream is parked.
func (w *way) isParked() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.call.parked
}
