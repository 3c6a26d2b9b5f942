package server_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// What becomes of a saga whose call was left or broke off, in sessions: the first call is undone, as nobody else can go
// on with it; a later one is not, as its client has a token.

// album is a tool that holds a seat, gives a part of its result, asks, and prints. It asks and prints before the part
// as well if its argument first says so, and does not ask after it if its argument quick does.
type album struct {
	seats
	// printing is called when it prints; nil is not.
	printing func(context.Context) error
}

type albumArgs struct {
	First bool `json:"first,omitzero"`
	Quick bool `json:"quick,omitzero"`
}

func (a *album) tool() saga.Definition {
	before := &steps.Form[goOnForm]{ID: "before", Message: "Begin?"}
	hold := &saga.Effect[string, string]{Name: "hold", Do: a.hold, Undo: a.release}
	print := &saga.Effect[string, string]{Name: "print", Undo: a.release, Do: func(ctx context.Context, k saga.Key, row string) (string, error) {
		if a.printing != nil {
			if err := a.printing(ctx); err != nil {
				return "", err
			}
		}
		return a.hold(ctx, k, row)
	}}
	info := saga.Info{Name: "album", Asks: []steps.Question{before, goOn}, Effects: []saga.Declared{hold, print}, Yields: true}
	return saga.Flow[albumArgs, string]{Info: info, Run: func(r *saga.Run, in albumArgs) (string, error) {
		if _, err := saga.Do(r, hold, "7"); err != nil {
			return "", err
		}
		if in.First {
			if _, err := saga.Ask(r, before); err != nil {
				return "", err
			}
			if _, err := saga.Do(r, print, "9"); err != nil {
				return "", err
			}
		}
		if err := r.Yield(content.Textf("part 1")); err != nil {
			return "", err
		}
		if !in.Quick {
			if _, err := saga.Ask(r, goOn); err != nil {
				return "", err
			}
		}
		if _, err := saga.Do(r, print, "8"); err != nil {
			return "", err
		}
		return "the end", nil
	}}
}

// albumRig is a server with an album, and one client's session.
type albumRig struct {
	*album
	*rig
	keys  *codec.Keyset
	store ledger.Store // or nil
	c     *legacyClient
}

// eachAlbum runs a test with and without a ledger, in virtual time.
func eachAlbum(t *testing.T, test func(t *testing.T, a *albumRig)) {
	for _, with := range []string{"no ledger", "a ledger"} {
		t.Run(with, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				a := &albumRig{album: new(album), keys: newKeys(t)}
				if with == "a ledger" {
					a.store = ledger.NewMemory(ledger.MemoryOptions{})
					t.Cleanup(func() { _ = a.store.Close() })
				}
				a.restart(t)
				test(t, a)
			})
		})
	}
}

// restart has another server with the same keys and ledger go on, and a new session.
func (a *albumRig) restart(t *testing.T) {
	t.Helper()
	a.rig = newRig(t, server.Options{Keys: a.keys, Ledger: a.store, Tools: []saga.Definition{a.tool()}, TurnTimeout: time.Minute})
	a.c = a.connect("2025-11-25", everything)
}

