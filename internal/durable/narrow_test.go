package durable_test

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/store/storetest"
	"github.com/mcpsaga/mcpsaga/saga"
)

// narrow is a server's way to the store on which calls fail by kind, so that one guard after the
// other is alone with what has happened.
type narrow struct {
	storetest.Intercept
	// noWrite: nothing is written, nor is a lease renewed. noTake: nothing is taken. noLoad: nothing is
	// read. noListen: it hears of no change.
	noWrite, noTake, noLoad, noListen atomic.Bool
	// noRenew: no lease is renewed, and it does not learn that.
	noRenew atomic.Bool
	hangs   atomic.Bool // what is to be written

	before atomic.Pointer[func()] // called once before something is written or renewed

	mute atomic.Bool  // what is written is there, and the server is not told, nor can it look
	made atomic.Int32 // how often that was
}

func newNarrow(s store.Store) *narrow {
	n := &narrow{Intercept: storetest.Intercept{Store: s}}
	n.Around = n.around
	return n
}

var errNarrow = errors.New("nothing goes through here")

func (n *narrow) around(ctx context.Context, c storetest.Call, next func() error) error {
	switch c.Method {
	case "Renew":
		if n.noRenew.Load() {
			return nil
		}
		return n.write(ctx, c, next)
	case "Write", "Signal", "Check":
		return n.write(ctx, c, next)
	case "Take":
		if n.noTake.Load() {
			return errNarrow
		}
	case "Load", "Find", "Log", "List":
		if n.noLoad.Load() || n.mute.Load() {
			return errNarrow
		}
	}
	return next()
}

func (n *narrow) write(ctx context.Context, c storetest.Call, next func() error) error {
	if f := n.before.Swap(nil); f != nil {
		(*f)()
	}
	if n.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if n.noWrite.Load() {
		return errNarrow
	}
	err := next()
	if err == nil && n.mute.Load() && c.Writes() {
		n.made.Add(1)
		return store.ErrUnknown
	}
	return err
}

// Listen implements [store.Store].
func (n *narrow) Listen(ctx context.Context, changed func(store.ID, uint64)) error {
	return n.Store.Listen(ctx, func(id store.ID, head uint64) {
		if !n.noListen.Load() {
			changed(id, head)
		}
	})
}

// dies has the server neither write nor take anything more.
func (n *narrow) dies() {
	n.noWrite.Store(true)
	n.noTake.Store(true)
}

// next has f be called before what is written next.
func (n *narrow) next(f func()) { n.before.Store(&f) }

// narrowed is a server that has such a way.
func (r *rig) narrowed(tools ...saga.Definition) (*durable.Core, *narrow) {
	n := newNarrow(r.store)
	m, err := durable.New(durable.Config{Turns: r.runner(tools...), Store: n})
	require.NoError(r.t, err)
	return m, n
}

// step runs one function before a task goes on to its end.
func step(run func(t *turn) error, effects ...saga.Declared) saga.Definition {
	return saga.Machine[none, none]{
		Info: saga.Info{Name: "steps", Tasks: optional, Effects: effects},
		Start: func(t *turn) (saga.Next, error) {
			if err := run(t); err != nil {
				return nil, err
			}
			return t.Goto("end")
		},
		Steps: saga.Steps[none, none]{"end": func(t *turn) (saga.Next, error) { return t.Textf("done") }},
	}
}
