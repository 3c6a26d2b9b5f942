package handshake

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// stream holds the messages for the client that belong to one POST, or to the
// client's GET, whether a connection carries them at the moment or not. A client
// that lost its connection reads on where it stopped (MCP 2025-11-25,
// basic/transports, resumability and redelivery).
type stream struct {
	// name is unique in the session and part of the events' ids.
	name string

	mu     sync.Mutex
	events []streamEvent // by number
	last   uint64        // number of the last event
	notes  int           // how many of events are notifications
	noted  int           // bytes of notifications
	size   int           // bytes of events
	due    int           // responses still to come; the stream ends when there are none
	// changed is closed, and replaced, when something above changes.
	changed chan struct{}
	// reader is the connection that carries the stream; a newer one takes over.
	reader *streamReader
	// sharing is how many calls of the session share the room for notifications.
	sharing *atomic.Int64
}

// streamEvent is one message.
type streamEvent struct {
	number uint64
	kind   eventKind
	data   []byte
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
}

// maxNotes and maxNoteBytes bound the notifications kept for one stream; the bytes
// are shared by those of a session. A client that does not read them loses the oldest;
// requests and responses are never lost.
const (
	maxNotes     = 256
	maxNoteBytes = 1 << 20
)

func newStream(name string, due int, sharing *atomic.Int64) *stream {
	return &stream{name: name, due: due, sharing: sharing, changed: make(chan struct{})}
}

// add appends a message and returns its number. A response may be nil, because the client
// has cancelled the request; the one after which no more are due ends the stream, once,
// and then nothing is added any more.
func (s *stream) add(kind eventKind, data []byte) (number uint64, ended bool) {
	if bytes.ContainsAny(data, "\r\n") { // an event has none; in JSON text they are only space
		if v := jsontext.Value(bytes.Clone(data)); v.Compact() == nil {
			data = v
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.due == 0 {
		return 0, false
	}
	if data != nil {
		s.last++
		s.events = append(s.events, streamEvent{s.last, kind, data})
		s.size += len(data)
	}
	switch kind {
	case eventResponse:
		s.due--
	case eventNote:
		s.notes++
		s.noted += len(data)
		most := maxNoteBytes / int(max(s.sharing.Load(), 1))
		for s.notes > 1 && (s.notes > maxNotes || s.noted > most) {
			s.drop(func(e streamEvent) bool { return e.kind == eventNote })
		}
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return s.last, s.due == 0
}

// withdraw removes a request that needs no answer any more: a client that reads on
// after a break must not ask its user what the user has answered.
func (s *stream) withdraw(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(func(e streamEvent) bool { return e.number == number })
}

// drop removes the first event of that kind, if there is one.
func (s *stream) drop(is func(streamEvent) bool) {
	i := slices.IndexFunc(s.events, is)
	if i < 0 {
		return
	}
	s.size -= len(s.events[i].data)
	if s.events[i].kind == eventNote {
		s.notes--
		s.noted -= len(s.events[i].data)
	}
	s.events = slices.Delete(s.events, i, i+1)
}

// position returns the number of the last event.
func (s *stream) position() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// after returns the events that follow one, whether the stream has ended, and a
// channel that is closed when there is more to see.
func (s *stream) after(number uint64) (events []streamEvent, ended bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, _ := slices.BinarySearchFunc(s.events, number+1, func(e streamEvent, n uint64) int {
		return int(min(max(int64(e.number)-int64(n), -1), 1))
	})
	return slices.Clone(s.events[i:]), s.due == 0, s.changed
}

// carriedBy has another connection carry the stream, or none for now. The one before
// ends; its client may come back after retry.
func (s *stream) carriedBy(r *streamReader, retry time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reader != nil {
		s.reader.retry = retry
		close(s.reader.gone)
	}
	s.reader = r
}

// release says that a connection does not carry the stream any more.
func (s *stream) release(r *streamReader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reader == r {
		s.reader = nil
	}
}

// bytes is what the stream's events take.
func (s *stream) bytes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

// eventID writes the id of an event: the stream's name and the event's number.
func (s *stream) eventID(number uint64) string {
	return s.name + "_" + strconv.FormatUint(number, 10)
}

// parseEventID is the reverse of eventID.
func parseEventID(id string) (name string, number uint64, ok bool) {
	i := strings.LastIndexByte(id, '_')
	if i < 0 {
		return "", 0, false
	}
	number, err := strconv.ParseUint(id[i+1:], 10, 63)
	return id[:i], number, err == nil
}
