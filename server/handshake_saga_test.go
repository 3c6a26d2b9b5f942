package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/server"
)

const yes = `{"role":"assistant","content":{"type":"text","text":"Yes."},"model":"m"}`

func accepted(content string) string { return `{"action":"accept","content":` + content + `}` }

func TestHandshakeComplexTool(t *testing.T) {
	r := newRig(t, server.Options{})
	c := r.connect("2025-11-25", everything)
	s := c.stream(toolCall(7, "complex_tool", `{}`))
	first, err := s.next()
	require.NoError(t, err)
	assert.NotEmpty(t, first.id)
	assert.NotEmpty(t, first.retry)
	assert.Empty(t, first.data)
	form := s.wait("elicitation/create")
	assert.JSONEq(t, `{"message":"Please provide the deployment target:","requestedSchema":{"type":"object","properties":{"target":{"type":"string"}},"required":["target"]}}`, string(form.Params))
	c.reply(form.ID, accepted(`{"target":"staging"}`))
	sample := s.wait("sampling/createMessage")
	assert.NotEqual(t, form.ID, sample.ID)
	assert.Contains(t, string(sample.Params), "Is deploying to 'staging' safe right now?")
	c.reply(sample.ID, yes)
	end := s.wait("")
	assert.Equal(t, json.RawMessage("7"), end.ID)
	got, isError := text(t, end.Result)
	assert.False(t, isError)
	assert.Equal(t, "Deployment to staging initiated successfully based on confirmation.", got)
	assert.NotContains(t, end.data, "resultType")
	s.end()
}

// talkAnswers answers what long_talk asks.
func talkAnswer(m legacyMessage, round *int) string {
	if m.Method == "sampling/createMessage" {
		return strings.Replace(yes, "Yes.", "fine words", 1)
	}
	*round++
	return accepted(fmt.Sprintf(`{"word":"w%d"}`, *round))
}

const talked = "About tea you said: w1, w2, w3, w4, w5, w6, w7, w8. The model thought: fine words"

// Eight rounds, the fifth with two questions at once, for two clients at a time.
func TestHandshakeEightRounds(t *testing.T) {
	r := newRig(t, server.Options{Tools: legacyDefinitions()})
	var both sync.WaitGroup
	for range 2 {
		c := r.connect("2025-11-25", everything)
		both.Go(func() {
			s := c.stream(toolCall(1, "long_talk", `{"topic":"tea"}`))
			ids := make(map[string]bool)
			round := 0
			for range 4 {
				m := s.wait("elicitation/create")
				ids[string(m.ID)] = true
				c.reply(m.ID, talkAnswer(m.legacyMessage, &round))
			}
			// Both are asked before either is answered; the answers come in any order.
			pair := []sseEvent{s.message(), s.message()}
			assert.ElementsMatch(t, []string{"elicitation/create", "sampling/createMessage"}, []string{pair[0].Method, pair[1].Method})
			for _, i := range []int{1, 0} {
				ids[string(pair[i].ID)] = true
				c.reply(pair[i].ID, talkAnswer(pair[i].legacyMessage, &round))
			}
			for range 3 {
				m := s.wait("elicitation/create")
				ids[string(m.ID)] = true
				c.reply(m.ID, talkAnswer(m.legacyMessage, &round))
			}
			got, isError := text(t, s.wait("").Result)
			assert.False(t, isError)
			assert.Equal(t, talked, got)
			assert.Len(t, ids, 9, "every request has an id of its own")
		})
	}
	both.Wait()
}

