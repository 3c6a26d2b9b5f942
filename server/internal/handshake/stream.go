package handshake

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake/revision"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// stream holds the messages for the client that belong to one POST, for clients that read on where they have lost it (MCP
// 2025-11-25, basic/transports, resumability and redelivery).
type stream struct {
	// name is unique in the session and part of the events' ids.
	name    string
	single  bool     // it carries one request
	session *session // its mu guards what follows

	// mark is how the ids of new events end; see markOf. opening is the mark of the id before the first event. unknown: it
	// may have one and has not, and there are no ids until then.
	mark    string
	opening string
	unknown bool
	shown   bool // an id was sent

	events []streamEvent // by number
	last   uint64        // number of the last event
	due    int           // responses still to come; the stream ends when there are none
	// refused is what HTTP is to say of a response if that is plain JSON; nil is nothing.
	refused *wire.Error
	// changed is closed when something above changes; nil unless a connection waits for that.
	changed chan struct{}
	// carrier is the connection that carries the stream, or nil; a newer one takes over.
	carrier *carrier
}

// streamEvent is one message.
type streamEvent struct {
	number uint64 // from 1 on
	kind   eventKind
	data   []byte
	mark   string // the end of its id; see markOf
}

type eventKind uint8

const (
	eventNote eventKind = iota // a notification: may be dropped
	eventRequest
	eventResponse
)

// carrier is a connection that carries a stream.
type carrier struct {
	out *wire.EventStream
	// gone is closed when the connection is to end before the stream. retry, set before, is when the client should come back.
	gone  chan struct{}
	retry time.Duration
	// name is what the session's document calls a connection that carries what belongs to no request; named: it does.
	name  string
	named bool

	// number is that of the last event that was sent. after is the id after which the client reads on, or empty. It is sent
	// again at once: clients are lost if a connection breaks that had none.
	number uint64
	after  string
	// primed: the client knows an id from which it can resume.
	primed bool
}

// maxNotes and maxNoteBytes bound the notifications kept for one stream; a session's calls share the bytes. A client that
// does not read loses the oldest, but no request or response.
const (
	maxNotes     = 256
	maxNoteBytes = 1 << 20
)

// What a session keeps of streams that have ended, for clients that have not read them.
const (
	maxFinished      = 8
	maxFinishedBytes = 1 << 20
)

const (
	// streamDelay is how long a response may take that is plain JSON.
	streamDelay = 50 * time.Millisecond
	// aliveEvery is how often an idle stream shows that it lives, and whether its connection does.
	aliveEvery = 15 * time.Second
	// acceptTime is how long a client may take to accept what is written.
	acceptTime = 30 * time.Second
)

// open makes the stream of a POST. numbered says that it may be one that other replicas can continue.
func (s *session) open(requests int, wrong [][]byte, numbered bool) *stream {
	s.mu.Lock()
	s.posts++
	st := &stream{name: "p" + s.stem + "-" + strconv.FormatUint(s.posts, 10), session: s, due: requests + len(wrong)}
	st.single = st.due == 1
	st.unknown = st.single && numbered
	s.streams[st.name] = st
	s.mu.Unlock()
	for _, response := range wrong {
		st.add(eventResponse, response)
	}
	return st
}

// refuse has plain JSON say that a permission is wanted, unless it is nil.
func (st *stream) refuse(rerr *wire.Error) {
	if rerr != nil {
		st.session.mu.Lock()
		defer st.session.mu.Unlock()
		st.refused = rerr
	}
}

// forget drops a stream that was read to its end in a way that cannot be resumed.
func (s *session) forget(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, st.name)
	s.finished = slices.DeleteFunc(s.finished, func(f *stream) bool { return f == st })
}

// add appends a message and returns its number. A response is nil if the client has cancelled the request; after the last that
// is due nothing is added.
func (st *stream) add(kind eventKind, data []byte) (number uint64) {
	if bytes.ContainsAny(data, "\r\n") { // an event has none; in JSON text they are only space
		if v := jsontext.Value(bytes.Clone(data)); v.Compact() == nil {
			data = v
		}
	}
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.due == 0 {
		return 0
	}
	st.unknown = false
	if data != nil {
		st.last++
		st.events = append(st.events, streamEvent{st.last, kind, data, st.mark})
	}
	switch kind {
	case eventResponse:
		if st.due--; st.due == 0 && st.opening != "" { // any replica has it
			delete(s.streams, st.name)
		} else if st.due == 0 && s.streams[st.name] != nil {
			s.finished = append(s.finished, st)
			s.dropFinished()
		}
	case eventNote:
		st.dropNotes(maxNoteBytes / max(len(s.calls), 1))
	}
	if st.changed != nil {
		close(st.changed)
		st.changed = nil
	}
	return st.last
}

