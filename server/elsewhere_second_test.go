package server_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/store/intercept"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// A model whose answer comes second, at the same moment as another at another replica, is told that it was not taken, and
// what is asked now, or how the call has ended.
func TestAnswersThatComeSecond(t *testing.T) {
	s, keys, shared := new(seats), newKeys(t), inMemory(t)
	var meanwhile func()
	racing := &intercept.Store{Store: shared, Around: func(_ context.Context, c intercept.Call, next func() error) error {
		if c.Writes() && slices.ContainsFunc(c.Items, func(i store.Item) bool { return i.Kind == "answer" }) && meanwhile != nil {
			first := meanwhile
			meanwhile = nil
			first()
		}
		return next()
	}}
	o := server.Options{Keys: keys, Ledger: racing, Tools: []saga.Definition{s.tool()}}
	one := newRig(t, o)
	o.Ledger = shared
	other := newRig(t, o)
	first := waitsOf(t, one.send(callTool("seat", nil)).Result)

	meanwhile = func() { waitsOf(t, other.send(relay("seat", first, object{"row": object{"row": "7"}})).Result) }
	second := waitsOf(t, one.send(relay("seat", first, object{"row": object{"row": "8"}})).Result)
	assert.True(t, second.isError)
	assert.Contains(t, second.Message, `No answer was taken: there is no open question "row", or it was answered before.`)
	require.Len(t, second.Questions, 1)
	assert.Equal(t, "sure", second.Questions[0].ID)

	meanwhile = func() { other.send(relay("seat", second, object{"sure": object{"sure": true}})) }
	end := saidBy(t, one.send(relay("seat", second, object{"sure": object{"sure": false}})).Result)
	require.Len(t, end.Content, 2, "%+v", end)
	assert.Contains(t, end.Content[0].Text, "No answer was taken")
	assert.Equal(t, "seat in 7", end.Content[1].Text)
}
