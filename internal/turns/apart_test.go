package turns

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// noise is text that does not get shorter by compression.
func noise(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%x", digestAnswers([]string{"a"}, []steps.Answer{{StepID: "a", Result: fmt.Append(nil, i)}}))
	}
	return b.String()[:n]
}

// What is too long for a token is kept in the ledger, under the client's token alone.
func TestLargeStates(t *testing.T) {
	large := noise(300_000)
	for name, test := range map[string]struct {
		short, ledger bool
		state         string
		policy        Policy
		least, most   int // characters
	}{
		"large":                  {ledger: true, state: large, policy: Carried, most: 300},
		"large, resent":          {ledger: true, state: large, policy: Resent, most: 300},
		"short on demand":        {ledger: true, short: true, state: noise(2000), policy: Carried, most: 300},
		"not large":              {ledger: true, state: noise(2000), policy: Carried, least: 1000, most: 4000},
		"short without a ledger": {short: true, state: noise(2000), policy: Carried, least: 1000, most: 4000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tool := leakMachine(func(a leakArgs) leakState { return leakState{test.state} }).(saga.Machine[leakArgs, leakState])
				tool.ShortTokens = test.short
				tool.Steps["end"] = func(turn *saga.Turn[leakArgs, leakState]) (saga.Next, error) {
					return turn.Textf("%v", turn.State.Key == test.state)
				}
				s := newShared(t, tool)
				a := s.replica(func(c *Config) {
					if !test.ledger {
						c.Ledger = nil
					}
				})
				q := Request{Policy: test.policy, Principal: "ann", Client: steps.AllFeatures(), Program: a.Registry.Find(engine.KindTool, "t"), Arguments: json.RawMessage(`{"key":"value"}`)}
				first, err := a.Call(t.Context(), q)
				require.NoError(t, err)
				assert.LessOrEqual(t, len(first.Token), test.most)
				assert.GreaterOrEqual(t, len(first.Token), test.least)
				q.Token, q.Answers = first.Token, answer(true)
				end, err := a.Resume(t.Context(), q)
				require.NoError(t, err)
				assert.Equal(t, "true", end.Result.Content.Text())
				other := q
				other.Principal = "bob"
				_, err = a.Resume(t.Context(), other)
				require.ErrorIs(t, err, tokens.ErrRejected)
				if test.most > 300 {
					return
				}
				a.line.on(func(int, string) error { return errDead })
				_, err = a.Resume(t.Context(), q)
				require.ErrorIs(t, err, ErrLedger)
				a.line.on(nil)

				// Another server's ledger does not have it.
				elsewhere := newShared(t, tool)
				elsewhere.keys = s.keys
				for _, change := range []func(*Config){func(*Config) {}, func(c *Config) { c.Ledger = nil }} {
					_, err = elsewhere.replica(change).Resume(t.Context(), q)
					var rejected *tokens.Rejected
					require.ErrorAs(t, err, &rejected)
					assert.Equal(t, tokens.ReasonState, rejected.Reason)
				}
				time.Sleep(time.Hour)
				n, err := s.store.Forget(t.Context(), 10)
				require.NoError(t, err)
				assert.Equal(t, 1, n, "it is kept as long as its token opens")
			})
		})
	}
}

// A blob is of no use to who puts another in its place.
func TestBlobsAreBoundToTheirToken(t *testing.T) {
	tool := leakMachine(func(a leakArgs) leakState { return leakState(a) }).(saga.Machine[leakArgs, leakState])
	tool.ShortTokens = true
	s := newShared(t, tool)
	a := s.replica()
	seen := &seeing{Store: s.store}
	a.line.Store = seen
	q := Request{Policy: Carried, Client: steps.AllFeatures(), Program: a.Registry.Find(engine.KindTool, "t"), Arguments: json.RawMessage(`{"key":"value"}`)}
	first, err := a.Call(t.Context(), q)
	require.NoError(t, err)
	require.Len(t, seen.all, 1)
	assert.NotContains(t, string(seen.all[0].Body), "value")
	x, err := a.Codec.Open(tokens.Binding{Purpose: "saga"}, time.Now(), first.Token)
	require.NoError(t, err)
	id := [16]byte(x.Secret[1:17])
	require.NoError(t, s.store.Close())
	s.store = ledger.NewMemory(ledger.MemoryOptions{})
	a = s.replica()
	require.NoError(t, a.records.PutBlob(t.Context(), "", id, []byte("other"), time.Now().Add(time.Hour)))
	q.Token, q.Answers = first.Token, answer(true)
	_, err = a.Resume(t.Context(), q)
	require.ErrorIs(t, err, tokens.ErrRejected)
	assert.ErrorContains(t, err.(*Error).Err.(*tokens.Rejected).Detail, "another one")
}
