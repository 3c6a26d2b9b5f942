// Package deferred has flows that defer what they must not, and some that may.
package deferred

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"sync"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type form struct {
	Sure bool `json:"sure"`
}

type hold struct {
	ID string `json:"id"`
}

var (
	askSure = &steps.Form[form]{ID: "sure", Message: "Sure?"}
	room    = &saga.Effect[string, hold]{Name: "room", Do: take, Undo: release}
)

func take(context.Context, saga.Key, string) (hold, error) { return hold{}, nil }

func release(context.Context, saga.Performed[string, hold]) error { return nil }

func free(hold) {}

func giveBack(id string) { free(hold{id}) }

func undoByHand(r *saga.Run) (err error) {
	defer room.Undo(r, saga.Performed[string, hold]{Key: "key"}) // want `an effect's Undo in a defer`
	_, err = saga.Ask(r, askSure)
	return err
}

func undoInLiteral(r *saga.Run) (err error) {
	defer func() { // want `an effect's Undo in a defer`
		if err != nil {
			_ = room.Undo(r, saga.Performed[string, hold]{Key: "key"})
		}
	}()
	_, err = saga.Ask(r, askSure)
	return err
}

func undoBehindFunction(r *saga.Run) (err error) {
	defer undoRoom(r) // want `an effect's Undo in a defer`
	_, err = saga.Ask(r, askSure)
	return err
}

func undoRoom(ctx context.Context) { _ = room.Undo(ctx, saga.Performed[string, hold]{Key: "key"}) }

func onError(r *saga.Run) (err error) {
	h, err := saga.Do(r, room, "single")
	if err != nil {
		return err
	}
	defer func() { // want `this defer runs whenever the flow suspends, as the error is then not nil either. Make it the Undo of an effect`
		if err != nil && h.ID != "" {
			giveBack(h.ID)
		}
	}()
	_, err = saga.Ask(r, askSure)
	return err
}

type world struct{ held []string }

func storing(r *saga.Run, w *world) (err error) {
	defer func() { // want `this defer runs whenever the flow suspends`
		if err == nil {
			return
		}
		w.held = nil
	}()
	_, err = saga.Ask(r, askSure)
	return err
}

func withFlag(r *saga.Run) error {
	done := false
	defer func() { // want `this defer runs whenever the flow suspends`
		if !done {
			giveBack("all")
		}
	}()
	if _, err := saga.Ask(r, askSure); err != nil {
		return err
	}
	done = true
	return nil
}

func byPointer(r *saga.Run) (err error) {
	defer rollBack(&err) // want `this defer runs whenever the flow suspends`
	_, err = saga.Ask(r, askSure)
	return err
}

func rollBack(err *error) {
	if *err != nil {
		giveBack("all")
	}
}

func always(r *saga.Run) error {
	h, err := saga.Do(r, room, "single")
	if err != nil {
		return err
	}
	defer free(h) // want `this defer gives up what an effect has done`
	_, err = saga.Ask(r, askSure)
	return err
}

func alwaysInLiteral(r *saga.Run) error {
	h, err := saga.Do(r, room, "single")
	if err != nil {
		return err
	}
	defer func() { giveBack(h.ID) }() // want `this defer gives up what an effect has done`
	_, err = saga.Ask(r, askSure)
	return err
}

func effectInDefer(r *saga.Run) error {
	defer func() { _, _ = saga.Do(r, room, "single") }() // want `an effect or a question in a defer`
	_, err := saga.Ask(r, askSure)
	return err
}

// What follows is as it should be.

func closing(r *saga.Run, c io.Closer, mu *sync.Mutex) (err error) {
	mu.Lock()
	defer mu.Unlock()
	defer c.Close()
	defer func() {
		if e := c.Close(); e != nil {
			log.Print(e)
		}
	}()
	_, err = saga.Ask(r, askSure)
	return err
}

func wrapping(r *saga.Run) (out string, err error) {
	defer func() {
		if err != nil {
			out, err = "", fmt.Errorf("visit: %w", err)
		}
	}()
	_, err = saga.Ask(r, askSure)
	return "done", err
}

func telling(r *saga.Run) (err error) {
	h, err := saga.Do(r, room, "single")
	if err != nil {
		return err
	}
	defer log.Println("held", h)
	defer func() {
		if err != nil {
			log.Print("not yet: ", h.ID, err)
		}
	}()
	_, err = saga.Ask(r, askSure)
	return err
}

func recognised(r *saga.Run) (err error) {
	defer func() {
		if errors.Is(err, steps.ErrDeclined) {
			giveBack("what somebody else keeps")
		}
	}()
	_, err = saga.Ask(r, askSure)
	return err
}

// Nothing suspends after the defer.
func afterwards(r *saga.Run, f io.Closer) (err error) {
	if _, err := saga.Ask(r, askSure); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			giveBack("temporary file")
		}
	}()
	return f.Close()
}

// Not a flow.
func machine(t *saga.Turn[form, form]) (next saga.Next, err error) {
	defer func() {
		if err != nil {
			giveBack("all")
		}
	}()
	return t.Ask("sure", askSure)
}
