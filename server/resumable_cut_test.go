package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// tellTool tells what it does, before and between two questions.
func tellTool() saga.Definition {
	return saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "tell", Asks: []steps.Question{askSure}, Tasks: saga.Tasks{Mode: saga.TasksOptional, Keep: 10 * time.Minute}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			for i := range 2 {
				if i > 0 {
					r.Log(slog.LevelWarn, "look") // again when the flow is played again
				}
				r.Progress(float64(i)+1, 3, "on the way")
				if _, err := saga.Ask(r, askSure); err != nil {
					return "", err
				}
			}
			r.Log(slog.LevelWarn, "there")
			r.Progress(3, 3, "there")
			return "told", nil
		},
	}
}

// withTell is one tool, also of several servers.
func withTell() func(*server.Options) {
	tool := tellTool()
	return func(o *server.Options) { o.Tools = []saga.Definition{tool} }
}

// A client that loses its connection after any event, or before any, and goes on with another
// replica in another session, has heard everything in the end, and nothing twice where it shows what it has.
func TestResumeAfterEveryEvent(t *testing.T) {
	for _, shows := range []bool{true, false} {
		for every := 1; every <= 8; every++ {
			t.Run(fmt.Sprintf("shows=%t every %d", shows, every), func(t *testing.T) {
				r := tasksReplicas(t, 2, withTell())
				clients := []*legacyClient{r[0].resumer("ann", "2025-11-25"), r[1].resumer("ann", "2025-11-25")}
				c := clients[0]
				s := c.stream(toolCall(7, "tell", "{}"))
				p := s.policy()
				var heard []string
				progress, last, answered, questions := 0.0, "", 0, make(map[string]bool)
				for turn, n := 1, 0; ; n++ {
					if n == every && (shows || turn == 1) { // who shows nothing begins again each time
						s.close()
						c, n = clients[turn%2], 0
						turn++
						require.Less(t, turn, 100, "%v", heard)
						require.NotEmpty(t, c.requestStatus(p))
						resp := c.request("POST", p.resume(), func(q *http.Request) {
							if shows {
								q.Header.Set("Last-Event-ID", last)
							}
						})
						if resp.Header.Get("Content-Type") == "application/json" {
							m := parseLegacy(t, readAll(t, resp))
							said, _ := text(t, m.Result)
							assert.Equal(t, "told", said)
							break
						}
						s = c.read(resp)
					}
					m := s.message()
					if strings.Contains(m.id, ".") {
						last = m.id
					}
					if m.Method == "" {
						said, _ := text(t, m.Result)
						assert.Equal(t, "told", said)
						break
					}
					switch m.Method {
					case "notifications/message":
						heard = append(heard, string(m.Params))
					case "notifications/progress":
						var now struct{ Progress float64 }
						require.NoError(t, json.Unmarshal(m.Params, &now))
						assert.True(t, now.Progress > progress || !shows, "%s after %v", m.data, progress)
						progress = now.Progress
					case "elicitation/create":
						if !questions[string(m.ID)] {
							questions[string(m.ID)] = true
							answered++
							c.reply(m.ID, yesSure)
						}
					}
				}
				assert.Equal(t, 2, answered)
				const look, there = `{"level":"warning","logger":"tell","data":"look"}`, `{"level":"warning","logger":"tell","data":"there"}`
				all := []string{look, look, there}
				if shows {
					assert.Equal(t, all, heard, "each once, and in order")
				} else { // it has begun again
					assert.Equal(t, all, heard[max(0, len(heard)-len(all)):])
				}
			})
		}
	}
}

// A replica that stops ends the streams of such requests, without an answer.
func TestResumeWhenReplicaStops(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		r := tasksReplicas(t, 2)
		c := r[0].resumer("ann", "2025-11-25")
		waits, runs := c.stream(toolCall(7, "twice", "{}")), c.stream(toolCall(8, "nap", `{"millis":1500}`))
		p, q := waits.policy(), runs.policy()
		waits.wait("elicitation/create")
		r[0].srv.CloseStreams()
		for _, s := range []*sseReader{waits, runs} {
			for {
				m, err := s.next()
				if err == io.EOF {
					break
				}
				require.NoError(t, err)
				require.True(t, m.Method != "" || m.data == "", "no answer: %s", m.data)
			}
		}
		r[0].srv.Close()
		c = c.at(r[1])
		s := c.stream(p.resume())
		c.reply(s.wait("elicitation/create").ID, yesSure)
		c.reply(s.wait("elicitation/create").ID, yesSure)
		s.wait("")
		said, _ := text(t, parseLegacy(t, c.ask(q.resume())).Result)
		assert.Equal(t, "awake", said)
	})
}

