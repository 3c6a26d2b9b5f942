package handshake

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/server/internal/handshake/revision"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// stream holds the messages for the client that belong to one POST, or to the
// client's GET, whether a connection carries them at the moment or not. A client
// that lost its connection reads on where it stopped (MCP 2025-11-25,
// basic/transports, resumability and redelivery).
type stream struct {
	// name is unique in the session and part of the events' ids.
	name    string
	single  bool     // it carries one request
	session *session // its mu guards what follows

	// opening is the mark of the id from which the client can resume before there is any event. It is
	// unknown as long as it may have one and has not, and there are no ids until then.
	opening string
	unknown bool
	shown   bool // an id was sent

	events []streamEvent // by number
	last   uint64        // number of the last event
	notes  int           // how many of events are notifications
	noted  int           // bytes of notifications
	size   int           // bytes of events
	due    int           // responses still to come; the stream ends when there are none
	// changed is closed when something above changes; nil unless a connection waits for that.
	changed chan struct{}
	// reader is the connection that carries the stream; a newer one takes over. detach is called when
	// there is none any more; it may be nil.
	reader *streamReader
	detach func()
}

// streamEvent is one message.
type streamEvent struct {
	number uint64
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

// streamReader is a connection that carries a stream.
type streamReader struct {
	// gone is closed when the connection should end before the stream does.
	gone chan struct{}
	// retry is when the client should come back; set before gone is closed.
	retry time.Duration
	// after is the id of the event after which the client reads on, empty if it reads from the
	// first. It is sent again at once: clients take the last id of the connection that breaks, and
	// are lost if that had none.
	after string

	out *wire.EventStream
	// number is that of the last event that was written, and opening the end of the id from which
	// the client can resume before there is any. begun: something was written. primed: the client
	// knows that id.
	number        uint64
	opening       string
	begun, primed bool
}

// maxNotes and maxNoteBytes bound the notifications kept for one stream; the bytes
// are shared by the calls of a session. A client that does not read them loses the
// oldest; requests and responses are never lost.
const (
	maxNotes     = 256
	maxNoteBytes = 1 << 20
)

// What a session keeps of streams that have ended, for clients that did not get
// to read them.
const (
	maxFinished      = 8
	maxFinishedBytes = 1 << 20
)

// add appends a message and returns its number. A response may be nil, because the client
// has cancelled the request; the one after which no more are due ends the stream, and then
// nothing is added any more.
func (st *stream) add(kind eventKind, data []byte) (number uint64) {
	return st.addMarked("", kind, data)
}

// addMarked is add for a message whose event's id ends with a mark.
func (st *stream) addMarked(mark string, kind eventKind, data []byte) (number uint64) {
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
		st.events = append(st.events, streamEvent{st.last, kind, data, mark})
		st.size += len(data)
	}
	switch kind {
	case eventResponse:
		st.due--
	case eventNote:
		st.notes++
		st.noted += len(data)
		most := maxNoteBytes / max(len(s.calls), 1)
		for st.notes > 1 && (st.notes > maxNotes || st.noted > most) {
			st.drop(func(e streamEvent) bool { return e.kind == eventNote })
		}
	}
	if st.due == 0 && st.opening != "" { // any replica has it
		delete(s.streams, st.name)
	}
	if st.due == 0 && s.streams[st.name] != nil { // the newest that has ended is kept, whatever its size
		s.finished = append(s.finished, st)
		size := 0
		for _, f := range s.finished {
			size += f.size
		}
		for len(s.finished) > 1 && (len(s.finished) > maxFinished || size > maxFinishedBytes) {
			size -= s.finished[0].size
			delete(s.streams, s.finished[0].name)
			s.finished = s.finished[1:]
		}
	}
	if st.changed != nil {
		close(st.changed)
		st.changed = nil
	}
	return st.last
}

// drop removes the first event of that kind, if there is one. The session is locked.
func (st *stream) drop(is func(streamEvent) bool) {
	i := slices.IndexFunc(st.events, is)
	if i < 0 {
		return
	}
	st.size -= len(st.events[i].data)
	if st.events[i].kind == eventNote {
		st.notes--
		st.noted -= len(st.events[i].data)
	}
	st.events = slices.Delete(st.events, i, i+1)
}

// after returns the events that follow one, whether the stream has ended, and a
// channel that is closed when there is more to see.
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

// carriedBy has another connection carry the stream until release, or none for now. The
// one before ends; its client may come back after retry.
func (st *stream) carriedBy(r *streamReader, retry time.Duration) (release func()) {
	st.session.mu.Lock()
	if st.reader != nil {
		st.reader.retry = retry
		close(st.reader.gone)
	}
	st.reader = r
	st.session.mu.Unlock()
	if r == nil {
		st.lost()
	}
	return func() {
		st.session.mu.Lock()
		last := st.reader == r
		if last {
			st.reader = nil
		}
		st.session.mu.Unlock()
		if last {
			st.lost()
		}
	}
}

// lost lets go of what sends on the stream, when no connection carries it.
func (st *stream) lost() {
	st.session.mu.Lock()
	detach, ended := st.detach, st.due == 0
	st.session.mu.Unlock()
	if detach != nil && !ended {
		detach()
	}
}