const albumCall = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"album","arguments":%s%s}}`

// call calls the tool, with a token if that is not empty. Its answer may come later.
func (a *albumRig) call(id int, args, token string) *sseReader {
	a.t.Helper()
	if token != "" {
		token = `,"resumeToken":"` + token + `"`
	}
	return a.c.stream(fmt.Sprintf(albumCall, id, args, token))
}

// token calls the tool, and returns the token that its first part has.
func (a *albumRig) token(args string) string {
	a.t.Helper()
	e := a.c.ask(fmt.Sprintf(albumCall, 1, args, ""))
	p := partOf(a.t, parseLegacy(a.t, e), e)
	require.Equal(a.t, "part 1", p.text, e)
	return p.NextResumeToken
}

// questionOn is the question that comes on a stream.
func questionOn(s *sseReader) sseEvent { return s.wait("elicitation/create") }

const goOnYes = `{"action":"accept","content":{"yes":true}}`

// requireHeld is how many seats are held once nothing moves any more.
func (a *albumRig) requireHeld(want int, why string) {
	a.t.Helper()
	synctest.Wait()
	held, _ := a.now()
	require.Equal(a.t, want, held, why)
}

// requireGoesOn goes on from a token to the end.
func (a *albumRig) requireGoesOn(token string) {
	a.t.Helper()
	s := a.call(7, `{}`, token)
	a.c.reply(questionOn(s).ID, goOnYes)
	e := s.wait("")
	assert.Equal(a.t, "the end", partOf(a.t, e.legacyMessage, e.data).text, e.data)
	a.requireHeld(2, "it has ended well")
}

// leaves are how a call is left that waits for an answer, whose id is 2.
var leaves = map[string]func(t *testing.T, a *albumRig){
	"its session is deleted": func(t *testing.T, a *albumRig) {
		assert.Equal(t, 204, a.c.request("DELETE", "", nil).StatusCode)
		a.c = a.connect("2025-11-25", everything)
	},
	"the server stops": func(t *testing.T, a *albumRig) {
		a.srv.Close()
		a.restart(t)
	},
	"nobody answers": func(*testing.T, *albumRig) { time.Sleep(9*time.Minute + time.Second) },
}

// What the first call has done is undone when it is left: nobody has a token of it.
func TestFirstCallsOfToolsThatYieldAreUndone(t *testing.T) {
	for how, leave := range leaves {
		t.Run(how, func(t *testing.T) {
			eachAlbum(t, func(t *testing.T, a *albumRig) {
				questionOn(a.call(2, `{"first":true}`, ""))
				a.requireHeld(1, "it waits")
				leave(t, a)
				a.requireHeld(0, "it is undone")
			})
		})
	}
}

// A call with a token is not undone when it is left: its client can come back with the token.
func TestCallsWithATokenAreNotUndone(t *testing.T) {
	for how, leave := range leaves {
		t.Run(how, func(t *testing.T) {
			eachAlbum(t, func(t *testing.T, a *albumRig) {
				token := a.token(`{}`)
				questionOn(a.call(2, `{}`, token))
				leave(t, a)
				a.requireHeld(1, "it is left as it was")
				a.requireGoesOn(token)
			})
		})
	}
}

// Nor is one that its client has forgotten, which went on with its token in another call.
func TestForgottenCallsUndoNothing(t *testing.T) {
	for how, leave := range leaves {
		t.Run(how, func(t *testing.T) {
			eachAlbum(t, func(t *testing.T, a *albumRig) {
				token, forgotten := a.token(`{}`), a.c
				questionOn(a.call(2, `{}`, token))
				a.c = a.connect("2025-11-25", everything)
				a.requireGoesOn(token)
				a.c = forgotten
				leave(t, a)
				a.requireHeld(2, "what has ended well stays")
			})
		})
	}
}

// A client that is not answered in time reads that it may ask again.
func TestLateAnswersOfCallsWithAToken(t *testing.T) {
	eachAlbum(t, func(t *testing.T, a *albumRig) {
		s := a.call(2, `{}`, a.token(`{}`))
		q := questionOn(s)
		e := s.wait("") // nine minutes later
		require.NotNil(t, e.Error, e.data)
		assert.Equal(t, "no answer came in time; the same resumeToken asks again, as long as it is good", e.Error.Message)
		a.c.vain(q.ID, goOnYes)
		a.requireHeld(1, "it is left as it was")
	})
}

// A turn that breaks off after a question can be taken again, from the token before the question.
func TestTurnsThatBreakOffAfterAQuestion(t *testing.T) {
	for how, fault := range map[string]func(context.Context) error{
		"panic":   func(context.Context) error { panic("oops") },
		"timeout": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(how, func(t *testing.T) {
			eachAlbum(t, func(t *testing.T, a *albumRig) {
				token := a.token(`{}`)
				s := a.call(2, `{}`, token)
				a.printing = fault
				a.c.reply(questionOn(s).ID, goOnYes)
				e := s.wait("")
				require.NotNil(t, e.Error, e.data)
				a.requireHeld(1, "its client has a token")
				a.printing = nil
				a.requireGoesOn(token)

				a.printing = fault
				s = a.call(3, `{"first":true}`, "")
				a.c.reply(questionOn(s).ID, goOnYes)
				s.wait("")
				a.requireHeld(2, "before the first part nobody has one")
			})
		})
	}
}

// Who cancels a call wants it undone, with or without a token, whatever it does at the moment.
func TestCancelledCallsOfToolsThatYieldAreUndone(t *testing.T) {
	hanging := func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
	for at, reach := range map[string]func(a *albumRig){
		"the first call asks":        func(a *albumRig) { questionOn(a.call(2, `{"first":true}`, "")) },
		"a call with a token asks":   func(a *albumRig) { questionOn(a.call(2, `{}`, a.token(`{}`))) },
		"a call with a token prints": func(a *albumRig) { a.printing = hanging; a.call(2, `{"quick":true}`, a.token(`{"quick":true}`)) },
		"and after it was answered": func(a *albumRig) {
			s := a.call(2, `{}`, a.token(`{}`))
			a.printing = hanging
			a.c.reply(questionOn(s).ID, goOnYes)
		},
	} {
		t.Run(at, func(t *testing.T) {
			eachAlbum(t, func(t *testing.T, a *albumRig) {
				reach(a)
				a.requireHeld(1, "it is under way")
				assert.Equal(t, 202, a.c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`).StatusCode)
				a.requireHeld(0, "it is undone")
			})
		})
	}
}