// On pipes a request is resumed on the same connection, and on the one of the next process.
func TestResumeOnPipes(t *testing.T) {
	var shared server.Options
	both := func(o *server.Options) {
		if shared.Ledger == nil {
			shared.Ledger, shared.Keys = o.Ledger, newKeys(t)
		}
		o.Ledger, o.Keys = shared.Ledger, shared.Keys
	}
	connect := func() *legacyPipe {
		c := newLegacyPipeTo(t, "", newTaskRig(t, both, noUsers).srv)
		c.send(initializeMessage("2025-11-25", resumable))
		c.message()
		return c
	}
	c := connect()
	c.send(toolCall(7, "twice", "{}"))
	m := c.message()
	require.Equal(t, "notifications/requests/resumePolicy", m.Method)
	var p resumePolicy
	require.NoError(t, json.Unmarshal(m.Params, &p))
	first := c.message()
	require.Equal(t, "elicitation/create", first.Method)
	c.send(p.resume())
	var again legacyMessage
	for range 2 { // in any order
		m := c.message()
		switch m.Method {
		case "elicitation/create":
			again = m
		case "notifications/cancelled":
			assert.Contains(t, string(m.Params), `"requestId":`+string(first.ID))
		default:
			assert.Fail(t, "unexpected", "%+v", m)
		}
	}
	c.reply(again, yesSure)
	require.Equal(t, "elicitation/create", c.message().Method)
	// Its process ends.
	c.stop()
	for c.out.Scan() {
		assert.NotContains(t, c.out.Text(), `"id":7`)
	}
	c = connect()
	c.send(p.status(8))
	assert.Equal(t, `{"status":"processing","hasPendingMessage":true,"hasInputRequest":true}`, string(c.message().Result))
	c.send(p.resume())
	c.reply(c.message(), yesSure)
	m = c.message()
	assert.Equal(t, "7", string(m.ID))
	said, _ := text(t, m.Result)
	assert.Equal(t, "sure enough", said)
}

// What goes over the wire, as docs/tasks.md shows it.
func TestResumableTranscript(t *testing.T) {
	r := newTaskRig(t, withTell())
	c := r.resumer("ann", "2025-11-25")
	var b strings.Builder
	say := func(mark, message string) { fmt.Fprintf(&b, "%s %s\n", mark, message) }
	call := toolCall(7, "tell", "{}")
	s := c.stream(call)
	say(">", call)
	var p resumePolicy
	// A progress that comes late may be left out for the next one; those before a question are not.
	hear := func(until string) (m sseEvent) {
		for m = s.message(); ; m = s.message() {
			say("<", m.data)
			if m.Method == "notifications/requests/resumePolicy" {
				require.NoError(t, json.Unmarshal(m.Params, &p))
			}
			if m.Method == until {
				return m
			}
		}
	}
	m := hear("elicitation/create")
	s.close()
	say("-", "the connection is lost")
	say(">", p.status(8))
	say("<", c.ask(p.status(8)))
	say(">", p.resume())
	s = c.read(c.request("POST", p.resume(), after(m.id)))
	for range 2 {
		m = hear("elicitation/create")
		c.reply(m.ID, yesSure)
		say(">", `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":`+yesSure+`}`)
	}
	hear("")
	got := strings.ReplaceAll(b.String(), p.ResumeToken, "RESUME-TOKEN")
	for i, id := range unique(regexp.MustCompile(`"id":(\d{10,})`).FindAllStringSubmatch(got, -1)) {
		got = strings.ReplaceAll(got, id, fmt.Sprint(1001+i))
	}
	const golden = "../testdata/transcripts/resumable-requests.txt"
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

func unique(found [][]string) (list []string) {
	for _, f := range found {
		if !slices.Contains(list, f[1]) {
			list = append(list, f[1])
		}
	}
	return list
}
