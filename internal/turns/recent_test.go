package turns

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
)

// A server that goes on from what it has written itself reads nothing, and takes no turn that
// another has taken meanwhile.
func TestWhatAServerWroteItself(t *testing.T) {
	for name, change := range map[string]func(*saga.Info){
		"acting": nil,
		"not acting": func(i *saga.Info) {
			i.SingleUse = saga.SingleUseRequired
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			s := newShared(t, w.trip(change))
			a, b := s.replica(), s.replica()
			first := a.begin(t, `{"to":"Rome"}`)
			second, err := a.resume(first.Token, say("where", true))
			require.NoError(t, err)
			a.line.ops = nil
			answer := name == "acting" // whether to pay
			theirs, err := b.resume(second.Token, say("pay", answer))
			require.NoError(t, err)
			same, err := a.resume(second.Token, say("pay", answer))
			require.NoError(t, err)
			assert.Equal(t, told(t, theirs), told(t, same))
			_, err = a.resume(second.Token, say("pay", !answer))
			spent(t, err)
			_, err = a.resume(first.Token, say("where", false))
			spent(t, err)
			want := []string{"hold"}
			if answer {
				want = append(want, "charge")
			}
			assert.Equal(t, want, w.calls)

			first, err = a.call(`{"to":"Oslo"}`)
			require.NoError(t, err)
			a.line.ops = nil
			second, err = a.resume(first.Token, say("where", true))
			require.NoError(t, err)
			assert.NotContains(t, a.line.ops, "load")
			_, err = a.resume(first.Token, say("where", false))
			spent(t, err)
			a.line.ops = nil
			_, err = a.resume(second.Token, say("pay", answer))
			require.NoError(t, err)
			assert.NotContains(t, a.line.ops, "load")

			w.calls = nil
			first, err = a.call(`{"to":"Bonn"}`)
			require.NoError(t, err)
			theirs, err = b.resume(first.Token, say("where", true))
			require.NoError(t, err)
			same, err = a.resume(first.Token, say("where", true))
			require.NoError(t, err)
			assert.Equal(t, told(t, theirs), told(t, same))
			_, err = a.resume(first.Token, say("where", false))
			spent(t, err)
			assert.Equal(t, []string{"hold"}, w.calls)
		})
	}
}
