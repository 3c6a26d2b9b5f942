package turns

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/steps"
)

// The digest of the arguments is the saga's own: what fits one, found at leisure,
// fits no other.
func TestDigestsOfArgumentsBelongToTheirSaga(t *testing.T) {
	args := json.RawMessage(`{"to":"Ann"}`)
	one, err := digestArguments(tokens.ID{1}, args)
	require.NoError(t, err)
	other, err := digestArguments(tokens.ID{2}, args)
	require.NoError(t, err)
	require.NotEqual(t, one, other)
	spelt, err := digestArguments(tokens.ID{1}, json.RawMessage(` { "to" : "\u0041nn" } `))
	require.NoError(t, err)
	require.Equal(t, one, spelt)

	// The client cannot know the saga's id before it has chosen the arguments.
	r := newRunner(t, leakMachine(func(leakArgs) struct{} { return struct{}{} }))
	q := Request{Policy: Resent, Client: steps.AllFeatures(), Program: r.Registry.Find(engine.KindTool, "t"), Arguments: json.RawMessage(`{"key":"value"}`)}
	call := func() tokens.Claims {
		begun, err := r.Call(t.Context(), q)
		require.NoError(t, err)
		x, _, err := r.Codec.OpenAnyTime(tokens.Binding{Purpose: q.Policy.Purpose}, time.Now(), begun.Token)
		require.NoError(t, err)
		return x.Claims
	}
	first, second := call(), call()
	require.Len(t, first.Request, 16)
	require.NotEqual(t, first.ID, second.ID)
	require.NotEqual(t, first.Request, second.Request)
}
