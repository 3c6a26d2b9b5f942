package server_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// tellsTool says what it does before and after each question.
func tellsTool() saga.Definition {
	return saga.Machine[empty, string]{
		Info: saga.Info{Name: "tells", Asks: []steps.Question{legacyForm}},
		Start: func(t *saga.Turn[empty, string]) (saga.Next, error) {
			t.Log(slog.LevelWarn, "begins")
			t.Progress(1, 3, "begins")
			return t.Ask("asked", legacyForm)
		},
		Steps: saga.Steps[empty, string]{
			"asked": func(t *saga.Turn[empty, string]) (saga.Next, error) {
				t.Log(slog.LevelWarn, "goes on")
				t.Progress(2, 3, "goes on")
				return t.Ask("again", legacyForm)
			},
			"again": func(t *saga.Turn[empty, string]) (saga.Next, error) {
				t.Log(slog.LevelWarn, "ends")
				t.Progress(3, 3, "ends")
				return t.Textf("told")
			},
		},
	}
}

// A client whose connection breaks after any event reads on at another replica, by the id of
// the last event that it has: everything comes once, and the same question has the same id.
func TestReadOnAtAnyReplica(t *testing.T) {
	for every := range 8 {
		t.Run(fmt.Sprint("every ", every), func(t *testing.T) {
			a := newAnywhere(t, tellsTool())
			c := a.rigs[0].connect("2025-11-25", everything)
			s := a.next(c).stream(toolCall(7, "tells", "{}"))
			var heard, questions []string
			last, broken := "", 0
			for n := 0; ; n++ {
				if n > every && last != "" {
					s.close()
					broken++
					require.Less(t, broken, 60)
					s, n = a.next(c).get(last), 0
				}
				m, err := s.next()
				require.NoError(t, err)
				if m.data == "" && last != "" {
					n--
					continue
				}
				require.NotEmpty(t, m.id, "%s", m.data)
				if last = m.id; m.data == "" {
					continue
				}
				if m.Method == "" {
					said, _ := text(t, m.Result)
					assert.Equal(t, "told", said)
					assert.Equal(t, "7", string(m.ID))
					break
				}
				switch m.Method {
				case "elicitation/create":
					if every%2 == 0 && len(questions)%2 == 0 && n > 0 { // it breaks before the answer
						questions = append(questions, "?"+string(m.ID))
						s.close()
						s, n = a.next(c).get(last), 0
						last = ""
						continue
					}
					questions = append(questions, string(m.ID))
					a.next(c).reply(m.ID, named("x"))
				default:
					heard = append(heard, string(m.Params))
				}
			}
			joined := strings.Join(heard, "\n")
			for _, what := range []string{"begins", "goes on", "ends"} {
				assert.Equal(t, 1, strings.Count(joined, `"data":"`+what+`"`), "%s in %s", what, joined)
				assert.Equal(t, 1, strings.Count(joined, `"message":"`+what+`"`), "%s in %s", what, joined)
			}
			// The end is there for a while; whoever has it is sent nothing.
			s = a.next(c).get(last)
			for m, err := s.next(); err != io.EOF; m, err = s.next() {
				require.NoError(t, err)
				assert.Empty(t, m.data)
			}
		})
	}
}

// Of two streams the later one counts.
func TestReadTwice(t *testing.T) {
	a := newAnywhere(t, roundsTool(new(world)))
	c := a.rigs[0].connect("2025-11-25", everything)
	first := c.stream(roundsCall(7, 1, "I"))
	asked := first.wait("elicitation/create")
	for _, r := range []*rig{a.rigs[1], a.rigs[2], a.rigs[0], a.rigs[2]} {
		second := c.at(r).get(asked.id)
		again := second.wait("elicitation/create")
		assert.Equal(t, asked.ID, again.ID)
		first.end()
		first, asked = second, again
	}
	again := c.at(a.rigs[2]).get(asked.id) // where it is carried already
	first.end()
	c.reply(asked.ID, named("x"))
	again.wait("")
}

// The first bytes come at once, also where nothing is said yet.
func TestStreamsOpenAtOnce(t *testing.T) {
	g := newGate()
	a := newAnywhere(t, g.tool())
	for _, version := range []string{"2025-11-25", "2025-06-18", "2024-11-05"} {
		c := a.rigs[0].connect(version, everything)
		begun := time.Now()
		resp := c.post(toolCall(1, "gate", `{}`))
		var b [1]byte
		_, err := resp.Body.Read(b[:])
		require.NoError(t, err)
		assert.Less(t, time.Since(begun), 5*time.Second, "it does not wait for the sign of life")
		<-g.entered
		g.leave <- true
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// Between the notification that a page was completed and the response, a client that loses its connection has
// the response yet to get.
func TestTheResponseAfterACompletedPage(t *testing.T) {
	a := newAnywhere(t, legacyDefinitions()...)
	for _, at := range a.rigs[:2] {
		c := a.rigs[0].connect("2025-11-25", everything)
		s := c.stream(toolCall(1, "ask", `{"what":"link"}`))
		c.reply(s.wait("elicitation/create").ID, `{"action":"accept"}`)
		note := s.wait("notifications/elicitation/complete")
		response := s.wait("")
		s.close()
		s = c.at(at).get(note.id)
		assert.Equal(t, response.data, s.wait("").data)
	}
}

// A call that is only repeated, with its key, after it has ended is no other replica's to continue: its stream says
// no id that leads nowhere.
func TestAKeyedCallThatHasEnded(t *testing.T) {
	a := newAnywhere(t, legacyDefinitions()...)
	c := a.rigs[0].connect("2025-11-25", everything)
	call := func(id int) *sseReader {
		return c.stream(methodCall(id, "tools/call", `{"name":"ask","arguments":{"what":"link"},"_meta":{"io.github.mcpsaga/idempotencyKey":"kkkkkkkkkkkkkkkk"}}`))
	}
	s := call(1)
	c.reply(s.wait("elicitation/create").ID, `{"action":"accept"}`)
	s.wait("")
	s = call(2)
	first, err := s.next()
	require.NoError(t, err)
	s.close()
	if first.id != "" {
		resp := c.request(http.MethodGet, "", func(r *http.Request) { r.Header.Set("Last-Event-ID", first.id) })
		assert.Equal(t, http.StatusOK, resp.StatusCode, readAll(t, resp))
	}
}
