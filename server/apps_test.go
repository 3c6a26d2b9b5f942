package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store/storetest"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// showsApps is what a client declares that shows the server's form in its window.
var showsApps = object{"extensions": object{"io.modelcontextprotocol/ui": object{"mimeTypes": []string{"text/html;profile=mcp-app"}}}}

const showsAppsJSON = `{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}`

// inForm is what the form is told.
type inForm struct {
	Status, ResumeToken, Note, Sentence string
	Held                                bool
	Questions                           []struct{ ID, Mode, Message, URL string }
	Refused                             map[string]string
}

// form plays the form of the client's window.
func (r *rig) form(args object, change ...func(*request)) (f inForm) {
	r.t.Helper()
	q := callTool("mcpsaga_form", args).with(showsApps)
	for _, c := range change {
		c(q)
	}
	got := r.send(q)
	var result struct{ StructuredContent inForm }
	require.NoError(r.t, json.Unmarshal(got.Result, &result), "%s", got.raw)
	return result.StructuredContent
}

// by sends a request in somebody's name.
func by(name string) func(*request) {
	return func(q *request) { q.header.Set("Authorization", name) }
}

// calledBy knows callers by their names.
func calledBy(r *http.Request) (saga.Caller, error) {
	return saga.Caller{Issuer: "test", Subject: r.Header.Get("Authorization")}, nil
}

// Clients that show apps, and cannot ask, are shown the form; others see nothing of it.
func TestAppsAreOffered(t *testing.T) {
	s := new(seats)
	o := server.Options{Ledger: inMemory(t), Tools: []saga.Definition{s.tool()}}
	r := newRig(t, o)
	const marked, tool = `"ui":{"resourceUri":"ui://mcpsaga/form"}`, `"mcpsaga_form"`
	for name, c := range map[string]struct {
		capabilities string
		shown, spoke bool
	}{
		"shows apps":           {showsAppsJSON, true, true},
		"asks itself":          {showsAppsJSON[:len(showsAppsJSON)-1] + `,"elicitation":{}}`, false, true},
		"shows nothing":        {`{}`, false, false},
		"shows something else": {strings.Replace(showsAppsJSON, "mcp-app", "other", 1), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			var capabilities object
			require.NoError(t, json.Unmarshal([]byte(c.capabilities), &capabilities))
			session := r.connect("2025-11-25", c.capabilities)
			lists := []string{r.send(modernRequest("tools/list", nil).with(capabilities)).raw, session.ask(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)}
			for _, list := range lists {
				assert.Equal(t, c.shown, strings.Contains(list, marked), list)
				assert.Equal(t, c.shown, strings.Contains(list, tool), list)
			}
			assert.Equal(t, c.spoke, strings.Contains(r.send(modernRequest("server/discover", nil).with(capabilities)).raw, "io.modelcontextprotocol/ui"))
			calls := []string{r.send(callTool("mcpsaga_form", nil).with(capabilities)).raw, session.ask(toolCall(3, "mcpsaga_form", "{}"))}
			for _, call := range calls {
				assert.Equal(t, c.spoke, strings.Contains(call, `"status":"none"`), call)
			}
			pages := []string{
				r.send(modernRequest("resources/read", object{"uri": "ui://mcpsaga/form"}).with(capabilities)).raw,
				session.ask(`{"jsonrpc":"2.0","id":4,"method":"resources/read","params":{"uri":"ui://mcpsaga/form"}}`),
			}
			for _, page := range pages {
				assert.Contains(t, page, `"mimeType":"text/html;profile=mcp-app"`)
				assert.Contains(t, page, "ui/initialize")
			}
		})
	}
	for name, questions := range map[string]server.Questions{"forced": {Force: steps.RouteApp}, "no relay": {NoRelay: true}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, server.Options{Ledger: inMemory(t), Tools: []saga.Definition{s.tool()}, Questions: questions})
			capabilities := maps.Clone(showsApps)
			if questions.Force != 0 {
				capabilities["elicitation"] = object{}
			}
			assert.Contains(t, r.send(modernRequest("tools/list", nil).with(capabilities)).raw, marked)
		})
	}
	t.Run("no ledger", func(t *testing.T) {
		r := newRig(t, server.Options{Tools: []saga.Definition{s.tool()}})
		assert.NotContains(t, r.send(modernRequest("tools/list", nil).with(showsApps)).raw, "mcpsaga_form")
	})
	t.Run("the name is taken", func(t *testing.T) {
		mine := s.tool()
		mine.Name = "mcpsaga_form"
		_, err := server.New(server.Options{Keys: newKeys(t), Ledger: inMemory(t), Tools: []saga.Definition{mine}})
		assert.ErrorContains(t, err, `a tool is called "mcpsaga_form", as the server's own: give it another name`)
	})
}

