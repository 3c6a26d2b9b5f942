package turns

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// turnOf returns a function that takes a second turn, of a tool that asks. Without a ledger,
// or if the tool needs none, it is the same turn again and again.
func turnOf(t testing.TB, use saga.SingleUse, store ledger.Store) func() {
	tool := leakMachine(func(a leakArgs) leakState { return leakState(a) }).(saga.Machine[leakArgs, leakState])
	tool.SingleUse = use
	r := newRunner(t, saga.Machine[leakArgs, leakState]{Info: saga.Info{Name: tool.Name, Asks: tool.Asks}, Start: tool.Start, Steps: tool.Steps})
	if store != nil {
		tools, err := engine.NewRegistry(tool)
		require.NoError(t, err)
		config := r.Config
		config.Ledger, config.Registry, config.LedgerLimit = store, tools, -1
		r, err = New(config)
		require.NoError(t, err)
	}
	q := Request{Policy: Carried, Client: steps.AllFeatures(), Program: r.Registry.Find(engine.KindTool, "t"), Arguments: json.RawMessage(`{"key":"value"}`)}
	first, err := r.Call(t.Context(), q)
	require.NoError(t, err)
	begin := q
	q.Token, q.Answers = first.Token, answer(true)
	return func() {
		if use == saga.SingleUseRequired {
			first, err := r.Call(t.Context(), begin)
			if err != nil {
				t.Fatal(err)
			}
			q.Token = first.Token
		}
		if _, err := r.Resume(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkRemembered is one turn, by what there is to remember it; the last one is two turns.
func BenchmarkRemembered(b *testing.B) {
	for _, test := range []struct {
		name  string
		use   saga.SingleUse
		store bool
	}{{"no-ledger", 0, false}, {"not-needed", 0, true}, {"remembered", saga.SingleUseRequired, true}} {
		b.Run(test.name, func(b *testing.B) {
			var store ledger.Store
			if test.store {
				store = ledger.NewMemory(ledger.MemoryOptions{})
				defer func() { _ = store.Close() }()
			}
			turn := turnOf(b, test.use, store)
			b.ReportAllocs()
			for b.Loop() {
				turn()
			}
		})
	}
}

// A ledger costs those nothing who do not need it.
func TestLedgerThatIsNotNeededCostsNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector has pools lose what they hold")
	}
	store := ledger.NewMemory(ledger.MemoryOptions{})
	defer func() { _ = store.Close() }()
	least := func(turn func()) float64 { // pools are emptied now and then
		n := testing.AllocsPerRun(100, turn)
		for range 5 {
			n = min(n, testing.AllocsPerRun(100, turn))
		}
		return n
	}
	without := least(turnOf(t, 0, nil))
	assert.LessOrEqual(t, least(turnOf(t, 0, store)), without)
	assert.Greater(t, least(turnOf(t, saga.SingleUseRequired, store)), 2*without)
}
