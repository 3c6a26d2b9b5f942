package durable_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// limits notes the limits with which rows are written, new ones and others.
type limits struct {
	store.Store
	mu           sync.Mutex
	made, others []int
}

func (s *limits) Write(ctx context.Context, r *store.Record, c store.Change) error {
	s.mu.Lock()
	if r.Head == 0 {
		s.made = append(s.made, c.Most)
	} else {
		s.others = append(s.others, c.Most)
	}
	s.mu.Unlock()
	return s.Store.Write(ctx, r, c)
}

// A saga is counted when its row is made, and not again with each of its turns, which a database would look up.
func TestOnlyNewRowsAreCounted(t *testing.T) {
	_, s := tripFleet(t)
	spy := &limits{Store: s.store}
	a := s.replica(func(c *clientConfig) { c.MaxSagas, c.Store = 3, spy })
	first := a.begin(t, `{"to":"Rome","early":true}`)
	second, err := a.resume(first.Token, say("where", true))
	require.NoError(t, err)
	_, err = a.resume(second.Token, say("pay", true))
	require.NoError(t, err)
	assert.Equal(t, []int{3}, spy.made)
	require.NotEmpty(t, spy.others)
	for _, most := range spy.others {
		assert.Zero(t, most)
	}
}