// While the client's call is held, the form finds it at any replica, by who calls; nobody else does. What does not fit is
// refused, what is late is told so, and a consent is not taken from a window that is not trusted.
func TestFormsAnswerAHeldCall(t *testing.T) {
	s, o := new(seats), server.Options{Keys: newKeys(t), Ledger: inMemory(t), Authenticate: calledBy}
	o.Tools = []saga.Definition{s.consenting()}
	one, other := newRig(t, o), newRig(t, o)
	server.SetPages(one.srv, somePages{})
	server.SetPages(other.srv, somePages{})
	held := make(chan response, 1)
	go func() {
		q := callTool("seat", nil).with(showsApps)
		by("ann")(q)
		held <- one.send(q)
	}()
	ann := by("ann")
	var f inForm
	until(t, func() bool {
		f = other.form(object{"frame": "1", "tool": "seat", "arguments": object{}}, ann)
		return f.Status != "none"
	})
	require.Len(t, f.Questions, 1)
	assert.Equal(t, "form", f.Questions[0].Mode)
	assert.True(t, f.Held)
	handle := f.ResumeToken

	assert.Equal(t, "none", other.form(object{"frame": "2"}, ann).Status, "it is the first frame's")
	assert.Equal(t, "none", other.form(object{"frame": "1", "arguments": object{"a": 1}, "tool": "other"}, ann).Status)
	assert.Equal(t, "none", other.form(object{"frame": "1"}, by("bob")).Status)
	assert.Equal(t, "none", other.form(object{"resumeToken": handle}, by("bob")).Status)
	assert.Equal(t, "none", other.form(object{"resumeToken": "abcdefghijklmnopqrstuv"}, ann).Status)
	assert.Contains(t, other.send(callTool("mcpsaga_form", object{"answers": 7}).with(showsApps)).raw, "answers")

	wrong := other.form(object{"resumeToken": handle, "answers": object{"row": object{"action": "accept", "content": object{"row": 7}}}}, ann)
	assert.Contains(t, wrong.Refused["row"], "row")
	assert.NotEmpty(t, other.form(object{"resumeToken": handle, "answers": object{"row": "7"}}, ann).Refused["row"])
	right := object{"resumeToken": handle, "answers": object{"row": object{"action": "accept", "content": object{"row": "7"}}}}
	next := other.form(right, ann)
	require.Len(t, next.Questions, 1, "%+v", next)
	assert.Equal(t, "sure", next.Questions[0].ID)
	assert.Equal(t, "page", next.Questions[0].Mode)
	assert.Equal(t, "https://example.com/ask/"+handle, next.Questions[0].URL)
	assert.Contains(t, other.form(right, ann).Note, "answered before")
	lie := other.form(object{"resumeToken": handle, "answers": object{"sure": object{"action": "accept", "content": object{"sure": true}}}}, ann)
	assert.Equal(t, map[string]string{"sure": "This cannot be answered here."}, lie.Refused)
	assert.Equal(t, "input_required", lie.Status)

	first := waitsOf(t, (<-held).Result)
	assert.Equal(t, handle, first.ResumeToken, "the model reads that it has to send its user to the page")
	assert.Equal(t, "https://example.com/ask/"+handle, first.URL)
	assert.False(t, other.form(object{"resumeToken": handle}, ann).Held)
	cancelled := relay("seat", first, "cancel").with(showsApps)
	ann(cancelled)
	one.send(cancelled)
	end := other.form(object{"resumeToken": handle}, ann)
	assert.Equal(t, "cancelled", end.Status)
	assert.Equal(t, `The form is answered. Call the tool "seat" again with the same arguments and in addition resumeToken: `+handle, end.Sentence)
	n, _ := s.now()
	assert.Zero(t, n)
}

