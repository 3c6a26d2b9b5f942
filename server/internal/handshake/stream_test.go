package handshake

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

func emptySession() *session {
	return &session{streams: make(map[string]*stream), calls: make(map[*sessionCall]struct{})}
}

// A stream is kept once it has ended, and once only, whichever of its requests is
// the last to be answered and however many end at the same time.
func TestStreamsAreKeptOnce(t *testing.T) {
	t.Run("together", func(t *testing.T) {
		for range 200 {
			s := emptySession()
			st := s.open(8, nil, false)
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() { st.add(eventResponse, []byte("{}")) })
			}
			all.Wait()
			assert.Equal(t, []*stream{st}, s.finished)
		}
	})
	t.Run("a request more than was due", func(t *testing.T) {
		s := emptySession()
		st := s.open(1, nil, false)
		for range 3 {
			st.add(eventResponse, nil)
		}
		assert.Equal(t, []*stream{st}, s.finished)
		_, ended, _ := st.after(0)
		assert.True(t, ended)
	})
	t.Run("one that was read to its end", func(t *testing.T) {
		s := emptySession()
		st := s.open(1, nil, false)
		s.forget(st)
		st.add(eventResponse, []byte("{}"))
		assert.Empty(t, s.finished)
		assert.Empty(t, s.streams)
	})
}

// What a session keeps of streams that have ended does not grow with their number
// or size.
func TestKeptStreamsAreBounded(t *testing.T) {
	for _, size := range []int{10, maxFinishedBytes / 2, 2 * maxFinishedBytes} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			s := emptySession()
			response := bytes.Repeat([]byte("1"), size)
			var last *stream
			for range 3 * maxFinished {
				last = s.open(2, nil, false)
				last.add(eventResponse, response)
				last.add(eventResponse, nil)
			}
			want := max(1, min(maxFinished, maxFinishedBytes/size))
			assert.Len(t, s.finished, want)
			assert.Len(t, s.streams, want, "nothing else can be found")
			assert.Same(t, last, s.streams[last.name], "the newest is kept, whatever its size")
		})
	}
}

// A tool that tells much to a client that does not read takes no more memory than
// is granted to a stream.
func TestNotificationsAreBoundedByBytes(t *testing.T) {
	st := emptySession().open(1, nil, false)
	question := st.add(eventRequest, []byte(`{"method":"ask"}`))
	note := bytes.Repeat([]byte("1"), maxNoteBytes/4)
	for range 100 {
		st.add(eventNote, note)
	}
	assert.Equal(t, 4*len(note)+len(`{"method":"ask"}`), st.size(), "questions are not lost")
	st.add(eventNote, bytes.Repeat([]byte("1"), 2*maxNoteBytes))
	events, _, _ := st.after(question)
	assert.Len(t, events, 1, "the newest is kept, whatever its size")
	st.add(eventNote, []byte("1"))
	st.drop(question)
	assert.Equal(t, 1, st.size())
}

// What is kept of calls that have ended has a limit of its own: a large response that
// was not read does not keep new calls out. What open streams keep does.
func TestEndedStreamsTakeNoRoomFromCalls(t *testing.T) {
	s := emptySession()
	s.most = 1000
	st := s.open(1, nil, false)
	st.add(eventResponse, make([]byte, 5000))
	assert.True(t, s.fits(1000))
	assert.False(t, s.fits(1001))
	s.open(1, nil, false).add(eventRequest, make([]byte, 600))
	assert.True(t, s.fits(400))
	assert.False(t, s.fits(401))
}

// The calls of a session share the room for what they tell.
func TestNotificationsShareTheirRoom(t *testing.T) {
	s := emptySession()
	for range 4 {
		s.calls[new(sessionCall)] = struct{}{}
	}
	st := s.open(1, nil, false)
	for range 100 {
		st.add(eventNote, make([]byte, maxNoteBytes/8))
	}
	assert.Equal(t, maxNoteBytes/4, st.size())
}
