package server_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/store/storetest"
	"github.com/mcpsaga/mcpsaga/server"
)

// A client that lost a stream reads on where it stopped, on that stream only, and
// is not asked again what it has answered.
func TestHandshakeResume(t *testing.T) {
	r := newRig(t, server.Options{Tools: legacyDefinitions()})
	c := r.connect("2025-11-25", everything)
	s := c.stream(toolCall(1, "talk", `{}`))
	other := c.stream(toolCall(2, "ask", `{"what":"form"}`))
	otherForm := other.wait("elicitation/create")
	first, err := s.next()
	require.NoError(t, err)
	var seen []sseEvent
	for len(seen) == 0 || seen[len(seen)-1].Method != "elicitation/create" {
		seen = append(seen, s.message())
	}
	form := seen[len(seen)-1]
	s.close()

	// From the beginning: the same events, and the question again.
	again := c.get(first.id)
	opening, err := again.next()
	require.NoError(t, err)
	assert.Equal(t, first.id, opening.id)
	for _, e := range seen {
		assert.Equal(t, e, again.message())
	}
	again.close()
	// From the middle.
	again = c.get(seen[1].id)
	assert.Equal(t, seen[2], again.message())
	again.close()

	c.reply(form.ID, accepted(`{"name":"n"}`))
	again = c.get(first.id)
	for tries := 0; ; {
		e := again.message()
		if e.Method == "elicitation/create" && tries < 2000 {
			// The call that waits takes the answer a moment after it was accepted.
			again.close()
			time.Sleep(10 * time.Millisecond)
			tries++
			again = c.get(first.id)
			continue
		}
		assert.NotEqual(t, "elicitation/create", e.Method, "it is answered")
		assert.NotEqual(t, otherForm.id, e.id)
		if e.Method == "" {
			got, _ := text(t, e.Result)
			assert.Equal(t, "talked", got)
			break
		}
	}
	again.end()
	// What has ended can be read again for a while.
	last := c.get(seen[len(seen)-1].id)
	last.wait("")
	last.end()
	c.fail(otherForm.ID, -1, "")
	other.wait("")
	for range 10 {
		s := c.stream(toolCall(3, "flood", `{"n":1}`))
		s.wait("")
	}
	resp := c.request("GET", "", func(r *http.Request) { r.Header.Set("Last-Event-ID", first.id) })
	readAll(t, resp)
	assert.Equal(t, 400, resp.StatusCode, "but not for ever")
}

func TestHandshakeEventIDs(t *testing.T) {
	r := newRig(t, server.Options{Tools: legacyDefinitions()})
	for version, priming := range map[string]bool{"2025-11-25": true, "2025-06-18": false, "2025-03-26": false} {
		c := r.connect(version, everything)
		ids := make(map[string]bool)
		for range 3 {
			s := c.stream(toolCall(1, "flood", `{"n":3}`))
			for i := 0; ; i++ {
				e, err := s.next()
				if err != nil {
					break
				}
				assert.Equal(t, priming && i == 0, e.data == "")
				assert.False(t, ids[e.id], "%s occurs twice", e.id)
				ids[e.id] = true
			}
		}
	}
}

// A tool gives up its connection; the client comes back for the rest (SEP-1699).
func TestHandshakePolling(t *testing.T) {
	r := newRig(t, server.Options{Tools: legacyDefinitions()})
	c := r.connect("2025-11-25", everything)
	s := c.stream(toolCall(1, "away", `{}`))
	var events []sseEvent
	for {
		e, err := s.next()
		if err != nil {
			break
		}
		assert.Nil(t, e.Result)
		events = append(events, e)
	}
	require.NotEmpty(t, events)
	assert.NotEmpty(t, events[0].id)
	assert.Equal(t, "123", events[len(events)-1].retry)
	last := ""
	for _, e := range events {
		if e.id != "" {
			last = e.id
		}
	}
	got, _ := text(t, c.get(last).wait("").Result)
	assert.Equal(t, "away and back", got)
	for _, version := range []string{"2025-06-18", "2025-03-26"} {
		got, _ := text(t, r.connect(version, everything).stream(toolCall(1, "away", `{}`)).wait("").Result)
		assert.Equal(t, "away and back", got, "clients of %s know nothing of it", version)
	}
}