// dropFinished forgets the oldest streams that have ended, but the newest, if there is too much. The session is locked.
func (s *session) dropFinished() {
	size := 0
	for _, st := range s.finished {
		size += st.size()
	}
	for len(s.finished) > 1 && (len(s.finished) > maxFinished || size > maxFinishedBytes) {
		size -= s.finished[0].size()
		delete(s.streams, s.finished[0].name)
		s.finished = s.finished[1:]
	}
}

// dropNotes drops the oldest notifications, but the newest, as long as there are too many. The session is locked.
func (st *stream) dropNotes(most int) {
	count, size := 0, 0
	for i, e := range slices.Backward(st.events) {
		if e.kind != eventNote {
			continue
		}
		count, size = count+1, size+len(e.data)
		if count > 1 && (count > maxNotes || size > most) {
			st.events = slices.Delete(st.events, i, i+1)
		}
	}
}

// drop removes the event with a number. The session is locked.
func (st *stream) drop(number uint64) {
	st.events = slices.DeleteFunc(st.events, func(e streamEvent) bool { return e.number == number })
}

// size is how many bytes the events have. The session is locked.
func (st *stream) size() (n int) {
	for _, e := range st.events {
		n += len(e.data)
	}
	return n
}

// after returns the events that follow one, whether the stream has ended, and what is closed when there is more.
func (st *stream) after(number uint64) (events []streamEvent, ended bool, changed <-chan struct{}) {
	st.session.mu.Lock()
	defer st.session.mu.Unlock()
	i := slices.IndexFunc(st.events, func(e streamEvent) bool { return e.number > number })
	if i >= 0 {
		events = slices.Clone(st.events[i:])
	}
	if st.changed == nil && st.due > 0 {
		st.changed = make(chan struct{})
	}
	return events, st.due == 0, st.changed
}

// carry has a connection, or none, carry a stream until release. The one before ends; its client may come back after retry.
func (s *session) carry(at **carrier, c *carrier, retry time.Duration) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := *at; old != nil {
		old.retry = retry
		close(old.gone)
	}
	*at = c
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if *at == c {
			*at = nil
		}
	}
}

// settle says what the ids of events end with from now on: nothing on a stream that stays here.
func (st *stream) settle(mark string) {
	st.session.mu.Lock()
	defer st.session.mu.Unlock()
	if st.mark = mark; st.unknown {
		st.opening, st.unknown = mark, false
		if st.changed != nil {
			close(st.changed)
			st.changed = nil
		}
	}
}

// eventID is the id of an event; 0 is before the first. ok is false while there is none.
func (st *stream) eventID(event uint64, mark string) (id string, ok bool) {
	st.session.mu.Lock()
	defer st.session.mu.Unlock()
	if st.unknown {
		return "", false
	}
	st.shown = true
	if event == 0 {
		mark = st.opening
	}
	return st.name + "_" + strconv.FormatUint(event, 10) + mark, true
}

// reply answers a POST: by JSON if that can be, with batch by a list. streams: the client takes events.
func (st *stream) reply(ctx context.Context, r wire.Reply, c *carrier, streams, batch bool) {
	soon := func() {}
	if !streams {
		soon = r.Lasting(ctx, acceptTime)
	}
	events, ended := st.atFirst(ctx, c, streams)
	switch {
	case !streams && ctx.Err() != nil && !cutOff(ctx):
	case !ended || len(events) == 0 || slices.ContainsFunc(events, isMessage): // if all were cancelled, a stream without a response says so
		st.pump(ctx, r, c)
		return
	default:
		responses := make([][]byte, len(events))
		for i, e := range events {
			responses[i] = e.data
		}
		body := bytes.Join(responses, []byte{','})
		if batch {
			body = append(append([]byte{'['}, body...), ']')
		}
		soon()
		r.Response(body, st.refused) // which is set before the response is added
	}
	st.session.forget(st) // it cannot be resumed
}