// A window that the operator trusts may give consents. Where callers look alike, a form knows its call by the result.
func TestTrustedAppsConsent(t *testing.T) {
	for name, consents := range map[string]bool{"trusted": true, "other": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s, o := new(seats), server.Options{Ledger: inMemory(t), Questions: server.Questions{TrustedApps: []string{"trusted"}}}
				o.Tools = []saga.Definition{s.consenting()}
				r := newRig(t, o)
				me := func(q *request) { q.meta["io.modelcontextprotocol/clientInfo"] = object{"name": name, "version": "1"} }
				q := callTool("seat", nil).with(showsApps)
				me(q)
				first := waitsOf(t, r.send(q).Result)
				assert.Equal(t, "none", r.form(object{"frame": "1"}, me).Status)
				f := r.form(object{"resumeToken": first.ResumeToken, "answers": object{"row": object{"action": "accept", "content": object{"row": "7"}}}}, me)
				require.Len(t, f.Questions, 1, "%+v", f)
				assert.False(t, f.Held)
				assert.Equal(t, map[bool]string{true: "form", false: "chat"}[consents], f.Questions[0].Mode)
				f = r.form(object{"resumeToken": first.ResumeToken, "answers": object{"sure": object{"action": "accept", "content": object{"sure": true}}}}, me)
				assert.Equal(t, map[bool]string{true: "completed", false: "input_required"}[consents], f.Status)
				r.srv.Close()
			})
		})
	}
}

// A call is held for a form for a little, and for longer once that has shown that it is there, with signs of life.
func TestCallsAreHeldForForms(t *testing.T) {
	for name, c := range map[string]struct {
		capabilities object
		looks        bool
		held         time.Duration
		signs        int
	}{
		"no app":                  {object{}, false, 0, 0},
		"only others' form calls": {showsApps, false, 3 * time.Second, 0},
		"a form calls":            {showsApps, true, 45 * time.Second, 4},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s, o := new(seats), server.Options{Keys: newKeys(t), Ledger: inMemory(t), Authenticate: calledBy}
				o.Tools = []saga.Definition{s.tool()}
				one, other := newRig(t, o), newRig(t, o)
				began, held := time.Now(), make(chan response, 1)
				go func() {
					q := callTool("seat", nil).with(c.capabilities)
					q.meta["progressToken"] = "p"
					by("ann")(q)
					held <- one.send(q)
				}()
				synctest.Wait()
				who := map[bool]string{true: "ann", false: "bob"}[c.looks]
				assert.Equal(t, map[bool]string{true: "input_required", false: "none"}[c.looks], other.form(object{"frame": "1"}, by(who)).Status)
				got := <-held
				assert.InDelta(t, c.held.Seconds(), time.Since(began).Seconds(), 0.5)
				assert.Len(t, got.before, c.signs)
				assert.Equal(t, "waiting", waitsOf(t, got.Result).Status)
				one.srv.Close()
				other.srv.Close()
			})
		})
	}
}