func TestHandshakeAnswersThatAreNone(t *testing.T) {
	tests := []struct {
		name, result string
		code         int
		want         string
	}{
		{name: "declined", result: `{"action":"decline"}`, want: `Stopped: "step-elicitation-A" was declined.`},
		{name: "cancelled", result: `{"action":"cancel"}`, want: `Stopped: "step-elicitation-A" was cancelled.`},
		{name: "client error", code: -32601, want: `Stopped: "step-elicitation-A" could not be performed (error -32601).`},
		{name: "malformed", result: `{"action":"perhaps"}`, want: `Stopped: "step-elicitation-A" could not be performed (error -32602).`},
		{name: "no object", result: `7`, want: `Stopped: "step-elicitation-A" could not be performed (error -32602).`},
		{name: "null", result: `null`, want: `Stopped: "step-elicitation-A" could not be performed (error -32602).`},
	}
	r := newRig(t, server.Options{})
	c := r.connect("2025-11-25", everything)
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := c.stream(toolCall(i, "complex_tool", `{}`))
			form := s.wait("elicitation/create")
			if test.code != 0 {
				c.fail(form.ID, test.code, "no")
			} else {
				c.reply(form.ID, test.result)
			}
			got, isError := text(t, s.wait("").Result)
			assert.True(t, isError)
			assert.Equal(t, test.want, got)
		})
	}
}

// What does not fit the form is asked again, as in every dialect.
func TestHandshakeAsksAgain(t *testing.T) {
	r := newRig(t, server.Options{Tools: legacyDefinitions()})
	c := r.connect("2025-11-25", everything)
	s := c.stream(toolCall(1, "ask", `{"what":"colour"}`))
	c.reply(s.wait("elicitation/create").ID, accepted(`{"colour":"blue"}`))
	again := s.wait("elicitation/create")
	assert.Contains(t, string(again.Params), "please correct it")
	c.reply(again.ID, accepted(`{"colour":"g"}`))
	got, _ := text(t, s.wait("").Result)
	assert.Equal(t, `colour: {"action":"accept","content":{"colour":"g"}}`, got)
}

func TestHandshakeOddReplies(t *testing.T) {
	r := newRig(t, server.Options{})
	c := r.connect("2025-11-25", everything)
	other := r.connect("2025-11-25", everything)
	s := c.stream(toolCall(1, "complex_tool", `{}`))
	form := s.wait("elicitation/create")
	// None of these answers the question, and their clients are told.
	other.vain(form.ID, accepted(`{"target":"of another session"}`))
	for _, id := range []string{"99", `"` + string(form.ID) + `"`, "-1", `"x"`, "0"} {
		c.vain(json.RawMessage(id), accepted(`{"target":"wrong id"}`))
	}
	c.reply(form.ID, accepted(`{"target":"right"}`))
	c.vain(form.ID, accepted(`{"target":"late"}`))
	sample := s.wait("sampling/createMessage")
	assert.Contains(t, string(sample.Params), "right")
	resp := c.post(`{"jsonrpc":"2.0","id":` + string(sample.ID) + `,"error":"broken"}`)
	assert.Equal(t, 202, resp.StatusCode)
	resp.Body.Close()
	got, _ := text(t, s.wait("").Result)
	assert.Contains(t, got, "error -32602")
}

func TestHandshakeCancellation(t *testing.T) {
	g := newGate()
	w := new(world)
	r := newRig(t, server.Options{Tools: legacyDefinitions(g.tool(), w.tool(g))})
	c := r.connect("2025-11-25", everything)
	cancel := func(id string) {
		resp := c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
		assert.Equal(t, 202, resp.StatusCode)
		resp.Body.Close()
	}
	t.Run("while the client is asked", func(t *testing.T) {
		s := c.stream(toolCall(1, "hold", `{}`))
		form := s.wait("elicitation/create")
		assert.Equal(t, "+first", w.was())
		cancel("2")
		cancel(`"1"`)
		cancel("1")
		e := s.wait("notifications/cancelled")
		assert.JSONEq(t, `{"requestId":`+string(form.ID)+`,"reason":"the client cancelled the request"}`, string(e.Params))
		s.end() // and no response
		assert.Equal(t, "+first -first", w.was())
		c.vain(form.ID, accepted(`{"name":"late"}`))
	})
	t.Run("while the tool works", func(t *testing.T) {
		w.done = nil
		s := c.stream(toolCall(1, "hold", `{}`))
		c.reply(s.wait("elicitation/create").ID, accepted(`{"name":"n"}`))
		<-g.entered
		assert.Equal(t, "+first +second", w.was())
		cancel("1")
		s.end()
		assert.Equal(t, "+first +second -second -first", w.was(), "also what the turn that was cut off has done")
	})
	t.Run("before there is a stream", func(t *testing.T) {
		done := make(chan *sseReader)
		go func() { done <- c.stream(toolCall(3, "gate", `{}`)) }()
		<-g.entered
		cancel("3")
		assert.Error(t, <-g.stopped)
		s := <-done
		for {
			e, err := s.next()
			if err != nil {
				break
			}
			assert.Empty(t, e.data)
		}
	})
}

