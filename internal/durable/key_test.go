package durable_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
)

// An idempotency key is that of one call, by one protocol, as a task or not. The same call leads to the same
// saga, and all others are refused.
func TestAKeyIsOfOneCall(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		d := newDesk()
		effect := &saga.Effect[hold, string]{Name: "hold", Do: d.do, Undo: d.undo}
		m := r.manager(nil, single("holds", func(t *turn) (saga.Next, error) {
			if _, err := saga.Do(t, effect, hold{Task: "x", What: "a"}); err != nil {
				return nil, err
			}
			return t.Textf("held")
		}, effect))
		m.Turns.Remember(m)
		r.work(m)
		request := func(key string, p turns.Policy) tasks.Start {
			s := call(m, "holds", "")
			s.Request.Policy, s.Request.IdempotencyKey = p, key
			return s
		}
		once := func(p turns.Policy) func(string) error {
			return func(key string) error {
				_, err := m.Turns.Call(t.Context(), request(key, p).Request)
				return err
			}
		}
		task := func(p turns.Policy, id string) func(string) error {
			return func(key string) error {
				s := request(key, p)
				if id != "" {
					s.ID = id + key
				}
				_, err := m.Start(t.Context(), s)
				return err
			}
		}
		ways := []func(key string) error{once(turns.Carried), once(turns.Resent), task(turns.Resent, ""), task(turns.Held, ""), task(turns.Policy{Purpose: "operation"}, "own")}
		for i, one := range ways {
			for j, other := range ways {
				key := string(rune('a'+i)) + string(rune('a'+j))
				require.NoError(t, one(key))
				switch again := other(key); {
				case i != j:
					assert.ErrorIs(t, again, turns.ErrKeyReused, key)
				case i == len(ways)-1:
					assert.ErrorIs(t, again, tasks.ErrExists)
				default:
					assert.NoError(t, again)
				}
			}
		}
		time.Sleep(time.Minute)
		_, keys := d.left("x")
		assert.Len(t, keys, len(ways)*len(ways), "each once")
	})
}