func TestHandshakeGetStream(t *testing.T) {
	r := newRig(t, server.Options{Tools: legacyDefinitions()})
	c, other := r.connect("2025-11-25", everything), r.connect("2025-06-18", everything)
	c.ask(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"static://one"}}`)
	s, o := c.get(""), other.get("")
	opening, err := s.next()
	require.NoError(t, err)
	assert.NotEmpty(t, opening.id)
	r.srv.ResourceUpdated("static://two")
	r.srv.ResourceUpdated("static://one")
	r.srv.ToolsChanged()
	r.srv.PromptsChanged()
	r.srv.ResourcesChanged()
	assert.JSONEq(t, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"static://one"}}`, s.message().data)
	var last sseEvent
	for _, method := range []string{"tools", "prompts", "resources"} {
		last = s.message()
		assert.Equal(t, "notifications/"+method+"/list_changed", last.Method)
		assert.Equal(t, last.Method, o.message().Method, "who has not subscribed hears of lists only")
	}

	// A newer stream takes the place of the old one, which may be dead.
	newer := c.get("")
	s.end()
	r.srv.ToolsChanged()
	newer.wait("notifications/tools/list_changed")
	newer.close()
	// A client that comes back may have missed any change, and hears of each list and resource once.
	r.srv.ToolsChanged()
	resumed := c.get(last.id)
	var heard []string
	for range 4 {
		heard = append(heard, resumed.message().Method)
	}
	assert.ElementsMatch(t, []string{"notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed", "notifications/resources/updated"}, heard)

	c.ask(`{"jsonrpc":"2.0","id":1,"method":"resources/unsubscribe","params":{"uri":"static://one"}}`)
	r.srv.ResourceUpdated("static://one")
	r.srv.PromptsChanged()
	resumed.wait("notifications/prompts/list_changed")
	resp := c.request("DELETE", "", nil)
	resp.Body.Close()
	for err = nil; err == nil; {
		_, err = resumed.next()
	}
}

// A client that does not read holds up neither the tool nor the server's memory:
// what it missed of notifications is lost, the response is not.
func TestHandshakeSlowReader(t *testing.T) {
	t.Parallel()
	r := newRig(t, server.Options{Tools: legacyDefinitions()})
	c := r.connect("2025-06-18", everything)
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	body := toolCall(1, "flood", `{"n":20000}`) // 20 MB, more than buffers hold
	fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s", c.session, len(body), body)
	var first string
	for in := bufio.NewReader(conn); !strings.HasPrefix(first, "id: "); {
		first, err = in.ReadString('\n')
		require.NoError(t, err)
	}
	first = strings.TrimSpace(strings.TrimPrefix(first, "id: "))
	first = first[:strings.Index(first, "_")] + "_0"
	for range 20 {
		start := time.Now()
		assert.Contains(t, c.ask(toolCall(2, "sum", `{}`)), `"sum":3`)
		assert.Less(t, time.Since(start), 5*time.Second)
	}
	conn.Close()

	s := c.get(first)
	notes := 0
	for {
		e := s.message()
		if e.Method == "" {
			got, _ := text(t, e.Result)
			assert.Equal(t, "flooded", got)
			break
		}
		notes++
	}
	assert.LessOrEqual(t, notes, 20000)
	again := c.get(first)
	for notes = 0; again.message().Method != ""; {
		notes++
	}
	assert.Equal(t, 256, notes)
}

// Of two connections that are to carry what belongs to no request, the newer does, whichever the ledger hears of
// last.
func TestTheNewerConnectionStays(t *testing.T) {
	a := newAnywhere(t, legacyDefinitions()...)
	c := a.rigs[0].connect("2025-11-25", everything)
	hold, held := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	a.store.before(func(call storetest.Call) {
		if call.Method == "Write" && call.Record.Mode == store.ModeSession && first.CompareAndSwap(false, true) {
			close(held)
			<-hold
		}
	})
	older := make(chan *http.Response, 1)
	go func() { older <- c.request(http.MethodGet, "", nil) }()
	<-held
	s := c.get("")
	_, err := s.next()
	require.NoError(t, err)
	close(hold)
	(<-older).Body.Close()
	time.Sleep(300 * time.Millisecond) // what the older one does wrong, it does by then
	a.rigs[0].srv.ToolsChanged()
	s.wait("notifications/tools/list_changed")
}

// A client of a version before 2025-11-25 that comes back gets what it has missed, and no event without data.
func TestOlderClientsGetNoEmptyEvent(t *testing.T) {
	a := newAnywhere(t, legacyDefinitions()...)
	c := a.rigs[0].connect("2025-06-18", everything)
	s := c.stream(toolCall(1, "ask", `{"what":"form"}`))
	q := s.wait("elicitation/create")
	s.close()
	e, err := c.at(a.rigs[1]).get(q.id).next()
	require.NoError(t, err)
	assert.NotEmpty(t, e.data)
}