// A client that goes away does not cancel, and one that ends its session does.
func TestHandshakeDisconnection(t *testing.T) {
	g := newGate()
	r := newRig(t, server.Options{Tools: legacyDefinitions(g.tool())})
	c := r.connect("2025-11-25", everything)
	s := c.stream(toolCall(1, "gate", `{}`))
	first, err := s.next()
	require.NoError(t, err)
	s.close()
	<-g.entered
	g.leave <- true
	got, _ := text(t, c.get(first.id).wait("").Result)
	assert.Equal(t, "left", got)

	s = c.stream(toolCall(1, "gate", `{}`))
	<-g.entered
	resp := c.request("DELETE", "", nil)
	resp.Body.Close()
	assert.Equal(t, 204, resp.StatusCode)
	assert.Error(t, <-g.stopped)
	for err = nil; err == nil; {
		_, err = s.next()
	}
}

// When a session ends, nobody is left who could go on with its sagas.
func TestTheEndOfASessionUndoes(t *testing.T) {
	var r *rig
	// Who has ended the session begins a new one; that of a server that stops goes on elsewhere.
	for name, end := range map[string]func(*legacyClient) (status int, text string){
		"the client says so": func(c *legacyClient) (int, string) {
			resp := c.request("DELETE", "", nil)
			assert.Empty(t, readAll(t, resp))
			assert.Equal(t, 204, resp.StatusCode)
			return 404, "initialize"
		},
		"the server stops": func(*legacyClient) (int, string) {
			r.srv.Close()
			return 503, "the server stops; call again"
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := new(world)
			r = newRig(t, server.Options{Tools: legacyDefinitions(w.tool(newGate()))})
			c := r.connect("2025-11-25", everything)
			c.stream(toolCall(1, "hold", `{}`)).wait("elicitation/create")
			assert.Equal(t, "+first", w.was())
			status, said := end(c)
			until(t, func() bool { return w.was() == "+first -first" })
			resp := c.post(toolCall(2, "sum", `{}`))
			assert.Contains(t, readAll(t, resp), said)
			assert.Equal(t, status, resp.StatusCode)
		})
	}
}

func TestHandshakePromptsAndResourcesAsk(t *testing.T) {
	r := newRig(t, server.Options{Tools: legacyDefinitions()})
	c := r.connect("2025-06-18", everything)
	s := c.stream(`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"greeting","arguments":{"name":"Ann"}}}`)
	c.reply(s.wait("elicitation/create").ID, accepted(`{"name":"Bob"}`))
	assert.JSONEq(t, `{"messages":[{"role":"user","content":{"type":"text","text":"Ann greets Bob"}}]}`, string(s.wait("").Result))
	s = c.stream(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"notes://ask"}}`)
	c.reply(s.wait("elicitation/create").ID, accepted(`{"name":"Bob"}`))
	assert.JSONEq(t, `{"contents":[{"uri":"notes://ask","blob":"Qm9i"}]}`, string(s.wait("").Result))
	s = c.stream(`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"greeting","arguments":{"name":"Ann"}}}`)
	c.reply(s.wait("elicitation/create").ID, `{"action":"decline"}`)
	assert.Contains(t, s.wait("").Error.Message, "declined")

	poor := r.connect("2025-06-18", `{}`)
	got := parseLegacy(t, poor.ask(`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"greeting","arguments":{"name":"Ann"}}}`))
	assert.Contains(t, got.Error.Message, "elicitation.form")
}
