// Package storetest checks that a [store.Store] does what package store says:
//
//	func TestContract(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Open {
//			path := filepath.Join(t.TempDir(), "ledger.db")
//			return func() store.Store { … }
//		})
//	}
package storetest

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// Open returns a store that keeps the same records as all others that it has returned: as another
// process would see them. Where a store cannot be shared it is the same one.
type Open func() store.Store

// Run runs all checks, each on records of its own.
func Run(t *testing.T, empty func(t *testing.T) Open) {
	for name, check := range map[string]func(*testing.T, rig){
		"Write": testWrite, "Refused": testRefused, "Bytes": testBytes, "Fences": testFences, "Requests": testRequests, "Accounts": testAccounts,
		"Signal": testSignal, "Floor": testFloor, "Log": testLog, "Listen": testListen,
		"Take": testTake, "TakeOrder": testTakeOrder, "Leases": testLeases, "Renew": testRenew,
		"ListOwned": testListOwned, "ListStatuses": testListStatuses, "Forget": testForget, "Identity": testIdentity,
		"OneWinner": testOneWinner, "NoSignalIsLost": testNoSignalIsLost, "EachIsTakenOnce": testEachIsTakenOnce,
		"Ends": testEnds, "Model": testModel,
	} {
		t.Run(name, func(t *testing.T) {
			open := empty(t)
			s := open()
			t.Cleanup(func() { assert.NoError(t, s.Close()) })
			check(t, rig{s, open})
		})
	}
}

// rig is what a check works with.
type rig struct {
	store.Store
	open Open
}

// another opens the store as another process would.
func (r rig) another(t *testing.T) store.Store {
	t.Helper()
	other := r.open()
	if other != r.Store {
		t.Cleanup(func() { assert.NoError(t, other.Close()) })
	}
	return other
}

// newID returns a random ID.
func newID() (id store.ID) {
	rand.Read(id[:]) // never fails
	return id
}

// sample is a record to be created.
func sample() *store.Record {
	return &store.Record{
		ID: newID(), Audience: "a", Owner: store.ID{1}, Account: store.ID{2}, Tool: "t", Revision: 3, Format: 1,
		Mode: store.ModeTask, Status: store.Waiting, Summary: []byte("summary"), State: []byte("state"),
	}
}

// items are items with these bodies.
func items(bodies ...string) (list []store.Item) {
	for _, b := range bodies {
		list = append(list, store.Item{Kind: "k", Lasting: true, Body: []byte(b)})
	}
	return list
}

// change is a write that appends items.
func change(bodies ...string) store.Change { return store.Change{Items: items(bodies...)} }

// create writes a new record, changed first.
func (r rig) create(t *testing.T, c store.Change, edits ...func(*store.Record)) *store.Record {
	t.Helper()
	rec := sample()
	for _, edit := range edits {
		edit(rec)
	}
	require.NoError(t, r.Write(t.Context(), rec, c))
	return rec
}

// load loads a record.
func (r rig) load(t *testing.T, id store.ID) *store.Record {
	t.Helper()
	rec, err := r.Load(t.Context(), id)
	require.NoError(t, err)
	return rec
}

// bodies are those of a record's log.
func (r rig) bodies(t *testing.T, id store.ID) (list []string) {
	t.Helper()
	l, err := r.Log(t.Context(), id, 0, 1<<20)
	require.NoError(t, err)
	for _, i := range l.Items {
		list = append(list, string(i.Body))
	}
	return list
}

// now is the store's time.
func (r rig) now(t *testing.T) time.Time {
	t.Helper()
	now, err := r.Check(t.Context())
	require.NoError(t, err)
	return now
}

// patience is how long a check waits for what has to happen soon.
const patience = 20 * time.Second

// within returns a context for what has to happen soon.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}