// settle says what the ids of its events end with at first: nothing for one that stays here.
func (st *stream) settle(mark string) {
	st.session.mu.Lock()
	defer st.session.mu.Unlock()
	if !st.unknown {
		return
	}
	st.opening, st.unknown = mark, false
	if st.changed != nil {
		close(st.changed)
		st.changed = nil
	}
}

// eventID is the id of an event. ok is false while there is none.
func (st *stream) eventID(event uint64, mark string) (id string, ok bool) {
	st.session.mu.Lock()
	defer st.session.mu.Unlock()
	if st.unknown {
		return "", false
	}
	st.shown = true
	if event == 0 {
		mark = cmp.Or(mark, st.opening)
	}
	return st.name + "_" + strconv.FormatUint(event, 10) + mark, true
}

// eventID is what the id of an event says.
type eventID struct {
	stream string // its name
	event  uint64 // on the stream
	mark   string // the end of the id, and what it says; see markOf
	seen   uint64
	number uint64
}

// markOf is how the id of an event ends if any replica can resume after it: with the number of the last event
// of the task's log that was passed on by then, and that of the request (requestkey.go).
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
	e.event, ok = parseNumber(digits)
	if mark != "" {
		e.mark = "." + mark
	}
	seen, number, _ := strings.Cut(mark, ".")
	if e.number, _ = strconv.ParseUint(number, 36, numberBits); e.number != 0 {
		e.seen, _ = parseNumber(seen)
	}
	return e, ok
}

func parseNumber(digits string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return 0, false
	}
	return n, true
}

// awaitStream waits until it shows how to answer. If plain, all there is to say are these
// responses: then they can be plain JSON.
func (st *stream) awaitStream(ctx context.Context, reader *streamReader, streams bool) (responses [][]byte, plain bool) {
	var late <-chan time.Time
	if streams {
		late = time.After(streamDelay)
	}
	for {
		events, ended, changed := st.after(0)
		responses = nil
		for _, e := range events {
			if e.kind != eventResponse {
				return nil, false
			}
			responses = append(responses, e.data)
		}
		if ended {
			return responses, len(events) > 0 // if all were cancelled, a stream without a response says so
		}
		select {
		case <-changed:
		case <-late:
			return nil, false
		case <-reader.gone:
			return nil, false
		case <-ctx.Done():
			return nil, !streams
		case <-st.session.ctx.Done():
			if streams {
				return nil, false
			}
			<-changed // the calls end, and with them the stream
		}
	}
}

// pump writes a stream's events until the stream has ended or the connection is to. On the stream
// that belongs to no request, changes become events.
func (st *stream) pump(ctx context.Context, r wire.Reply, to *streamReader) {
	to.out = r.Events(patience)
	defer to.out.End()
	to.primed = st.session.revision < revision.November2025 // others can resume from the first event on (SEP-1699)
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	var changed <-chan struct{}
	if st == st.session.general {
		changed = st.session.changes.Ready
	}
	for {
		more, ok := st.write(to)
		if !ok {
			return
		}
		select {
		case <-more:
		case <-to.gone:
		case <-changed:
			st.tell()
		case <-alive.C:
			if to.out.Alive() != nil {
				return
			}
			st.session.check(ctx)
		case <-st.session.ctx.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// tell adds the change that waits for the longest.
func (st *stream) tell() {
	changes := st.session.changes
	if e, ok := changes.Next(); ok {
		st.addMarked(st.session.position(changes), eventNote, wire.AppendCall(nil, 0, e.Method(), e.Params()))
	}
}

// write writes what there is. It returns what is closed when there is more, and false if the
// connection is to end.
func (st *stream) write(to *streamReader) (more <-chan struct{}, ok bool) {
	for {
		if !to.primed {
			if first, ok := st.eventID(to.number, to.opening); ok {
				if to.primed, to.begun = true, true; to.out.Start(first) != nil {
					return nil, false
				}
			}
		}
		// Something at once, for what is between us to see that there is a response.
		if !to.begun {
			to.begun = true
			first := to.out.Alive
			if to.after != "" {
				first = func() error { return to.out.Start(to.after) }
			}
			if first() != nil {
				return nil, false
			}
		}
		select {
		case <-to.gone:
			if to.retry != 0 {
				_ = to.out.Retry(to.retry) // the client may have gone as well
			}
			return nil, false
		default:
		}
		events, ended, more := st.after(to.number)
		if len(events) > 0 && !to.primed {
			continue // its id is known now
		}
		for _, e := range events {
			id, _ := st.eventID(e.number, e.mark)
			if to.out.Event(id, e.data) != nil {
				return nil, false
			}
			to.number = e.number
		}
		return more, !ended
	}
}

const (
	// streamDelay is how long a response may take before the stream opens, so that
	// short answers are plain JSON.
	streamDelay = 50 * time.Millisecond
	// aliveEvery is how often an idle stream shows that it lives; a connection
	// that is dead is noticed by it.
	aliveEvery = 15 * time.Second
	// patience is how long a client may take to accept what is written.
	patience = 30 * time.Second
)