// The token also cancels a saga whose call asks. With a ledger, what is answered after that comes too late.
func TestResumeTokensCancelCallsThatAsk(t *testing.T) {
	eachAlbum(t, func(t *testing.T, a *albumRig) {
		token := a.token(`{}`)
		s := a.call(2, `{}`, token)
		q := questionOn(s)
		cancelled := a.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"tools/cancelSaga","params":{"sagaToken":%q}}`, token))
		assert.Equal(t, []string{"hold"}, undone(t, cancelled))
		a.requireHeld(0, "it is undone")
		if a.store == nil {
			return
		}
		a.c.reply(q.ID, goOnYes)
		e := s.wait("")
		assert.Equal(t, -32602, partOf(t, e.legacyMessage, e.data).code, e.data)
		a.requireHeld(0, "and stays so")
	})
}

// A request that is repeated in its session takes the place of the first one, and undoes nothing.
func TestCallsWithATokenAreRepeated(t *testing.T) {
	eachAlbum(t, func(t *testing.T, a *albumRig) {
		token := a.token(`{}`)
		questionOn(a.call(7, `{}`, token))
		if a.store == nil {
			e := a.c.ask(fmt.Sprintf(albumCall, 7, `{}`, `,"resumeToken":"`+token+`"`))
			assert.Contains(t, e, "the id is in use")
			a.requireHeld(1, "it waits")
			return
		}
		a.requireGoesOn(token) // by a request of the same id
	})
}

// A part that is repeated is the same, but for the time for which its token is still good.
func TestRepeatedPartsSayHowLongTheirTokensAreGood(t *testing.T) {
	eachAlbum(t, func(t *testing.T, a *albumRig) {
		if a.store == nil {
			return // the turn is taken again, and the next token is another one
		}
		call := a.modernPaging()
		params := object{"name": "album", "arguments": object{}, "_meta": object{"io.github.mcpsaga/idempotencyKey": "k"}}
		first := call(params)
		require.NotEmpty(t, first.NextResumeToken, first.raw)
		ttl := first.Meta[tokenTTLMeta].(float64)
		time.Sleep(time.Minute)
		again := call(params)
		assert.InDelta(t, ttl-60_000, again.Meta[tokenTTLMeta], 1)
		assert.Equal(t, first.raw, strings.Replace(again.raw, fmt.Sprint(ttl-60_000), fmt.Sprint(ttl), 1))
	})
}

// After several questions in one call the same token asks the last one again, if there is a ledger.
func TestTheSameTokenAsksTheLastQuestion(t *testing.T) {
	second := &steps.Form[goOnForm]{ID: "second", Message: "Really?"}
	s := new(seats)
	hold := &saga.Effect[string, string]{Name: "hold", Do: s.hold, Undo: s.release}
	tool := saga.Flow[struct{}, string]{Info: saga.Info{Name: "album", Asks: []steps.Question{goOn, second}, Effects: []saga.Declared{hold}, Yields: true}, Run: func(r *saga.Run, _ struct{}) (string, error) {
		if err := r.Yield(content.Textf("part 1")); err != nil {
			return "", err
		}
		if _, err := saga.Ask(r, goOn); err != nil {
			return "", err
		}
		if _, err := saga.Do(r, hold, "7"); err != nil {
			return "", err
		}
		_, err := saga.Ask(r, second)
		return "the end", err
	}}
	store := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	a := &albumRig{rig: newRig(t, server.Options{Ledger: store, Tools: []saga.Definition{tool}})}
	a.c = a.connect("2025-11-25", everything)
	token := a.token(`{}`)
	left := a.call(2, `{}`, token)
	a.c.reply(questionOn(left).ID, goOnYes)
	questionOn(left)
	assert.Equal(t, 204, a.c.request("DELETE", "", nil).StatusCode)

	a.c = a.connect("2025-11-25", everything)
	again := a.call(3, `{}`, token)
	q := questionOn(again)
	assert.Contains(t, string(q.Params), "Really?")
	a.c.reply(q.ID, goOnYes)
	assert.Contains(t, again.wait("").data, "the end")
	held, calls := s.now()
	assert.Equal(t, [2]int{1, 1}, [2]int{held, calls})
}

// A closed standard input leaves a call with a token as it was.
func TestClosedInputLeavesCallsWithAToken(t *testing.T) {
	a, keys := new(album), newKeys(t)
	open := func() *legacyPipe {
		s, err := server.New(server.Options{Keys: keys, Tools: []saga.Definition{a.tool()}, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		return newLegacyPipeTo(t, "2025-11-25", s)
	}
	p := open()
	p.send(fmt.Sprintf(albumCall, 1, `{}`, ""))
	line := p.line()
	token := partOf(t, parseLegacy(t, line), line).NextResumeToken
	resume := fmt.Sprintf(albumCall, 2, `{}`, `,"resumeToken":"`+token+`"`)
	p.send(resume)
	require.Equal(t, "elicitation/create", p.message().Method)
	require.NoError(t, p.in.Close())
	_, _ = io.Copy(io.Discard, p.read)
	held, _ := a.now()
	require.Equal(t, 1, held)

	p = open()
	p.send(resume)
	p.reply(p.message(), goOnYes)
	assert.Contains(t, p.line(), "the end")
	held, _ = a.now()
	assert.Equal(t, 2, held)
}
