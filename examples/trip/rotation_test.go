package main

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/examples/trip/service"
)

// traveller is a client, as far as it has come.
type traveller struct{ city, token string }

// TestRotateKeys rotates the keys of three servers that share a ledger, one server after the
// other, while trips wait for which everything is held: whoever comes back gets it, what the
// others have is given back, and all of it once. Each request goes to another server.
func TestRotateKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a dozen processes")
	}
	t.Parallel()
	d := &duplicates{cluster: newCluster(t, "sqlite", 10*time.Minute)}
	requests := 0
	send := func(m map[string]any) string {
		requests++
		return d.send(t, requests, m)
	}
	are := func(state service.State, list ...traveller) {
		t.Helper()
		for _, v := range list {
			require.Equal(t, []service.State{state, state, state}, d.states(t, v.city), v.city)
		}
	}
	begins := func() traveller {
		city := newCity()
		return traveller{city, tokenOf(t, send(call(city, nil)))}
	}
	holds := func(v traveller) traveller {
		v.token = tokenOf(t, send(resume(v.token, journeyOf(v.city))))
		are(service.Held, v)
		return v
	}
	var booked, released []traveller
	books := func(v traveller) {
		require.Contains(t, send(resume(v.token, journeyOf(v.city), yes)), `"paid":"EUR`)
		booked = append(booked, v)
		are(service.Confirmed, v)
	}
	// leaves has given back what somebody holds who never comes back.
	leaves := func(v traveller) {
		d.giveBack(t, []*trip{{script: script{City: v.city}}})
		all := []service.State{service.Released, service.Released, service.Released}
		require.Eventually(t, func() bool { return slices.Equal(all, d.states(t, v.city)) }, time.Minute, 50*time.Millisecond)
		released = append(released, v)
	}

	// stage changes the keyset, and has one server after the other begin to use it.
	stage := func(change func(*codec.Keyset) (*codec.Keyset, error), meanwhile func()) {
		_, err := codec.KeysetFile{Path: d.keyset}.Update(t.Context(), change)
		require.NoError(t, err)
		for _, p := range d.servers {
			p.kill()
			p.restart(t)
			meanwhile()
		}
	}

	keys, err := codec.LoadKeyset(d.keyset)
	require.NoError(t, err)
	older, newer := keys.Primary().ID, uint32(0)
	add := func(k *codec.Keyset) (next *codec.Keyset, err error) {
		next, newer, err = k.Add(codec.XAES256GCM)
		return next, err
	}
	promote := func(k *codec.Keyset) (*codec.Keyset, error) { return k.Promote(newer) }
	disable := func(k *codec.Keyset) (*codec.Keyset, error) { return k.Disable(older) }
	enable := func(k *codec.Keyset) (*codec.Keyset, error) { return k.Enable(older) }

	repeated := call(newCity(), map[string]any{"io.github.mcpsaga/idempotencyKey": "key"})
	first := send(repeated)
	before := make([]traveller, 6)
	for i := range before {
		before[i] = holds(begins())
	}
	comes, goes, late, gone := begins(), begins(), holds(begins()), holds(begins())
	meanwhile := func() {
		assert.Equal(t, first, send(repeated), "a first call that is repeated")
		books(before[0])
		before = before[1:]
		books(holds(begins()))
	}
	stage(add, meanwhile)
	stage(promote, meanwhile)
	comes, goes = holds(comes), holds(goes) // they began before, and the newer key has sealed what they hold
	leaves(gone)
	stage(disable, func() { books(holds(begins())) })
	books(comes)
	leaves(goes)

	// What only the disabled key opens is refused, and not lost.
	assert.Contains(t, send(resume(late.token, journeyOf(late.city), yes)), `"code":-32602`)
	are(service.Held, late)
	stage(enable, func() {})
	books(late)

	are(service.Confirmed, booked...)
	are(service.Released, released...)
	assert.Len(t, booked, 17)
	if t.Failed() {
		d.logs()
	}
}