// Two calls at the same time have a form each, by their arguments or one after the other. What has ended is not found.
func TestFormsOfTwoCalls(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		type args struct {
			N int `json:"n"`
		}
		ask := &steps.Form[rowForm]{ID: "row", Message: "Which row?"}
		tool := saga.Flow[args, string]{Info: saga.Info{Name: "two", Asks: []steps.Question{ask}}, Run: func(r *saga.Run, in args) (string, error) {
			row, err := saga.Ask(r, ask)
			return fmt.Sprint(in.N, row.Row), err
		}}
		r := newRig(t, server.Options{Ledger: inMemory(t), Authenticate: calledBy, Tools: []saga.Definition{tool}})
		held := make(chan string, 2)
		for n := range 2 {
			go func() {
				q := callTool("two", object{"n": n}).with(showsApps)
				by("ann")(q)
				held <- r.send(q).result(t).text()
			}()
		}
		time.Sleep(time.Second) // both write down that they wait, one after the other
		synctest.Wait()
		ann := by("ann")
		first := r.form(object{"frame": "a", "tool": "two", "arguments": object{"n": 1, "resumeToken": ""}}, ann)
		second := r.form(object{"frame": "b"}, ann)
		assert.NotEqual(t, first.ResumeToken, second.ResumeToken)
		assert.Equal(t, first.ResumeToken, r.form(object{"frame": "a"}, ann).ResumeToken)
		assert.Equal(t, "none", r.form(object{"frame": "c"}, ann).Status)
		for _, f := range []inForm{first, second} {
			end := r.form(object{"resumeToken": f.ResumeToken, "answers": object{"row": object{"action": "accept", "content": object{"row": "7"}}}}, ann)
			assert.Equal(t, "completed", end.Status)
			assert.True(t, end.Held)
		}
		assert.ElementsMatch(t, []string{"07", "17"}, []string{<-held, <-held})
		assert.Equal(t, "none", r.form(object{"frame": "c"}, ann).Status)
		assert.Equal(t, "completed", r.form(object{"frame": "a"}, ann).Status)
		r.srv.Close()
	})
}

// A form that looks twice at once finds the same call both times.
func TestFormsThatLookTwiceAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newTroubled(inMemory(t))
		r := newRig(t, server.Options{Ledger: store, Authenticate: calledBy, Tools: []saga.Definition{new(seats).tool()}})
		ann, held := by("ann"), make(chan response, 1)
		go func() {
			q := callTool("seat", nil).with(showsApps)
			ann(q)
			held <- r.send(q)
		}()
		synctest.Wait()
		var first inForm
		store.before(func(c storetest.Call) {
			if c.Writes() {
				store.before(func(storetest.Call) {})
				first = r.form(object{"frame": "a"}, ann)
			}
		})
		second := r.form(object{"frame": "a", "tool": "seat", "arguments": object{}}, ann)
		assert.Equal(t, "input_required", first.Status)
		assert.Equal(t, first, second)
		<-held
		r.srv.Close()
	})
}

// A form that has named its call by the resumeToken keeps it: no other form is given it, whatever that says of its call.
func TestFramesKeepWhatTheyName(t *testing.T) {
	r := newRig(t, server.Options{Ledger: inMemory(t), Authenticate: calledBy, Tools: []saga.Definition{new(seats).tool()}})
	ann := by("ann")
	q := callTool("seat", nil).with(showsApps)
	ann(q)
	token := waitsOf(t, r.send(q).Result).ResumeToken
	assert.Equal(t, token, r.form(object{"frame": "g", "resumeToken": token}, ann).ResumeToken)
	assert.Equal(t, "none", r.form(object{"frame": "z"}, ann).Status)
	assert.Equal(t, "none", r.form(object{"frame": "y", "tool": "seat", "arguments": object{}}, ann).Status)
	assert.Equal(t, token, r.form(object{"frame": "g"}, ann).ResumeToken)
	assert.Equal(t, token, r.form(object{"frame": "x", "resumeToken": token}, ann).ResumeToken, "it has the name")
	assert.Equal(t, token, r.form(object{"frame": "g"}, ann).ResumeToken, "and takes it from nobody")
}

