package sagatest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

// This file is the code of docs/testing.md.

type cake struct {
	Flavour string `json:"flavour" title:"Flavour" enum:"lemon|nut"`
}

type consent struct {
	Yes bool `json:"yes" title:"Bake it"`
}

var (
	askCake    = &steps.Form[cake]{ID: "cake", Message: "Which cake would you like?"}
	askConsent = &steps.Form[consent]{ID: "consent", Message: "Shall we bake it?"}
)

// bakery is where cakes are ordered: the tool talks to it in its effects.
type bakery interface {
	Reserve(ctx context.Context, key, flavour string) (slot int, err error)
	Release(ctx context.Context, key string) error
	Bake(ctx context.Context, key string, slot int) error
}

type orderArgs struct {
	For string `json:"for"`
}

// orderCake reserves a slot in the oven, asks for consent, and bakes.
func orderCake(b bakery) saga.Definition {
	reserve := &saga.Effect[string, int]{
		Name: "reserve",
		Do: func(ctx context.Context, key saga.Key, flavour string) (int, error) {
			return b.Reserve(ctx, string(key), flavour)
		},
		Undo: func(ctx context.Context, p saga.Performed[string, int]) error {
			return b.Release(ctx, string(p.Key))
		},
	}
	bake := &saga.Effect[int, bool]{
		Name: "bake", Irreversible: true,
		Do: func(ctx context.Context, key saga.Key, slot int) (bool, error) {
			return true, b.Bake(ctx, string(key), slot)
		},
	}
	return saga.Flow[orderArgs, string]{
		Info: saga.Info{Name: "order_cake", Asks: []steps.Question{askCake, askConsent}, Effects: []saga.Declared{reserve, bake}},
		Run: func(r *saga.Run, in orderArgs) (string, error) {
			cake, err := saga.Ask(r, askCake)
			if err != nil {
				return "", err
			}
			slot, err := saga.Do(r, reserve, cake.Flavour)
			if err != nil {
				return "", err
			}
			consent, err := saga.Ask(r, askConsent.With(steps.Message(fmt.Sprintf("Shall we bake a %s cake in oven %d?", cake.Flavour, slot))))
			if err != nil {
				return "", err
			}
			if !consent.Yes {
				return "", saga.Failf("No cake then.")
			}
			if _, err := saga.Do(r, bake, slot); err != nil {
				return "", err
			}
			return fmt.Sprintf("A %s cake for %s is in oven %d.", cake.Flavour, in.For, slot), nil
		},
	}
}

// fakeBakery is a bakery for tests. It does what the real one must do: it knows
// keys, it does not reserve what was released, and bakes only in a reserved slot.
type fakeBakery struct {
	keys  []string        // by slot, from 1
	gone  map[string]bool // released
	baked map[int]bool
}

func newFakeBakery() *fakeBakery {
	return &fakeBakery{gone: map[string]bool{}, baked: map[int]bool{}}
}

func (b *fakeBakery) slot(key string) int {
	for i, k := range b.keys {
		if k == key {
			return i + 1
		}
	}
	return 0
}

func (b *fakeBakery) Reserve(_ context.Context, key, _ string) (int, error) {
	if b.gone[key] {
		return 0, saga.Refused(errors.New("it was released"))
	}
	if b.slot(key) == 0 {
		b.keys = append(b.keys, key)
	}
	return b.slot(key), nil
}

func (b *fakeBakery) Release(_ context.Context, key string) error {
	if b.baked[b.slot(key)] {
		return errors.New("the cake is baked")
	}
	b.gone[key] = true
	return nil
}

func (b *fakeBakery) Bake(_ context.Context, _ string, slot int) error {
	if b.gone[b.keys[slot-1]] {
		return saga.Refused(errors.New("the slot was released"))
	}
	b.baked[slot] = true
	return nil
}

// cakes counts what is reserved and what is baked.
func (b *fakeBakery) cakes() any {
	reserved := 0
	for _, k := range b.keys {
		if !b.gone[k] {
			reserved++
		}
	}
	return map[string]int{"reserved": reserved, "baked": len(b.baked)}
}

func TestOrder(t *testing.T) {
	played := sagatest.Play(t, orderCake(newFakeBakery()), orderArgs{For: "Ada"},
		sagatest.Accept("cake", cake{Flavour: "nut"}),
		sagatest.Accept("consent", consent{Yes: true}),
	)
	assert.Equal(t, "A nut cake for Ada is in oven 1.", played.Text())
	assert.Equal(t, []string{"lemon", "nut"}, played.Find("cake").Choices("flavour"))
	assert.Equal(t, "Shall we bake a nut cake in oven 1?", played.Find("consent").Message())
	assert.Equal(t, []string{"reserve", "bake"}, played.Effects())
}

func TestOrderDeclined(t *testing.T) {
	played := sagatest.Play(t, orderCake(newFakeBakery()), orderArgs{For: "Ada"},
		sagatest.Accept("cake", cake{Flavour: "nut"}),
		sagatest.Decline("consent"),
	)
	assert.False(t, played.Good())
	assert.Equal(t, []string{"reserve"}, played.Undo().Undone)
}

func TestOrderFromTheMiddle(t *testing.T) {
	bakery := newFakeBakery()
	bakery.keys = []string{"a", "b", "c"}
	middle := sagatest.Player{}.After(sagatest.Accept("cake", cake{Flavour: "nut"})).Performed("reserve", nil, 3)
	played := middle.Play(t, orderCake(bakery), orderArgs{For: "Ada"}, sagatest.Accept("consent", consent{Yes: true}))
	assert.Equal(t, "A nut cake for Ada is in oven 3.", played.Text())
	assert.True(t, bakery.baked[3])
}

var orderCase = sagatest.Case{
	New: func(testing.TB) sagatest.Subject {
		bakery := newFakeBakery()
		return sagatest.Subject{Tool: orderCake(bakery), World: bakery.cakes}
	},
	Args: orderArgs{For: "Ada"},
	Script: []sagatest.Answer{
		sagatest.Accept("cake", cake{Flavour: "nut"}),
		sagatest.Accept("consent", consent{Yes: true}),
	},
	MaxRounds: 2, MaxToken: 600,
}

func TestOrderSweep(t *testing.T) { sagatest.Sweep(t, orderCase) }

func TestOrderJournal(t *testing.T) { sagatest.Journal(t, orderCase) }