// isMessage reports whether an event is more than a response, so that only a stream can carry it.
func isMessage(e streamEvent) bool { return e.kind != eventResponse }

// atFirst returns what is on the stream once that is known not to be plain JSON, or complete.
func (st *stream) atFirst(ctx context.Context, c *carrier, streams bool) (events []streamEvent, ended bool) {
	var late <-chan time.Time
	var over <-chan struct{} // without a stream, the calls end, and with them the wait
	if streams {
		late, over = time.After(streamDelay), st.session.ctx.Done()
	}
	for gone, waits := ctx.Done(), true; ; {
		events, ended, changed := st.after(0)
		if !waits || ended || slices.ContainsFunc(events, isMessage) {
			return events, ended
		}
		waits = false
		select {
		case <-changed:
			waits = true
		case <-late:
		case <-c.gone:
		case <-over:
		case <-gone:
			gone, waits = nil, cutOff(ctx)
		}
	}
}

// pump writes a stream's events until the stream has ended or the connection is to.
func (st *stream) pump(ctx context.Context, r wire.Reply, c *carrier) {
	c.out = r.Events(acceptTime)
	c.primed = c.after != "" || st.session.revision < revision.November2025 // others can resume from the first event on (SEP-1699)
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	for {
		events, ended, changed := st.after(c.number)
		if st.start(c) != nil || c.ends() {
			return
		}
		for _, e := range events {
			id, _ := st.eventID(e.number, e.mark)
			if c.out.Event(id, e.data) != nil {
				return
			}
			c.number = e.number
		}
		if ended || !st.session.pause(ctx, c, alive, changed) {
			return
		}
	}
}

// start begins a response with an id from which the client can resume, as soon as there is one, and until then without.
func (st *stream) start(c *carrier) error {
	id := ""
	if !c.primed {
		id, c.primed = st.eventID(0, "")
	}
	switch {
	case id != "":
		return c.out.Start(id)
	case c.out.Started():
		return nil
	case c.after != "" && st.session.revision >= revision.November2025:
		return c.out.Start(c.after)
	}
	return c.out.Alive()
}

// eventID is what the id of an event says.
type eventID struct {
	stream string // its name
	event  uint64 // on the stream
	seen   uint64 // how much of the task's log was passed on by then
	number uint64
}

// markOf ends ids from which any replica can resume, with how much of the task's log was passed on, and the request's number.
func markOf(number, seen uint64) string {
	return "." + strconv.FormatUint(seen, 10) + "." + strconv.FormatUint(number, 36)
}

func parseEventID(id string) (e eventID, ok bool) {
	i := strings.LastIndexByte(id, '_')
	if i < 0 {
		return e, false
	}
	e.stream = id[:i]
	digits, mark, _ := strings.Cut(id[i+1:], ".")
	var err error
	e.event, err = strconv.ParseUint(digits, 10, 63)
	seen, number, _ := strings.Cut(mark, ".")
	e.number, _ = strconv.ParseUint(number, 36, numberBits)
	if n, err := strconv.ParseUint(seen, 10, 63); err == nil {
		e.seen = n
	}
	return e, err == nil
}

// ends reports whether the connection is to end, and tells the client when to come back.
func (c *carrier) ends() bool {
	select {
	case <-c.gone:
		if c.retry != 0 {
			_ = c.out.Retry(c.retry) // the client may have gone as well
		}
		return true
	default:
		return false
	}
}

// pause waits until there may be something to send. It reports false if the connection has ended.
func (s *session) pause(ctx context.Context, c *carrier, alive *time.Ticker, more <-chan struct{}) bool {
	over, gone := s.ctx.Done(), ctx.Done()
	for {
		select {
		case <-more:
		case <-c.gone:
		case <-alive.C:
			if c.out.Alive() != nil {
				return false
			}
			s.look(ctx)
		case <-over:
			if over = nil; c.name != "" || !cutOff(s.ctx) {
				return false
			}
			continue
		case <-gone:
			if gone = nil; c.name != "" || !cutOff(ctx) {
				return false
			}
			continue
		}
		return true
	}
}

// cutOff reports whether ctx has ended because the server stops: a stream then ends with the answers of its calls.
func cutOff(ctx context.Context) bool { return context.Cause(ctx) == dialect.ErrStopping }