// On a pair of pipes there is one client, whose form finds its call.
func TestFormsOnPipes(t *testing.T) {
	s := new(seats)
	srv, err := server.New(server.Options{Keys: newKeys(t), Ledger: inMemory(t), Tools: []saga.Definition{s.tool()}})
	require.NoError(t, err)
	t.Cleanup(srv.Close)
	c := newLegacyPipeTo(t, "", srv)
	c.send(initializeMessage("2025-11-25", showsAppsJSON))
	assert.Contains(t, string(c.message().Result), `"io.modelcontextprotocol/ui":{}`)
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, toolCall(1, "seat", "{}"))
	form := func(args string) (f inForm) {
		c.send(toolCall(2, "mcpsaga_form", args))
		var r struct{ StructuredContent inForm }
		require.NoError(t, json.Unmarshal(c.message().Result, &r))
		return r.StructuredContent
	}
	var f inForm
	until(t, func() bool {
		f = form(`{"frame":"1"}`)
		return f.Status != "none"
	})
	f = form(`{"resumeToken":"` + f.ResumeToken + `","answers":{"row":{"action":"accept","content":{"row":"7"}}}}`)
	require.Len(t, f.Questions, 1, "%+v", f)
	c.send(toolCall(3, "mcpsaga_form", `{"resumeToken":"`+f.ResumeToken+`","answers":{"sure":{"action":"accept","content":{"sure":true}}}}`))
	got := string(c.message().Result) + string(c.message().Result)
	assert.Contains(t, got, `"status":"completed"`)
	assert.Contains(t, got, "seat in 7")
}

// However often a form looks at its call, the ledger is written a few times only.
func TestFormsThatLookOften(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, store := new(seats), newTroubled(inMemory(t))
		r := newRig(t, server.Options{Keys: newKeys(t), Ledger: store, Authenticate: calledBy, Tools: []saga.Definition{s.tool()}})
		waits := waitsOf(t, r.send(callTool("seat", nil).with(showsApps)).Result)
		before := store.calls.Load()
		for range 100 {
			assert.Equal(t, "input_required", r.form(object{"frame": "1", "resumeToken": waits.ResumeToken}).Status)
		}
		assert.LessOrEqual(t, store.calls.Load()-before, int64(2))
		r.srv.Close()
	})
}

// Clients that nobody knows share a principal. The form of one's session finds only what that session has called.
func TestFormsOfSessionsThatNobodyKnows(t *testing.T) {
	s := new(seats)
	r := newRig(t, server.Options{Ledger: inMemory(t), Tools: []saga.Definition{s.tool()}})
	mine, other := r.connect("2025-11-25", showsAppsJSON), r.connect("2025-11-25", showsAppsJSON)
	form := func(c *legacyClient, args string) (f inForm) {
		var result struct{ StructuredContent inForm }
		require.NoError(t, json.Unmarshal(parseLegacy(t, c.ask(toolCall(2, "mcpsaga_form", args))).Result, &result))
		return result.StructuredContent
	}
	held := make(chan string, 1)
	go func() { held <- mine.ask(toolCall(1, "seat", "{}")) }()
	var found inForm
	until(t, func() bool {
		assert.Equal(t, "none", form(other, `{"frame":"1","tool":"seat","arguments":{}}`).Status)
		assert.Equal(t, "none", r.form(object{"frame": "1"}).Status)
		found = form(mine, `{"frame":"1"}`)
		return found.Status == "input_required"
	})
	assert.Equal(t, "none", form(other, `{"frame":"1"}`).Status)
	for n, answer := range []string{`{"row":{"action":"accept","content":{"row":"7"}}}`, `{"sure":{"action":"accept","content":{"sure":true}}}`} {
		f := form(mine, fmt.Sprintf(`{"frame":"1","answers":%s}`, answer))
		assert.Equal(t, []string{"input_required", "completed"}[n], f.Status)
	}
	assert.Contains(t, <-held, "seat in 7")
}

// A host that shows forms is offered that of tools whose tasks alone ask by it.
func TestFormsOfTasksAreListed(t *testing.T) {
	for _, mode := range []saga.TaskMode{saga.TasksOptional, saga.TasksRequired} {
		both := object{"extensions": object{tasksExtension: object{}, "io.modelcontextprotocol/ui": showsApps["extensions"].(object)["io.modelcontextprotocol/ui"]}}
		r := newRig(t, server.Options{Ledger: inMemory(t), Tools: []saga.Definition{asTask(new(seats).tool(), mode)}})
		got := r.send(modernRequest("tools/list", nil).with(both)).raw
		assert.Contains(t, got, `"resourceUri"`)
		assert.Contains(t, got, `"name":"mcpsaga_form"`)
	}
}
