package server_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// What is said of a token that leads to nothing is true of all that it may have named, and does not lead a model to do
// twice what stands.
func TestForgottenCallsMayStand(t *testing.T) {
	saysSo := func(t *testing.T, got toolSaid) {
		t.Helper()
		assert.True(t, got.IsError)
		text := got.Content[0].Text
		assert.Contains(t, text, notValid)
		assert.Contains(t, text, "what it did may stand: find out what has been done, and ask the user, before you call the tool without")
		assert.NotContains(t, text, "undone")
	}
	row, sure := object{"row": object{"row": "7"}}, object{"sure": object{"sure": true}}
	t.Run("ended well, and forgotten", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			s, store := new(seats), ledger.NewMemory(ledger.MemoryOptions{})
			defer store.Close()
			r := newRig(t, server.Options{Ledger: store, Tools: []saga.Definition{s.tool()}, TokenTTL: time.Minute})
			first := waitsOf(t, r.send(callTool("seat", nil)).Result)
			waitsOf(t, r.send(relay("seat", first, row)).Result)
			assert.Equal(t, "seat in 7", r.send(relay("seat", first, sure)).result(t).text())
			time.Sleep(time.Hour) //sagavet:ignore in virtual time
			synctest.Wait()
			saysSo(t, saidBy(t, r.send(relay("seat", first, nil)).Result))
			held, _ := s.now()
			assert.Equal(t, 1, held, "it stands")
			r.srv.Close()
		})
	})
	for _, remembers := range []bool{false, true} {
		t.Run(map[bool]string{true: "mistyped", false: "mistyped, no ledger"}[remembers], func(t *testing.T) {
			s, o := new(seats), server.Options{Keys: newKeys(t)}
			if o.Tools = []saga.Definition{s.tool()}; remembers {
				o.Ledger = inMemory(t)
			}
			r := newRig(t, o)
			second := waitsOf(t, r.send(relay("seat", waitsOf(t, r.send(callTool("seat", nil)).Result), row)).Result)
			wrong := second
			wrong.ResumeToken = second.ResumeToken[:len(second.ResumeToken)-3]
			saysSo(t, saidBy(t, r.send(relay("seat", wrong, sure)).Result))
			o.Keys = newKeys(t)
			saysSo(t, saidBy(t, newRig(t, o).send(relay("seat", second, sure)).Result)) // a server without the key
			held, _ := s.now()
			assert.Equal(t, 1, held, "it waits")
			assert.Equal(t, "seat in 7", r.send(relay("seat", second, sure)).result(t).text())
		})
	}
}
