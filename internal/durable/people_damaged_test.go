package durable_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// A saga that cannot be read takes nothing from the lists of those who are waited for in others.
func TestAnUnreadableSagaHidesNoOthersFromLists(t *testing.T) {
	opens := map[string]error{"damaged": tasks.ErrNotFound, "of a newer program": turns.ErrNewer}
	for name, damage := range map[string]func(*store.Record){
		"damaged":            func(r *store.Record) { r.State[len(r.State)-1] ^= 1 },
		"of a newer program": func(r *store.Record) { r.Format++ },
	} {
		inBubble(t, func(t *testing.T, r *rig) {
			s := newShop()
			m := r.manager(nil, s.approved(nil))
			r.work(m)
			r.start(m, call(m, "buy", "{}"))
			time.Sleep(time.Minute)
			lost := s.given()[0]
			records, err := r.store.List(t.Context(), store.Filter{Audience: "test", Mode: store.ModeTask, Statuses: []store.Status{store.Waiting}}, store.Cursor{}, 10)
			require.NoError(t, err)
			require.Len(t, records, 1)
			r.start(m, call(m, "buy", "{}"))
			time.Sleep(time.Minute)
			require.ElementsMatch(t, s.given(), waitingFor(t, m, "finance"))

			record, err := r.store.Load(t.Context(), records[0].ID)
			require.NoError(t, err)
			record.Fence++
			record.Status, record.Wake = store.Waiting, time.Time{}
			damage(record)
			require.NoError(t, r.store.Write(t.Context(), record, store.Change{Items: []store.Item{{N: record.Head + 1, Kind: "turn"}}}))
			assert.Equal(t, s.given()[1:], waitingFor(t, m, "finance"), name)
			_, err = m.FindAsked(t.Context(), lost)
			require.ErrorIs(t, err, opens[name])
		})
	}
}
