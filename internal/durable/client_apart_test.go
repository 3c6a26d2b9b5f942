package durable_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// noise is text that does not get shorter by compression.
func noise(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%x", sha256.Sum256([]byte{byte(i), byte(i >> 8), byte(i >> 16)}))
	}
	return b.String()[:n]
}

type textState struct {
	Text string `json:"text"`
}

// keeper is a tool that keeps a text while it asks.
func keeper(text string, short bool) saga.Definition {
	return saga.Machine[none, textState]{
		Info: saga.Info{Name: "t", Asks: []steps.Question{sureAsk}, ShortTokens: short},
		Start: func(t *saga.Turn[none, textState]) (saga.Next, error) {
			t.State.Text = text
			return t.Ask("end", sureAsk)
		},
		Steps: saga.Steps[none, textState]{"end": func(t *saga.Turn[none, textState]) (saga.Next, error) {
			return t.Textf("%v", t.State.Text == text)
		}},
	}
}

// What is too long for a token is kept in the ledger, under the client's token alone.
func TestLargeStates(t *testing.T) {
	large := noise(300_000)
	for name, test := range map[string]struct {
		short, ledger bool
		state         string
		policy        turns.Policy
		least, most   int // characters
	}{
		"large":                  {ledger: true, state: large, policy: turns.Carried, most: 300},
		"large, resent":          {ledger: true, state: large, policy: turns.Resent, most: 300},
		"short on demand":        {ledger: true, short: true, state: noise(2000), policy: turns.Carried, most: 300},
		"not large":              {ledger: true, state: noise(2000), policy: turns.Carried, least: 1000, most: 4000},
		"short without a ledger": {short: true, state: noise(2000), policy: turns.Carried, least: 1000, most: 4000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tool := keeper(test.state, test.short)
				s := newFleet(t, tool)
				a := s.replica(func(c *clientConfig) {
					if !test.ledger {
						c.forgets = true
					}
				})
				q := turns.Request{Policy: test.policy, Principal: "ann", Client: steps.AllFeatures(), Program: a.Registry.Find(engine.KindTool, "t"), Arguments: json.RawMessage(`{}`)}
				first, err := a.Call(t.Context(), q)
				require.NoError(t, err)
				assert.LessOrEqual(t, len(first.Token), test.most)
				assert.GreaterOrEqual(t, len(first.Token), test.least)
				q.Token, q.Answers = first.Token, sure(true)
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
				require.ErrorIs(t, err, turns.ErrLedger)
				a.line.on(nil)

				// Another server's ledger does not have it.
				elsewhere := newFleet(t, tool)
				elsewhere.keys = s.keys
				for _, change := range []func(*clientConfig){func(*clientConfig) {}, func(c *clientConfig) { c.forgets = true }} {
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

// A blob is of no use to a server that finds another in its place.
func TestBlobsAreBoundToTheirToken(t *testing.T) {
	s := newFleet(t, keeper("value", true))
	seen := &seeing{Store: s.store}
	a := s.replica(func(c *clientConfig) { c.Store = seen })
	q := turns.Request{Policy: turns.Carried, Client: steps.AllFeatures(), Program: a.Registry.Find(engine.KindTool, "t"), Arguments: json.RawMessage(`{}`)}
	first, err := a.Call(t.Context(), q)
	require.NoError(t, err)
	require.Len(t, seen.records, 1)
	assert.NotContains(t, string(seen.records[0].State), "value")
	x, _, err := a.Codec.OpenAnyTime(tokens.Binding{Purpose: "saga"}, time.Now(), first.Token)
	require.NoError(t, err)
	id := [16]byte(x.Secret[1:17])
	s.store = store.NewMemory(nil)
	a = s.replica()
	require.NoError(t, a.core.PutBlob(t.Context(), "", "", id, []byte("other"), time.Now().Add(time.Hour)))
	q.Token, q.Answers = first.Token, sure(true)
	_, err = a.Resume(t.Context(), q)
	var rejected *tokens.Rejected
	require.ErrorAs(t, err, &rejected)
	assert.ErrorContains(t, rejected.Detail, "another one")
}
